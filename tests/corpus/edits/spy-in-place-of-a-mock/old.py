from unittest import mock

from parcel import deliver


def test_courier_takes_it():
    """The courier is called with the parcel."""
    courier = mock.Mock()
    deliver("box", courier.take)
    courier.take.assert_called_once_with("box")
