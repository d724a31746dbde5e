"""Fixtures for real coding agents and a model that plays scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import IS_FULL_SCALE, MngrProgram
from tests.kinds.real.kit import PLACE

# opencode needs half a minute of a whole core to start and stop, so `make test-agents` runs only these two tests.
OPENCODE = ("test_a_permission_is_waited_for", "test_yolo_is_refused_where_more_is_at_stake")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the agents that --agents does not name; `make test-all` names all of them."""
    wanted = config.getoption("--agents").split()
    deselected = [i for i in items if i.path.parent == Path(__file__).parent and _program(i) not in wanted]
    if not IS_FULL_SCALE and not config.option.keyword:
        deselected += [i for i in items if i.path.stem == "test_opencode" and i.name not in OPENCODE]
    items[:] = [i for i in items if i not in deselected]
    config.hook.pytest_deselected(items=deselected)


def _program(item: pytest.Item) -> str:
    """Return the program that a test runs, named as in scripts/agents.sh."""
    kind = getattr(getattr(item, "module", None), "KIND", item.path.stem.removeprefix("test_"))
    version = getattr(getattr(item, "cls", None), "version", "")
    return f"{kind}@{version}" if version else kind


@pytest.fixture(scope="session")
def model() -> Iterator[ModelServer]:
    """One model server for all tests, with a separate session for each name."""
    with ModelServer([]) as server:
        yield server


@pytest.fixture
def coder(mngr: MngrProgram) -> MngrProgram:
    """The mngr program with the coding agents in its PATH, as a user has them installed."""
    program_dirs = [
        str(directory / "node_modules/.bin") for directory in sorted(PLACE.iterdir()) if "@" not in directory.name
    ]
    mngr.env["PATH"] = os.pathsep.join([*program_dirs, mngr.env["PATH"]])
    return mngr
