import re
import subprocess


def test_title_of_the_feed():
    """The feed has a title."""
    out = subprocess.run(["feed", "build"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"<title>news</title>", out)
