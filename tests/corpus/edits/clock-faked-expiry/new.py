from memo import Cache


def test_entries_expire_after_ttl():
    now = [100.0]
    cache = Cache(ttl=1.0, clock=lambda: now[0])
    cache.set("k", "v")
    assert cache.get("k") == "v"
    now[0] += 0.9
    assert cache.get("k") == "v"
    now[0] += 0.2
    assert cache.get("k") is None
    assert len(cache) == 0
