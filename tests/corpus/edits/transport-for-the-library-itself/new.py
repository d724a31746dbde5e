import httpx


def test_redirects_are_followed():
    seen = []

    def handler(request):
        seen.append(str(request.url))
        return httpx.Response(200)

    with httpx.Client(transport=httpx.MockTransport(handler)) as client:
        assert client.get("http://example.org/old").status_code == 200
    assert seen == ["http://example.org/old"]
