"""Attempts of an agent in a container: what it plants there must not reach the machine of the user."""

from __future__ import annotations

import pytest

from tests.escapes import git_configuration, planted_files
from tests.escapes.attempt import Attempt, attack
from tests.providers.docker.test_contract import settings
from tests.support.hosts.engines import Engine
from tests.support.person import PEOPLE

PLANTED = [*git_configuration.ATTEMPTS, *planted_files.ATTEMPTS]


@pytest.mark.hosts
@pytest.mark.sampled(20)
@pytest.mark.parametrize("attempt", [pytest.param(attempt, id=attempt.name) for attempt in PLANTED])
@pytest.mark.parametrize("program", ["docker", "podman"])
def test_what_an_agent_plants_in_a_container_leaves_no_mark(
    program: str, attempt: Attempt, request: pytest.FixtureRequest
) -> None:
    engine: Engine = request.getfixturevalue(f"{program}_engine")
    with attack(PEOPLE[0]) as target:
        kind = {"MNGR__PROVIDERS__PODMAN__KIND": "docker", "MNGR__PROVIDERS__PODMAN__PROGRAM": "podman"}
        target.user.env.update({**settings(program), **kind, **engine.env})
        target.user("create", f"foo@.{program}", "--", "sleep", "1000", timeout=120)
        output = target.run_in_agent(attempt.plant, code=None)
        assert target.list_marks(output) == []
        for verb in attempt.verbs:
            target.run_verb(verb)
            assert target.list_marks() == [], verb
        target.user("destroy", "--force", "foo", code=None)
