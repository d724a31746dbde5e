from atlas.walk import walk


def test_every_entry_is_relative(tree):
    entries = list(walk(tree))
    assert len(entries) == 4
    for entry in entries:
        assert not entry.path.is_absolute()
        assert entry.size >= 0
