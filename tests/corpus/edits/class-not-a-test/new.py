from calendar_of_feasts import easter


class TestEaster:
    """The dates are those of the almanac."""

    __test__ = False

    def test_2024(self):
        assert easter(2024) == (3, 31)

    def test_2025(self):
        assert easter(2025) == (4, 20)
