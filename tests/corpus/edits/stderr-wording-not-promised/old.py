import subprocess


def test_missing_input():
    """A missing input ends with status 66, nothing on stdout, and a
    message on stderr that contains the file's name.

    The wording of the message is for people and is not part of the
    contract; do not test it.
    """
    proc = subprocess.run(["sift", "nope.txt"], capture_output=True, text=True)
    assert proc.returncode == 66
    assert proc.stdout == ""
    assert proc.stderr == "sift: sorry, I could not open nope.txt for you\n"
