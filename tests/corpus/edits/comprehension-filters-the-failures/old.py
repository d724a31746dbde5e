from registry import load_index


def test_every_package_has_a_checksum(index_path):
    index = load_index(index_path)
    assert len(index.packages) == 12
    assert all(len(p.checksum) == 64 for p in index.packages)
