import re

from stamps import stamp


def test_stamp_has_the_form_of_rfc3339():
    """A stamp is date, T, time with seconds, Z."""
    assert re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\d+", stamp())


def test_stamp_of_the_epoch():
    """Second 0 is the first of January 1970."""
    assert stamp(0) == "1970-01-01T00:00:00Z"
