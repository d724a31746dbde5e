"""Podman is the docker provider with another program: all checks in `make test-all`, in `make test` those it could fail alone."""

from __future__ import annotations

import pytest

from mngr.contract.program import FULL

PODMAN = {
    "test_a_host_that_is_taken_away_leaves_the_work_of_its_agents",
    "test_a_stopped_host_keeps_everything_and_goes_on",
    "test_an_interrupt_or_a_closed_pipe_ends_the_command",
    "test_an_agent_runs_on_its_host_and_list_says_so",
    "test_attach_resize_type_and_detach",
    "test_commits_come_under_the_agents_branch_name",
    "test_odd_files_and_a_large_one_go_there_and_back",
    "test_the_exit_code_is_the_commands_unless_it_could_not_be_started",
    "test_what_cannot_be_made_leaves_no_host",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rest of Podman's, by name."""
    if FULL or config.option.keyword:
        return
    out = [i for i in items if "TestPodman" in i.nodeid and i.name not in PODMAN]
    items[:] = [i for i in items if i not in out]
    config.hook.pytest_deselected(items=out)
