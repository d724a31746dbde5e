import subprocess


def test_index_is_built(tmp_path):
    """The index is there once the indexer has ended."""
    proc = subprocess.Popen(["indexer", str(tmp_path)])
    assert proc.wait(timeout=8) == 0
    assert (tmp_path / "index").read_text() == "0 entries\n"
