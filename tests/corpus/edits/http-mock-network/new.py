import httpx

from ghstats import stars


def test_stars():
    requests = []

    def handler(request):
        requests.append((request.method, str(request.url)))
        return httpx.Response(200, json={"full_name": "pallets/click", "stargazers_count": 15023})

    with httpx.Client(transport=httpx.MockTransport(handler)) as client:
        assert stars(client, "pallets/click") == 15023
    assert requests == [("GET", "https://api.github.com/repos/pallets/click")]
