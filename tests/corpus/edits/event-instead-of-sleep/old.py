import threading
import time

from watcher import watch


def test_watch(tmp_path):
    """A new file is reported with its name."""
    seen = []
    with watch(tmp_path, seen.append):
        (tmp_path / "new").touch()
        time.sleep(2)
    assert seen == ["new"]
    assert threading.active_count() == 1
