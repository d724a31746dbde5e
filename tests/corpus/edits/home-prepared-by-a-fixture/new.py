import subprocess

import pytest


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home apart from the user's."""
    place = tmp_path / "home"
    (place / ".config").mkdir(parents=True)
    (place / ".config" / "harbour.toml").write_text("port = 8700\n")
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / ".config"))
    return place


def test_default_port(home):
    """The port is 8700 where nothing else is said."""
    proc = subprocess.run(["harbour", "config", "port"], capture_output=True, text=True)
    assert proc.stdout == "port: 8700\n"
