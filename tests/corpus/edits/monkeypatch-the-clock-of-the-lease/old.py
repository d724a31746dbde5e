from datetime import timedelta

from leases import Lease


def test_a_lease_ends():
    """A lease is over when its time is."""
    lease = Lease(length=timedelta(0))
    assert lease.over()
    assert lease.holder is None


def test_a_lease_lasts():
    """Until then it is held."""
    lease = Lease(length=timedelta(hours=1), holder="me")
    assert not lease.over()
    assert lease.holder == "me"
