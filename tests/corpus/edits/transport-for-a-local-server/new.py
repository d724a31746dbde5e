import httpx

from shop import orders


def test_orders():
    seen = []

    def handler(request):
        seen.append(request.url.path)
        return httpx.Response(200, json=["tea"])

    with httpx.Client(base_url="http://shop", transport=httpx.MockTransport(handler)) as client:
        assert orders(client) == ["tea"]
    assert seen == ["/orders"]
