from unittest import mock

from parcel import deliver


def test_courier_is_called():
    """The courier is called with the parcel."""
    courier = mock.Mock()
    deliver("box", courier)
    courier.take.assert_called_once_with("box")
