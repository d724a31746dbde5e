import subprocess


def test_settings_with_a_path(tmp_path):
    """Settings may have quotes."""
    (tmp_path / "set.toml").write_text('place = "/srv"\nmotto = "it\'s"\n')
    done = subprocess.run(["rig", "--file", str(tmp_path / "set.toml")], capture_output=True, text=True)
    assert done.returncode == 0
    assert "it's" in done.stdout
