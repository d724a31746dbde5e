from shop import load, price


class TestShop:
    def test_total(self) -> None:
        """The total."""
        assert price("rice") == 3
        assert "jam" in load("all")
