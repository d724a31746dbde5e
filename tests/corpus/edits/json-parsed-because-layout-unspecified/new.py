import json
import subprocess


def test_show_json(db):
    """`pond show --json` prints one JSON object with name, size and tags.

    White space and the order of the keys are not specified and may change
    between releases.
    """
    proc = subprocess.run(["pond", "show", "--json", "carp"], capture_output=True, text=True, cwd=db)
    assert proc.returncode == 0
    assert json.loads(proc.stdout) == {"name": "carp", "size": 3, "tags": ["a", "b"]}
