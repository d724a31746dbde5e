import sys

from shed import path_of


def test_path_of_a_tool():
    """A tool has a path."""
    assert path_of("axe") == "/shed/axe"
