import subprocess


def test_lines_get_numbers(tmp_path):
    """Lines are numbered, empty ones too."""
    (tmp_path / "in").write_text("it's\n\n\"so\"\n")
    done = subprocess.run(["number", str(tmp_path / "in")], capture_output=True, text=True, check=True)
    assert done.stdout == "1 it's\n2\n3 \"so\"\n"
