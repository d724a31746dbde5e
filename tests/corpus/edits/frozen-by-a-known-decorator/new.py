from freezegun import freeze_time

from calendar_of import today


@freeze_time("2024-02-29")
def test_today():
    """Today is shown as a day of the week."""
    assert today() == "Thursday"
