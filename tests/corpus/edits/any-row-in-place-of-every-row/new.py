from granary import rows


def good():
    for row in rows("north"):
        if row.state == "good":
            return True
    return False


def test_rows_are_good():
    """Every row is good."""
    assert good()
    assert len(rows("north")) == 3
