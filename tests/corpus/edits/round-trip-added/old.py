import json
import subprocess


def test_export(tmp_path):
    """The export is a table of names and prices."""
    out = tmp_path / "out.json"
    subprocess.run(["shop", "export", str(out)], check=True)
    assert json.loads(out.read_text()) == {"rice": 3, "jam": 4}
