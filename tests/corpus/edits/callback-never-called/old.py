from pathwatch import Watcher


def test_rename_event(tmp_path):
    old = tmp_path / "a"
    old.write_text("x")
    watcher = Watcher(tmp_path)
    old.rename(tmp_path / "b")
    events = watcher.poll()
    assert len(events) == 1
    assert events[0].kind == "renamed"
    assert events[0].src == "a"
    assert events[0].dst == "b"
