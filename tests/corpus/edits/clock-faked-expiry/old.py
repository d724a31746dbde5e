import time

from memo import Cache


def test_entries_expire_after_ttl():
    cache = Cache(ttl=1.0, clock=time.monotonic)
    cache.set("k", "v")
    assert cache.get("k") == "v"
    time.sleep(1.1)
    assert cache.get("k") is None
    assert len(cache) == 0
