from config_paths import config_file


def test_config_file(monkeypatch):
    """The settings are in .config of the home directory."""
    assert str(config_file()) == "/home/ada/.config/app/app.toml"


def test_config_file_by_variable(monkeypatch):
    """A variable wins over the home directory."""
    monkeypatch.setenv("APP_CONFIG", "/etc/app.toml")
    assert str(config_file()) == "/etc/app.toml"
