import httpx


def test_redirects_are_followed():
    with httpx.Client(follow_redirects=True) as client:
        assert client.get("http://example.org/old").status_code == 200
