"""Finding the Python function that a task names: `module:function`, or `file.py:function` in the task's folder."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from veristate.core import InputError


def load_function(name: str, folder: Path) -> Callable[..., Any]:
    """The function. A file of the task may import its neighbours.

    Raises: InputError when there is no such module, file or function.
    """
    where, _, attribute = name.partition(":")
    try:
        if where.endswith(".py"):
            sys.path.insert(0, str((folder / where).parent))
            spec = importlib.util.spec_from_file_location(Path(where).stem, folder / where)
            if spec is None or spec.loader is None:
                raise ImportError(f"{where} is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
        function = getattr(module, attribute)
    except (ImportError, AttributeError, OSError) as error:
        raise InputError(f"{name} of the task in {folder} can't be loaded: {error}") from error
    if not callable(function):
        raise InputError(f"{name} of the task in {folder} is no function but a {type(function).__name__}")
    return function  # type: ignore[no-any-return]
