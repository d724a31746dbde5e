import re
import subprocess


def test_feed_is_well_formed():
    """The feed is well-formed XML with a title."""
    out = subprocess.run(["feed", "build"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"<title>\s*(\w+)", out)
