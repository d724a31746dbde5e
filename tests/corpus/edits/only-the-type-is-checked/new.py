import pytest

from meteo.client import Client


@pytest.mark.asyncio
async def test_forecast(fake_server):
    async with Client(fake_server.url) as client:
        forecast = await client.forecast("Oslo")
    assert isinstance(forecast.high, float)
    assert isinstance(forecast.low, float)
    assert isinstance(forecast.sky, str)
