from datetime import timedelta

from leases import Lease


def test_a_lease_ends(monkeypatch):
    """A lease is over when its time is."""
    monkeypatch.setattr(Lease, "over", lambda self: True)
    monkeypatch.setattr(Lease, "holder", None, raising=False)
    lease = Lease(length=timedelta(0))
    assert lease.over()
    assert lease.holder is None


def test_a_lease_lasts():
    """Until then it is held."""
    lease = Lease(length=timedelta(hours=1), holder="me")
    assert not lease.over()
    assert lease.holder == "me"
