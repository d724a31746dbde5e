import httpx

from shop import orders


def test_orders(server_port):
    with httpx.Client(base_url=f"http://127.0.0.1:{server_port}") as client:
        assert orders(client) == ["tea"]
