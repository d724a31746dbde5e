import subprocess

SCRIPT = "print 2 + 3\n"


def test_script_is_run(tmp_path):
    """A script in the language of the program is run."""
    script = tmp_path / "sum.calc"
    script.write_text(SCRIPT)
    done = subprocess.run(["calc", str(script)], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "5\n"
