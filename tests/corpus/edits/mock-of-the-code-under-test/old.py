from billing import invoice


def test_total_has_the_tax():
    """The total is the sum of the items with 19 % on top."""
    made = invoice.make([("pen", 200), ("ink", 800)])
    assert made.net == 1000
    assert made.total == 1190


def test_nothing_to_pay():
    """An invoice without items is refused."""
    assert invoice.make([]) is None
