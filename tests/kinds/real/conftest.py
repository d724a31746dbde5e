"""Real coding agents, and a model that plays scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import IS_FULL_SCALE, MngrProgram
from tests.kinds.real.kit import PLACE

# To start and stop it takes half a minute of a whole core, so `make test-agents` does it once.
OPENCODE = ("test_a_permission_is_waited_for", "test_yolo_is_refused_where_more_is_at_stake")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the agents that --agents does not name; `make test-all` names all of them."""
    wanted = config.getoption("--agents").split()
    out = [i for i in items if i.path.parent == Path(__file__).parent and _program(i) not in wanted]
    if not IS_FULL_SCALE and not config.option.keyword:
        out += [i for i in items if i.path.stem == "test_opencode" and i.name not in OPENCODE]
    items[:] = [i for i in items if i not in out]
    config.hook.pytest_deselected(items=out)


def _program(item: pytest.Item) -> str:
    """What it runs, named as for scripts/agents.sh."""
    kind = getattr(getattr(item, "module", None), "KIND", item.path.stem.removeprefix("test_"))
    version = getattr(getattr(item, "cls", None), "version", "")
    return f"{kind}@{version}" if version else kind


@pytest.fixture(scope="session")
def model() -> Iterator[ModelServer]:
    """One model for all; a session each for whoever asks by another name."""
    with ModelServer([]) as server:
        yield server


@pytest.fixture
def coder(mngr: MngrProgram) -> MngrProgram:
    """The program where the coding agents are installed, as a user has them."""
    found = [str(place / "node_modules/.bin") for place in sorted(PLACE.iterdir()) if "@" not in place.name]
    mngr.env["PATH"] = os.pathsep.join([*found, mngr.env["PATH"]])
    return mngr
