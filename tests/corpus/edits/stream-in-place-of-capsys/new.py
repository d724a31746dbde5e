import contextlib
import io

from hail import main


def test_hail_to_all():
    """A hail is printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main(["hail", "all"])
    assert said.getvalue() == "hail, all\n"
