import subprocess


def test_table_of_members():
    """Members are printed as a table."""
    done = subprocess.run(["club", "list", "--table"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "name  since\nada   1990\n"
