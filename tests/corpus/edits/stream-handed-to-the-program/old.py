import io

from hail import greet


def test_greeting_is_written(tmp_path):
    """A greeting is written to where it is told."""
    with open(tmp_path / "out", "w") as out:
        greet("Ada", file=out)
    assert (tmp_path / "out").read_text() == "hail, Ada\n"
