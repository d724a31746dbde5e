import pytest

from meteo.client import Client


@pytest.mark.asyncio
async def test_forecast(fake_server):
    async with Client(fake_server.url) as client:
        forecast = await client.forecast("Oslo")
    assert forecast.high == 21.5
    assert forecast.low == 12.0
    assert forecast.sky == "cloudy"
