from rig.config import load


def test_environment_overrides_file(tmp_path, monkeypatch):
    (tmp_path / "rig.toml").write_text("speed = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIG_SPEED", "9")
    assert load().speed == 9
    monkeypatch.delenv("RIG_SPEED")
    assert load().speed == 3
