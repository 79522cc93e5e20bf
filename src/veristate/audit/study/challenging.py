"""Running a committed paired group again, from the commitment and the study's data as they lie here."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veristate.attest import environment_of
from veristate.audit.study.benches import Bench, Execution
from veristate.audit.study.committing import LIBRARIES, file_digests, groups_of, result_of, shown_of
from veristate.audit.study.deciding import deciders
from veristate.audit.study.opening import open_bench
from veristate.audit.study.running import executed
from veristate.audit.study.spec import StudySpec, read_study
from veristate.audit.tasks import Data
from veristate.core import InputError, UndecidedError, canonical_bytes


def rerun(inputs: Mapping[str, bytes], _seed: bytes, *, folder: Path | None = None) -> bytes:
    """What a committed group's attempts came to, run anew under the study's own seeds.

    Files that the study names are read in `folder`.
    Raises: UndecidedError where a model behind an address answered, or where what fixes the group is other here;
    InputError for inputs that are none of a group.
    """
    try:
        said = json.loads(inputs["group"])
        wanted, keys = tuple(said["group"]), dict(said["keys"])
        spec = _study(inputs["study"], folder)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"the committed inputs are none of a group: {error!r}") from error
    if spec.agent.kind == "endpoint":
        raise UndecidedError(f"{spec.agent.model} at an address answered: whoever runs it may change it")
    _require_files(spec, inputs["files"])
    with deciders(spec.agent) as make_decider:
        bench = open_bench(spec, Data.from_environment(), make_decider)
        plan = groups_of([one for arm in spec.arms for one in bench.executions(arm)])
        members = plan.get(wanted, [])
        here = {str(one.condition): one.key for one in members}
        if here != keys:
            other = ", ".join(name for name in keys if here.get(name) != keys[name])
            raise UndecidedError(f"data, captures or agent here are other than the recorder's: {other or 'conditions'}")
        return result_of([(one.condition, _shown(bench, one)) for one in members])


def environment(_inputs: Mapping[str, bytes]) -> dict[str, str]:
    """This machine's, by the names that a policy of a group gives."""
    return environment_of(*LIBRARIES)


def recorded_folder(inputs: Mapping[str, bytes]) -> Path:
    """Where the recorder had the study. Raises: InputError for inputs that are none of a group."""
    try:
        return Path(json.loads(inputs["group"])["folder"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"the committed inputs are none of a group: {error!r}") from error


def _study(text: bytes, folder: Path | None) -> StudySpec:
    with tempfile.TemporaryDirectory() as above:
        file = Path(above) / "study.toml"
        file.write_bytes(text)
        return read_study(file, folder=folder)


def _require_files(spec: StudySpec, committed: bytes) -> None:
    try:
        found = file_digests(spec)
    except OSError as error:
        raise UndecidedError(f"{error.filename}: {error.strerror}; give the study's folder with --folder") from error
    if canonical_bytes(found) != committed:
        raise UndecidedError("the files that the study names are other than the recorder's; give theirs with --folder")


def _shown(bench: Bench, execution: Execution) -> dict[str, Any]:
    return shown_of(executed(execution, bench.run(execution), transcript="", seconds="0", at=""))
