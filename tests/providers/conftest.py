"""In `make test-hosts` containers go through those checks that they could fail alone; in `make test-all`, through all."""

from __future__ import annotations

import pytest

from mngr.testkit.contract.program import IS_FULL_SCALE

PODMAN = {"test_an_agent_runs_on_its_host_and_list_says_so"}  # it is the docker provider with another program
DOCKER = PODMAN | {
    "test_a_stopped_host_keeps_everything_and_goes_on",
    "test_attach_resize_type_and_detach",
    "test_the_exit_code_is_the_commands_unless_it_could_not_be_started",
    "test_a_host_that_is_taken_away_leaves_the_work_of_its_agents",
    "test_a_message_is_proven_and_arrives_unchanged",
    "test_an_idle_agent_is_stopped_and_a_busy_one_is_not",
    "test_an_interrupt_or_a_closed_pipe_ends_the_command",
    "test_commits_come_under_the_agents_branch_name",
    "test_destroyed_work_comes_back_whole",
    "test_odd_files_and_a_large_one_go_there_and_back",
    "test_streams_are_apart_bytes_stay_bytes_and_words_words",
    "test_the_project_is_set_up_on_the_host",
    "test_what_cannot_be_made_leaves_no_host",
}
LOST = {
    "test_a_host_that_is_away_is_neither_an_error_of_list_nor_an_agent_that_is_gone",
    "test_create",
    "test_message",
}
# Of the checks on this machine, `make test` has one of each topic.
LIGHT = PODMAN | {
    "test_a_message_is_proven_and_arrives_unchanged",
    "test_an_interrupt_or_a_closed_pipe_ends_the_command",
    "test_attach_resize_type_and_detach",
    "test_commits_come_under_the_agents_branch_name",
    "test_destroyed_work_comes_back_whole",
}
KEPT = {"TestPodman": PODMAN, "TestDocker": DOCKER, "TestDockerLost": LOST}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark all checks but the light ones on this machine."""
    is_local = getattr(getattr(item, "cls", None), "__name__", "") == "TestLocal"
    if is_local and item.name.partition("[")[0] not in LIGHT:
        item.add_marker("hosts")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rest, by name."""
    if IS_FULL_SCALE or config.option.keyword:
        return
    out = []
    for item in items:
        kept = KEPT.get(getattr(getattr(item, "cls", None), "__name__", ""))
        if kept is not None and item.name.partition("[")[0] not in kept:
            out.append(item)
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)
