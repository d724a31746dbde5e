from atlas.walk import walk


def test_every_entry_is_relative(tree):
    for entry in walk(tree):
        assert not entry.path.is_absolute()
        assert entry.size >= 0
