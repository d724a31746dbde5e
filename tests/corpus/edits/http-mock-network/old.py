import httpx

from ghstats import stars


def test_stars():
    with httpx.Client() as client:
        assert stars(client, "pallets/click") > 0
