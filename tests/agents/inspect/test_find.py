"""Tests of the search for the agent that a user named."""

from __future__ import annotations

import json

from tests.conftest import MngrProgram


def test_the_name_of_a_destroyed_agent_offers_undestroy_with_the_age(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("destroy", "--force", "foo")
    (entry,) = (mngr.home / "trash").iterdir()
    saved = json.loads((entry / "meta.json").read_text())
    assert mngr("stop", "foo", code=1).err.splitlines()[1] == "Hint: restore it: mngr undestroy foo"
    (entry / "meta.json").write_text(json.dumps({**saved, "at": "2001-01-01T00:00:00.000Z"}))
    assert "Error: foo was destroyed " in (stderr := mngr("stop", "foo", code=1).err) and " days ago\n" in stderr


def test_of_two_destroyed_agents_with_one_name_the_latest_is_offered_by_its_id(mngr: MngrProgram) -> None:
    ids = []
    for _ in range(2):
        mngr("create", "foo", "--", "sleep", "1000")
        ids.append(mngr.get_agent("foo")["id"])
        mngr("destroy", "--force", "foo")
    assert mngr("stop", "foo", code=1).err.splitlines()[1] == f"Hint: restore it: mngr undestroy {ids[1]}"


def test_a_name_that_was_never_used_offers_the_list(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    assert mngr("stop", "nobody", code=1).err == "Error: there is no agent 'nobody'\nHint: list the agents: mngr list\n"
