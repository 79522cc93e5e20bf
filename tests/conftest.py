"""The order of the tests: folders whose files take longest come first, so that none is left over at the end."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONGEST = ("screening", "interfaces", "test_examples.py", "research", "audit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts by folder; within one the order stays."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.relative_to(HERE).parts[0], len(LONGEST)))
