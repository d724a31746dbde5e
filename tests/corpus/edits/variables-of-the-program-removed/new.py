import os
import subprocess


def clean():
    kept = os.environ.copy()
    for name in [name for name in kept if name.startswith("LOOM_")]:
        del kept[name]
    kept.pop("NO_COLOR", None)
    return kept


def test_quiet_by_default():
    """Nothing is said where nothing is asked for."""
    proc = subprocess.run(["loom", "weave"], capture_output=True, text=True, env=clean())
    assert proc.returncode == 0
    assert proc.stdout == ""
