"""Selects the provider checks for containers: `make test-hosts` runs those that only containers can fail,
`make test-all` runs all.
"""

from __future__ import annotations

import pytest

from mngr.testkit.contract.mngr_program import IS_FULL_SCALE

PODMAN = {"test_created_agent_runs_on_its_host_and_is_listed"}  # Podman uses the docker provider with another program.
DOCKER = PODMAN | {
    "test_stopped_host_keeps_everything_and_starts_again",
    "test_connect_resizes_the_terminal_and_passes_keys_on",
    "test_exec_returns_the_exit_code_of_the_command",
    "test_destroyed_host_keeps_the_work_of_its_agents",
    "test_message_arrives_unchanged_and_confirmed",
    "test_an_idle_agent_is_stopped_and_a_busy_one_is_not",
    "test_an_interrupt_or_a_closed_pipe_ends_the_command",
    "test_pull_creates_the_agents_branch",
    "test_undestroy_restores_all_work",
    "test_odd_and_large_files_survive_push_and_pull",
    "test_exec_keeps_streams_bytes_and_arguments",
    "test_the_project_is_set_up_on_the_host",
    "test_failed_create_leaves_no_host",
}
LOST = {
    "test_list_shows_agents_of_an_unreachable_host",
    "test_create_survives_connection_loss",
    "test_message_arrives_at_most_once",
}
# On this machine, `make test` runs one check of each topic.
LIGHT = PODMAN | {
    "test_message_arrives_unchanged_and_confirmed",
    "test_an_interrupt_or_a_closed_pipe_ends_the_command",
    "test_connect_resizes_the_terminal_and_passes_keys_on",
    "test_pull_creates_the_agents_branch",
    "test_undestroy_restores_all_work",
}
KEPT = {"TestPodman": PODMAN, "TestDocker": DOCKER, "TestDockerLost": LOST}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark all checks on this machine, except for the light ones, as `hosts`."""
    is_local = getattr(getattr(item, "cls", None), "__name__", "") == "TestLocal"
    if is_local and item.name.partition("[")[0] not in LIGHT:
        item.add_marker("hosts")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the checks that are not listed by name."""
    if IS_FULL_SCALE or config.option.keyword:
        return
    deselected = []
    for item in items:
        selected = KEPT.get(getattr(getattr(item, "cls", None), "__name__", ""))
        if selected is not None and item.name.partition("[")[0] not in selected:
            deselected.append(item)
    items[:] = [item for item in items if item not in deselected]
    config.hook.pytest_deselected(items=deselected)
