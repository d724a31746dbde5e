from config_paths import config_file


def test_config_file(monkeypatch, tmp_path):
    """The settings are in .config of the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(config_file()) == f"{tmp_path}/.config/app/app.toml"


def test_config_file_by_variable(monkeypatch):
    """A variable wins over the home directory."""
    monkeypatch.setenv("APP_CONFIG", "/etc/app.toml")
    assert str(config_file()) == "/etc/app.toml"
