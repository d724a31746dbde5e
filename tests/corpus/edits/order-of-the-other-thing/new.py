from tally import table


def test_rows_follow_the_input():
    """The rows come in the order of the input. The order of the headers is not specified."""
    made = table([("pear", 2), ("apple", 9), ("fig", 4)])
    assert sorted(made.rows) == [("apple", 9), ("fig", 4), ("pear", 2)]
