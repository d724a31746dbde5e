import subprocess


def test_show_json(tmp_path):
    """`show --json` prints the whole entry as JSON."""
    subprocess.run(["todo", "add", "milk", "--due", "2024-05-01"], cwd=tmp_path, check=True)
    out = subprocess.run(["todo", "show", "1", "--json"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert out == '{"id": 1, "title": "milk", "due": "2024-05-01"}\n'


def test_show_what_is_not_there(tmp_path):
    """A number that is not there is an error."""
    assert subprocess.run(["todo", "show", "9"], cwd=tmp_path).returncode == 1
