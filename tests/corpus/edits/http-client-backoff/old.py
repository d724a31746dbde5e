from unittest import mock

import httpx
import pytest

from weatherapi import Client


def make_transport(statuses):
    replies = iter(statuses)

    def handler(request):
        return httpx.Response(next(replies), json={"temp": 21.5})

    return httpx.MockTransport(handler)


def test_client_retries_on_503(monkeypatch):
    naps = []
    monkeypatch.setattr("weatherapi.client.sleep", naps.append)
    client = Client(transport=make_transport([503, 503, 200]))
    assert client.temperature("Oslo") == 21.5
    assert naps == [0.5, 1.0]
