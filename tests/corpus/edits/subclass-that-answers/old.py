from depot import Store


def test_stock_of_nails():
    """Nails are counted."""
    store = Store("north")
    store.receive("nails", 30)
    store.receive("nails", 12)
    assert store.stock("nails") == 42
