from parcel import deliver


def test_courier_takes_it():
    """The courier is called with the parcel."""
    taken = []
    deliver("box", taken.append)
    assert taken == ["box"]
