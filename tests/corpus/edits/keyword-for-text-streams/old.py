import subprocess


def test_age_of_the_barn():
    """The age is printed."""
    proc = subprocess.Popen(["barn", "age"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    out, err = proc.communicate()
    assert proc.returncode == 0
    assert out == "90 years\n"
    assert err == ""
