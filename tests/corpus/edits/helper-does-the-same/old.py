import subprocess


def test_add(tmp_path):
    """Adding says the name and leaves a file."""
    done = subprocess.run(["todo", "add", "milk"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == "added milk\n"


def test_done(tmp_path):
    """Ticking off says the name."""
    subprocess.run(["todo", "add", "milk"], cwd=tmp_path, check=True)
    done = subprocess.run(["todo", "done", "milk"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == "done: milk\n"
