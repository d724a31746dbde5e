"""Recognises the directories of sandboxed agents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord
from mngr.base.paths import Home
from mngr.base.trust.agent_directories import find_sandboxed_agent, refuse_agents_directory
from mngr.host import git
from mngr.host.record_store import encode_record
from mngr.providers.local import LocalHost

RECORD = AgentRecord(
    id="a-0123456789ab", name="foo", kind="command", phase="ready", project="p", source=None, work_dir="", transfer="mirror",
    created_at="2026-01-01T00:00:00.000Z",
)  # fmt: skip


def write_agent(root: Path, *, sandbox: bool = True, area: str = "agents") -> Home:
    """Create a home with the agent `foo`, and return the home."""
    home = Home(str(root))
    home.create()
    (root / "work" / "foo" / "src").mkdir(parents=True)
    agent_dir = root / area / RECORD.id
    (agent_dir / "outputs").mkdir(parents=True)
    record = RECORD.replace(sandbox=sandbox, work_dir=str(root / "work" / "foo"))
    (agent_dir / "agent.json").write_bytes(encode_record(record))
    return home


@pytest.mark.parametrize("place", ["work/foo", "work/foo/src", "agents/a-0123456789ab/outputs"])
def test_a_directory_of_a_sandboxed_agent_is_recognised_in_any_home(tmp_path: Path, place: str) -> None:
    write_agent(tmp_path / "home")
    (tmp_path / "link").symlink_to(tmp_path / "home" / place)
    for directory in (tmp_path / "home" / place, tmp_path / "link"):
        agent = find_sandboxed_agent(str(directory))
        assert agent is not None
        assert (agent.name, agent.owns_work_dir) == ("foo", place.startswith("work"))
        with pytest.raises(MngrError, match="belongs to the sandboxed agent foo"):
            refuse_agents_directory(str(directory))


def test_the_saved_files_of_a_destroyed_agent_are_recognised(tmp_path: Path) -> None:
    write_agent(tmp_path / "home", area="trash")
    os.renames(tmp_path / "home/trash" / RECORD.id, tmp_path / "home/trash/x/agent")
    assert find_sandboxed_agent(str(tmp_path / "home/trash/x/agent/outputs")) is not None


def test_directories_of_the_user_and_of_other_agents_are_not_refused(tmp_path: Path) -> None:
    write_agent(tmp_path / "home", sandbox=False)
    write_agent(tmp_path / "other")
    (tmp_path / "other" / "version").write_text("another program\n")
    for place in (
        ".",
        "home",
        "home/work/foo",
        "home/agents/a-0123456789ab/outputs",
        "other/work/foo",
        "missing/work/foo",
    ):
        assert find_sandboxed_agent(str(tmp_path / place)) is None, place


def test_plain_git_refuses_the_directory_of_a_sandboxed_agent(tmp_path: Path) -> None:
    home = write_agent(tmp_path / "home")
    host = LocalHost(home)
    with pytest.raises(MngrError, match="belongs to the sandboxed agent foo") as caught:
        git.run(host, str(tmp_path / "home/work/foo"), "status", git_command=git.GIT)
    assert caught.value.hint == (
        "run the command in your own project; to get the agent's work there: cd PROJECT && mngr pull foo"
    )
    assert git.find_repo(host, str(tmp_path / "home/work/foo"), git.SAFE_GIT) is None
