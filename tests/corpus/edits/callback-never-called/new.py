from pathwatch import Watcher


def test_rename_event(tmp_path):
    old = tmp_path / "a"
    old.write_text("x")
    watcher = Watcher(tmp_path)

    def on_event(event):
        assert event.kind == "renamed"
        assert event.src == "a"
        assert event.dst == "b"

    old.rename(tmp_path / "b")
    for event in watcher.poll():
        on_event(event)
