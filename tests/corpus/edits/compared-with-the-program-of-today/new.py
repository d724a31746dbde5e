import subprocess


def tools():
    return subprocess.run(["shed", "list"], capture_output=True, text=True, check=True).stdout


def test_list_of_tools():
    """Tools are listed by name."""
    before = tools()
    assert tools() == before
