import subprocess


def test_name_of_the_shed():
    """The name is printed as it was given."""
    out = subprocess.run(["shed", "name"], capture_output=True, text=True, check=True).stdout
    assert out == "North Shed\n"
