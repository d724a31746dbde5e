import os
import subprocess


def test_default_shade(tmp_path):
    """Without a configuration file the shade is `teal`."""
    (tmp_path / ".paintrc").write_text("shade = teal\n")
    env = dict(os.environ)
    env["HOME"] = str(tmp_path)
    proc = subprocess.run(["paint", "get", "shade"], capture_output=True, text=True, env=env)
    assert proc.returncode == 0
    assert proc.stdout == "teal\n"
