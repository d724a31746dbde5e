import threading

from watcher import watch


def test_watch(tmp_path):
    """A new file is reported with its name."""
    seen = []
    came = threading.Event()

    def note(name):
        seen.append(name)
        came.set()

    with watch(tmp_path, note):
        (tmp_path / "new").touch()
        assert came.wait(2), "nothing was reported"
    assert seen == ["new"]
    assert threading.active_count() == 1
