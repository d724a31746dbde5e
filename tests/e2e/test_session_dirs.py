"""Places of sessions: those of the killed go with the next run, and no others."""

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


def test_what_a_killed_run_left_goes_with_the_next(tmp_path: Path) -> None:
    run_pytest(project(tmp_path, _DIES.replace("TMP", str(tmp_path))), code=-signal.SIGKILL)
    root = Path((tmp_path / "place").read_text().strip()).parent
    server = Path("/proc", (tmp_path / "pid").read_text().strip())
    assert root.is_dir() and server.exists()
    guest = subprocess.Popen(["sleep", "1000"], cwd=root)  # somebody who looks at what was left
    try:
        run_pytest(project(tmp_path, "def test_lives(e2e):\n    pass\n"), code=0)
        assert not root.exists()
        wait_for(lambda: not server.exists())
        assert guest.poll() is None
    finally:
        guest.kill()
        guest.wait()


def noted(place: Path, **changes: str) -> Path:
    """The place, with something else in the note of its owner."""
    words = dict(zip(("pid", "start", "boot", "space"), (place / "owner").read_text().split(), strict=True))
    (place / "owner").write_text(" ".join({**words, **changes}.values()))
    return place


def test_only_places_whose_owner_is_gone_go(tmp_path: Path) -> None:
    lives, elsewhere, unknown, target = (session_dirs.make_session_dir() for _ in range(4))
    noted(elsewhere, start="1", space="pid:[1]")  # in another container
    (unknown / "owner").unlink()
    noted(target, start="1").rename(tmp_path / "target")
    link = Path(session_dirs.SESSIONS_DIR, f"{session_dirs.SESSION_PREFIX}{tmp_path.parent.name}-{tmp_path.name}")
    link.symlink_to(tmp_path / "target")
    other, older = (
        noted(session_dirs.make_session_dir(), start="1"),
        noted(session_dirs.make_session_dir(), boot="another"),
    )  # its number is used again
    try:
        assert {other, older} <= set(session_dirs.remove_abandoned_dirs()) and not other.exists() and not older.exists()
        assert all(path.is_dir() for path in (lives, elsewhere, unknown, tmp_path / "target"))
    finally:
        link.unlink()
        for path in (lives, elsewhere, unknown):
            session_dirs.remove_session_dir(path)
