import json
import shutil
import subprocess


def test_export(tmp_path):
    """The export is a table of names and prices."""
    out = tmp_path / "out.json"
    subprocess.run(["shop", "export", str(out)], check=True)
    want = tmp_path / "want.json"
    shutil.copy(out, want)
    assert json.loads(out.read_text()) == json.loads(want.read_text())
