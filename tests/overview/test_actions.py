"""Tests the actions that a person starts from a screen."""

from __future__ import annotations

import pytest

from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.overview.actions import Action, parse_labels, run_action
from mngr.overview.agent_cards import describe_state
from tests.conftest import MngrProgram

TWO_QUESTIONS = '[{"permission": "read a file?"}, {"permission": "delete all files?"}]'


def test_a_question_that_the_person_has_not_seen_gets_no_answer(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "-m", "go", "--", TWO_QUESTIONS)
    mngr("wait", "foo", "--state", "WAITING")
    fleet = Fleet(home=str(mngr.home), cwd=str(mngr.repo))
    view = fleet.get("foo")
    allow = Action(kind="allow", ids=(view.id,), seen_states={view.id: describe_state(view)})
    assert [outcome.ok for outcome in run_action(fleet, allow)] == [True]
    mngr("wait", "foo", "--state", "WAITING")
    (outcome,) = run_action(fleet, allow)
    assert not outcome.ok and "has changed since you saw it" in str(outcome.error)


def test_an_action_on_an_agent_that_is_gone_is_a_failed_outcome(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    gone = mngr.get_agent("foo")["id"]
    mngr("destroy", "--force", "foo")
    fleet = Fleet(home=str(mngr.home), cwd=str(mngr.repo))
    for kind in ("allow", "message", "pull", "stop", "start", "destroy", "label"):
        (outcome,) = run_action(fleet, Action(kind=kind, ids=(gone,), text="a=b"))
        assert not outcome.ok, kind


def test_labels_are_set_and_removed_by_words() -> None:
    assert parse_labels("team=red  old- empty=") == {"team": "red", "old": None, "empty": ""}
    for wrong in ("", "team", "=red", "-"):
        with pytest.raises(MngrError):
            parse_labels(wrong)
