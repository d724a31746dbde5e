from atlas.walk import walk


def test_every_entry_is_relative(tree):
    entries = walk(tree)
    assert sum(1 for _ in entries) == 4
    for entry in entries:
        assert not entry.path.is_absolute()
        assert entry.size >= 0
        assert entry.mode & 0o400
