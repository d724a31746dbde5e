import datetime

from calendar_of import today


def test_today():
    """Today is shown as a day of the week."""
    assert today() == datetime.date.today().strftime("%A")
