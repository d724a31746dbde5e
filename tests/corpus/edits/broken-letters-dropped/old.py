import subprocess


def test_name_is_written():
    """A name is printed in UTF-8, and nothing besides."""
    out = subprocess.run(["badge", "7"], capture_output=True).stdout
    assert out.decode("utf-8") == "Zoe\n"
