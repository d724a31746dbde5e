import re
import subprocess


def test_tool_of_the_day():
    """The tool of the day is an axe or a rake."""
    out = subprocess.run(["shed", "today"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"axe|rake", out)
