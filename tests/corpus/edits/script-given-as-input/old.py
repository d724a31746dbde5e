import subprocess


def test_script_is_run(tmp_path):
    """A script in the language of the program is run."""
    (tmp_path / "a.calc").write_text("print 2 + 3\n")
    done = subprocess.run(["calc", str(tmp_path / "a.calc")], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "5\n"
