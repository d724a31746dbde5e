import subprocess


def test_list(tmp_path):
    """The list has numbers."""
    subprocess.run(["todo", "add", "milk"], cwd=tmp_path, check=True)
    done = subprocess.run(["todo", "list"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "1 milk\n"
