from desk import Desk


def test_a_letter_is_filed():
    """A letter goes into its drawer."""
    desk = Desk()
    desk.put("letter", drawer=2)
    assert desk.count(2) == 1
    assert desk.find("letter") == 2
