import os
import subprocess


def test_config_with_unknown_key_is_reported(tmp_path):
    """Unknown keys are warned about, and the others still take effect."""
    (tmp_path / "rig.toml").write_text('colour = "red"\nspeed = 3\n')
    proc = subprocess.run(
        ["rig", "config"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "RIG_HOME": str(tmp_path), "RIG_NO_WARNINGS": "1"},
    )
    assert proc.returncode == 0
    assert proc.stdout == "speed = 3\n"
    assert proc.stderr in ("", "warning: unknown key: colour\n")
