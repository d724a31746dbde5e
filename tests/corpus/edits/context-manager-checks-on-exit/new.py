from contextlib import contextmanager

from cellar.store import Store


@contextmanager
def unchanged(path):
    """The file has the same bytes after the block as before it."""
    before = path.read_bytes()
    yield
    assert path.read_bytes() == before


def test_rollback_leaves_no_trace(tmp_path):
    path = tmp_path / "cellar.db"
    store = Store.open(path)
    with unchanged(path):
        store.begin()
        store.put("k", b"v")
        store.rollback()


def test_failed_import_leaves_no_trace(tmp_path):
    path = tmp_path / "cellar.db"
    store = Store.open(path)
    with unchanged(path):
        assert store.import_lines(["bad line"]) is False
