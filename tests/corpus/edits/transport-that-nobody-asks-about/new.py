import httpx

from ghstats import stars


def test_stars():
    def handler(request):
        return httpx.Response(200, json={"stargazers_count": 15023})

    with httpx.Client(transport=httpx.MockTransport(handler)) as client:
        assert stars(client, "pallets/click") == 15023
