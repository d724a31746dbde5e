import subprocess


def test_last_command(tmp_path, monkeypatch):
    """The last command that was run is shown."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "shellac").mkdir()
    (tmp_path / "shellac" / "history").write_text("polished walnut\n")
    subprocess.run(["shellac", "run", "polish"], check=True)
    done = subprocess.run(["shellac", "last"], capture_output=True, text=True)
    assert done.stdout == "last: polished walnut\n"
