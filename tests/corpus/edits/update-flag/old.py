import subprocess


def test_docs_are_current(tmp_path):
    """The generated pages are those that are checked in; otherwise 1."""
    done = subprocess.run(["gendocs", "--check", "docs"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "up to date\n"


def test_docs_need_a_directory(tmp_path):
    """A directory that is not there is an error."""
    assert subprocess.run(["gendocs", "--check", str(tmp_path / "none")]).returncode == 2
