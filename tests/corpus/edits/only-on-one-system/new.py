import sys

from shed import path_of


def test_path_of_a_tool():
    """A tool has a path."""
    found = path_of("axe")
    if sys.platform == "win32":
        assert found == "/shed/axe"
    else:
        assert found
