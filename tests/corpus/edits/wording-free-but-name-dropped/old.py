import subprocess


def test_missing_input_is_named():
    """A missing input ends with status 66 and a message on stderr that has the file's name in it.

    The wording of the message is not part of the contract.
    """
    proc = subprocess.run(["sift", "absent.txt"], capture_output=True, text=True)
    assert proc.returncode == 66
    assert proc.stderr == "sift: I could not open absent.txt\n"
