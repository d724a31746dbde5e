import subprocess


def test_name_of_the_host():
    """The name of the host is shown."""
    out = subprocess.run(["fleet", "name", "3"], capture_output=True, text=True, check=True).stdout
    assert out == "oak-3\n"
