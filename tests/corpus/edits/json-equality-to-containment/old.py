"""`inv export --json` prints the whole inventory as one JSON document."""
import json
import subprocess
import sys


def run(*args, cwd):
    return subprocess.run(
        [sys.executable, "-m", "inv", *args],
        cwd=cwd, capture_output=True, text=True, timeout=20,
    )


def test_export_json(tmp_path):
    run("add", "bolt", "--count", "12", cwd=tmp_path)
    run("add", "nut", "--count", "7", cwd=tmp_path)
    proc = run("export", "--json", cwd=tmp_path)
    assert proc.returncode == 0
    assert json.loads(proc.stdout) == {
        "items": [
            {"name": "bolt", "count": 12},
            {"name": "nut", "count": 7},
        ]
    }
