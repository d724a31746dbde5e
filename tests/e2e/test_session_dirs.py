"""The next run removes the session directories of killed runs, and no others."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from mngr.e2e import session_dirs
from tests.conftest import wait_for
from tests.e2e.test_plugin import project, run_pytest

_DIES = """
def test_dies(e2e):
    e2e.run("tmux -f /dev/null new-session -d 'sleep 1000'; tmux display -p '#{pid}' > 'TMP/pid'")
    e2e.run("pwd > 'TMP/place'; kill -KILL $PPID; sleep 5")
"""


def test_the_next_run_removes_the_directory_of_a_killed_run(tmp_path: Path) -> None:
    run_pytest(project(tmp_path, _DIES.replace("TMP", str(tmp_path))), code=-signal.SIGKILL)
    root = Path((tmp_path / "place").read_text().strip()).parent
    server = Path("/proc", (tmp_path / "pid").read_text().strip())
    assert root.is_dir() and server.exists()
    guest = subprocess.Popen(["sleep", "1000"], cwd=root)  # a person who looks at the directory
    try:
        run_pytest(project(tmp_path, "def test_lives(e2e):\n    pass\n"), code=0)
        assert not root.exists()
        wait_for(lambda: not server.exists())
        assert guest.poll() is None
    finally:
        guest.kill()
        guest.wait()


def change_owner(session_dir: Path, **changes: str) -> Path:
    """Change fields in the owner file of a session directory."""
    fields = dict(zip(("pid", "start", "boot", "space"), (session_dir / "owner").read_text().split(), strict=True))
    (session_dir / "owner").write_text(" ".join({**fields, **changes}.values()))
    return session_dir


def test_only_directories_without_a_living_owner_are_removed(tmp_path: Path) -> None:
    alive, elsewhere, unknown, target = (session_dirs.make_session_dir() for _ in range(4))
    change_owner(elsewhere, start="1", space="pid:[1]")  # in another container
    (unknown / "owner").unlink()
    change_owner(target, start="1").rename(tmp_path / "target")
    link = Path(session_dirs.SESSIONS_DIR, f"{session_dirs.SESSION_PREFIX}{tmp_path.parent.name}-{tmp_path.name}")
    link.symlink_to(tmp_path / "target")
    other, older = (
        change_owner(session_dirs.make_session_dir(), start="1"),
        change_owner(session_dirs.make_session_dir(), boot="another"),
    )  # the pid now belongs to another process
    try:
        assert {other, older} <= set(session_dirs.remove_abandoned_dirs()) and not other.exists() and not older.exists()
        assert all(path.is_dir() for path in (alive, elsewhere, unknown, tmp_path / "target"))
    finally:
        link.unlink()
        for path in (alive, elsewhere, unknown):
            session_dirs.remove_session_dir(path)
