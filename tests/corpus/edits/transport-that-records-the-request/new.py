import httpx

from weather import temperature


def test_temperature():
    asked = []

    def answer(request):
        asked.append(request)
        return httpx.Response(200, json={"place": "Oslo", "now": {"temp_c": "-3.5"}})

    client = httpx.Client(transport=httpx.MockTransport(answer))
    assert temperature(client, "Oslo") == -3.5
    assert [str(one.url) for one in asked] == ["https://api.weather.test/v1/now?place=Oslo"]
