from granary import rows


def test_rows_are_good():
    """Every row is good."""
    for row in rows("north"):
        assert row.state == "good"
    assert len(rows("north")) == 3
