from unittest import mock

from parcel import deliver


def test_courier_is_called():
    """The courier is called with the parcel."""
    courier = mock.Mock()
    deliver("box", courier)
    assert courier.take.called_once_with("box")
