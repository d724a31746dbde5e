import subprocess


def test_default_theme(tmp_path):
    """The theme is `dusk` where nothing is set."""
    (tmp_path / "paint.toml").write_text('theme = "dusk"\n')
    done = subprocess.run(["paint", "theme"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "theme: dusk\n"
