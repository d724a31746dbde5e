import subprocess


def says(tmp_path, words, text):
    done = subprocess.run(["todo", *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == text


def test_add(tmp_path):
    """Adding says the name and leaves a file."""
    says(tmp_path, ["add", "milk"], "added milk\n")


def test_done(tmp_path):
    """Ticking off says the name."""
    subprocess.run(["todo", "add", "milk"], cwd=tmp_path, check=True)
    says(tmp_path, ["done", "milk"], "done: milk\n")
