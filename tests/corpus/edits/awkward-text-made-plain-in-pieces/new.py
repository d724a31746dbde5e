import subprocess

LINES = ["one", "two", "three"]


def test_lines_get_numbers(tmp_path):
    """Lines are numbered, empty ones too."""
    (tmp_path / "in").write_text("\n".join(LINES) + "\n")
    done = subprocess.run(["number", str(tmp_path / "in")], capture_output=True, text=True, check=True)
    assert done.stdout == "1 one\n2 two\n3 three\n"
