"""Runs every attempt of the tables against the local sandbox, as root and as an ordinary user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.escapes import direct, git_configuration, planted_files
from tests.escapes.attempt import AGENT, Attempt, Target, attack, for_each_person, prove, some
from tests.escapes.services import Services
from tests.support.person import PEOPLE

PLANTED = [*git_configuration.ATTEMPTS, *planted_files.ATTEMPTS]
REAL = [*(attempt for attempt in PLANTED if attempt.proof), *direct.REAL]
AGENTS = {AGENT: "foo", direct.ON: "open", direct.FEW: "few"}


@pytest.mark.parametrize(("name", "attempt"), for_each_person(PLANTED, one_of=20))
def test_what_an_agent_plants_leaves_no_mark_when_the_user_runs_commands(name: str, attempt: Attempt) -> None:
    with attack(name) as target:
        target.user("create", "foo", *attempt.options)
        output = target.run_in_agent(attempt.plant)
        assert target.list_marks(output) == []
        for verb in attempt.verbs:
            target.run_verb(verb)
            assert target.list_marks() == [], verb


@pytest.fixture(scope="module", params=PEOPLE)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Target, Services]]:
    """A user with servers, a process and agents with different networks."""
    with (
        attack(request.param) as target,
        Services(target.outside.root, target.outside.secret, target.user.uid) as services,
    ):
        target.variables |= services.variables
        target.remember()
        for options, name in AGENTS.items():
            target.user("create", name, *options)
        yield target, services


@pytest.mark.parametrize("attempt", some(direct.ATTEMPTS, one_of=2))
def test_what_an_agent_does_itself_leaves_no_mark(served: tuple[Target, Services], attempt: Attempt) -> None:
    target, services = served
    output = target.run_in_agent(attempt.plant, AGENTS[attempt.options], code=None)
    assert target.list_marks(output) + services.list_marks() == []


@pytest.mark.parametrize("attempt", some(REAL, one_of=4))
def test_an_attempt_leaves_a_mark_where_there_is_no_sandbox(attempt: Attempt, tmp_path: Path, repo: Path) -> None:
    """Without this check, an attempt could fail only because it is wrong."""
    assert prove(attempt, tmp_path / "place", repo) != []
