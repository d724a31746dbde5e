import subprocess


def test_default_theme():
    """The theme is `dusk` where nothing is set."""
    done = subprocess.run(["paint", "theme"], capture_output=True, text=True)
    assert done.stdout == "theme: dusk\n"
