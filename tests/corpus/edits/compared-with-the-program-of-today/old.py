import subprocess


def test_list_of_tools():
    """Tools are listed by name."""
    out = subprocess.run(["shed", "list"], capture_output=True, text=True, check=True).stdout
    assert out == "axe\nrake\n"
