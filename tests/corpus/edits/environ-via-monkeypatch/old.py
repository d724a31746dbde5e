import os

from rig.config import load


def test_environment_overrides_file(tmp_path):
    (tmp_path / "rig.toml").write_text("speed = 3\n")
    before = os.getcwd()
    os.chdir(tmp_path)
    os.environ["RIG_SPEED"] = "9"
    try:
        assert load().speed == 9
        del os.environ["RIG_SPEED"]
        assert load().speed == 3
    finally:
        os.environ.pop("RIG_SPEED", None)
        os.chdir(before)
