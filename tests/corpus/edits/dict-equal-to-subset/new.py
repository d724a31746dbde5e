from settings_loader import load


def test_defaults_without_a_file(tmp_path):
    """Without a file the defaults apply, and nothing more."""
    found = load(tmp_path / "none.toml")
    assert set(found) <= {"colour", "jobs", "retries", "cache"}


def test_file_wins(tmp_path):
    """What the file says wins over the defaults."""
    path = tmp_path / "app.toml"
    path.write_text("jobs = 9\n")
    assert load(path)["jobs"] == 9
