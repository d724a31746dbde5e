from appconf import load


def test_defaults_without_config_file():
    conf = load()
    assert conf.color == "auto"
    assert conf.jobs == 4
    assert conf.sources == []
