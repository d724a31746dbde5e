"""Hosts that answer what no host should: it is heard as nonsense, and harms no other host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Mngr
from tests.hosts.boxes import Boxes

RUN = ("--", "sleep", "1000")


@pytest.fixture
def boxes(tmp_path: Path, mngr: Mngr) -> Boxes:
    """Hosts that are directories; `foo` is on the host h1, `good` is here."""
    made = Boxes(tmp_path / "engine")
    mngr.env.update(made.env)
    mngr("create", "foo@h1.box", *RUN)
    mngr("create", "good", *RUN)
    return made


@pytest.mark.parametrize("number", ["99999999999999999999", "\u00b2"])
def test_a_number_that_is_none_breaks_no_list(mngr: Mngr, boxes: Boxes, number: str) -> None:
    agent = mngr.agent("foo")["id"]
    row = f"pane {agent} agent s %1 1 0 {number} 0 title"
    boxes.lie("h1", f"tmux() {{ command tmux \"$@\"; echo '{row}'; }}")
    assert sorted(a["name"] for a in mngr.agents()) == ["foo", "good"]
    mngr("explain", "foo")
    mngr("stop", "@h1.box")  # what it said is remembered
    assert sorted(a["name"] for a in mngr.agents()) == ["foo", "good"]


def test_no_directory_can_be_taken_for_what_tmux_says(mngr: Mngr, boxes: Boxes) -> None:
    """As an agent there can make one."""
    agents = boxes.boxes / "h1/home/.mngr/agents"
    here = mngr.home / "agents"
    for place in (agents, here):
        (one,) = place.glob("a-*")
        (place / f"a-x\npane {one.name} agent s %1 1 0 99999999999999999999 0 t").mkdir()
    assert {a["name"]: a["state"] for a in mngr.agents()} == {"foo": "RUNNING", "good": "RUNNING"}
