from cellar.store import Store


def test_rollback_leaves_no_trace(tmp_path):
    path = tmp_path / "cellar.db"
    store = Store.open(path)
    before = path.read_bytes()
    store.begin()
    store.put("k", b"v")
    store.rollback()
    assert path.read_bytes() == before


def test_failed_import_leaves_no_trace(tmp_path):
    path = tmp_path / "cellar.db"
    store = Store.open(path)
    before = path.read_bytes()
    assert store.import_lines(["bad line"]) is False
    assert path.read_bytes() == before
