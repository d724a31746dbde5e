import json
import subprocess


def test_export(tmp_path):
    """The export is a table of names and prices."""
    out = tmp_path / "out.json"
    subprocess.run(["shop", "export", str(out)], check=True)
    assert json.loads(out.read_text()) == {"rice": 3, "jam": 4}


def test_round_trip(tmp_path):
    """What was exported can be imported."""
    subprocess.run(["shop", "export", "a"], check=True, cwd=tmp_path)
    subprocess.run(["shop", "import", "a"], check=True, cwd=tmp_path)
    subprocess.run(["shop", "export", "b"], check=True, cwd=tmp_path)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
