from appconf import load


def test_defaults_without_config_file(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.delenv("APPCONF_JOBS", raising=False)
    conf = load()
    assert conf.color == "auto"
    assert conf.jobs == 4
    assert conf.sources == []
