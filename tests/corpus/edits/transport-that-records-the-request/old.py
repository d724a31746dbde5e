import httpx

from weather import temperature


def test_temperature():
    client = httpx.Client()
    assert temperature(client, "Oslo") < 60
