"""Projects with the real git-lfs: each copy of the project has the contents of its files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from mngr.agents.context import Context
from mngr.api import Fleet
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from tests.conftest import MngrProgram, run_git

pytestmark = pytest.mark.hosts  # `make test-hosts` installs git-lfs

CONTENT = "large\n" * 1000
RUN = ("--", "sleep", "1000")


@pytest.fixture
def project(mngr: MngrProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MngrProgram:
    """A trusted project with a file of git-lfs and a set-up command."""
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = Ann\n\temail = ann@example.com\n[init]\n\tdefaultBranch = main\n")
    mngr.env["GIT_CONFIG_GLOBAL"] = str(config)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    run_git(mngr.repo, "lfs", "install", "--skip-repo")
    run_git(mngr.repo, "lfs", "track", "*.bin")
    (mngr.repo / "large.bin").write_text(CONTENT)
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr" / "settings.toml").write_text("[project]\nsetup = 'touch done'\n")
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a large file")
    assert run_git(mngr.repo, "show", "HEAD:large.bin").startswith("version https://git-lfs")
    mngr("trust", "--yes")
    return mngr


@pytest.mark.parametrize("options", [(), ("--transfer", "mirror"), ("--sandbox",)])
def test_an_agent_gets_the_contents_of_git_lfs_files(project: MngrProgram, options: tuple[str, ...]) -> None:
    project("create", "foo", *options, *RUN)
    work_dir = project.get_work_dir("foo")
    assert (work_dir / "large.bin").read_text() == CONTENT
    assert "large.bin" not in project("diff", "foo").out
    if "--sandbox" not in options:
        assert run_git(work_dir, "status", "--porcelain", "large.bin") == ""


def test_a_clean_room_gets_the_contents_of_git_lfs_files(project: MngrProgram) -> None:
    fleet = Fleet(context=Context(str(project.home), cwd=str(project.repo)))
    head = run_git(project.repo, "rev-parse", "HEAD")
    rooms = CleanRoomPool(fleet, "lfs", str(project.repo), CleanRoomOptions(), at_once=1)
    with contextlib.closing(rooms), rooms.acquire(head) as room:
        assert room.run(["cat", "large.bin"]).out == CONTENT


def test_git_lfs_does_not_run_on_the_branch_of_an_agent_before_the_user_merges_it(project: MngrProgram) -> None:
    project("create", "foo", "--sandbox", *RUN)
    project("exec", "foo", "--", "sh", "-c", "echo more > more.txt; git add more.txt; git commit -qm more")
    project("pull", "foo")
    for name in ("early", "late"):
        project("create", name, "--branch", f"mngr/foo:{name}", *RUN)
        has_content = (project.get_work_dir(name) / "large.bin").read_text() == CONTENT
        assert has_content is (name == "late")
        run_git(project.repo, "merge", "-q", "mngr/foo")
    run_git(project.get_work_dir("early"), "lfs", "checkout")
    assert (project.get_work_dir("early") / "large.bin").read_text() == CONTENT
