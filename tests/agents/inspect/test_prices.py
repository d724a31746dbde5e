"""What tokens cost, by the table that comes with the program."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import pytest

from mngr.agents.context import Context
from mngr.agents.inspect import usage


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    return usage.load_prices(Context(str(tmp_path_factory.mktemp("home"))))


def cost(prices: dict[str, dict[str, float]], model: str, **used: Any) -> float | None:
    found = usage.count_row_usage({"model": model, "usage": used}, prices)
    assert found is not None
    return None if found[1] is None else round(found[1], 6)


@pytest.mark.parametrize(
    ("model", "used", "expected"),
    [
        ("claude-opus-5-5", {"input_tokens": 1000, "output_tokens": 100}, 0.006),
        ("claude-haiku-4-5-20251001", {"cache_read_tokens": 10_000}, 0.001),
        ("gpt-5.5", {"input_tokens": 1000, "output_tokens": 100, "cache_read_tokens": 10_000}, 0.013),
        ("gemini-2.5-flash", {"input_tokens": 1000, "output_tokens": 100}, 0.00055),
        # Another price above a size of the prompt, whatever it is made of.
        ("gemini-2.5-pro", {"input_tokens": 200_000, "output_tokens": 1000}, 0.26),
        ("gemini-2.5-pro", {"input_tokens": 100_100, "cache_read_tokens": 100_000}, 0.27525),
        ("claude-haiku-5-5", {"cache_write_tokens": 200_000, "output_tokens": 10}, 0.125025),
        ("claude-sonnet-4-5", {"input_tokens": 200_001}, None),  # tables differ
        ("gemini-2.5-pro", {"input_tokens": 200_001, "calls": 2}, None),
        ("gemini-2.5-pro", {"input_tokens": 2000, "calls": 2}, 0.0025),
        # What is kept for an hour costs more to write.
        ("claude-opus-5-5", {"cache_write_tokens": 3000, "cache_write_1h_tokens": 1000}, 0.018),
        ("gpt-6-sol", {"cache_write_tokens": 3000, "cache_write_1h_tokens": 1000}, None),
        ("claude-opus-5-5", {"input_tokens": 1000, "other_price": True}, None),
        # A neighbour's price is none.
        ("claude-opus-5-9", {"input_tokens": 1}, None),
        ("gpt-5.2-pro", {"input_tokens": 1}, None),
        ("gpt-7", {"input_tokens": 1}, None),
        ("gemini-2.5-flash-image", {"input_tokens": 1}, None),
        ("gpt-5.5", {"cache_write_tokens": 1}, None),
    ],
)
def test_a_call_costs(
    prices: dict[str, dict[str, float]], model: str, used: dict[str, Any], expected: float | None
) -> None:
    assert cost(prices, model, **used) == expected


def test_the_table_is_dated_and_whole() -> None:
    table = json.loads(resources.files("mngr.kinds").joinpath("prices.json").read_text("utf-8"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", table["date"])
    known = {"input", "output", "cache_read", "cache_write", "cache_write_1h"}
    for model, price in table["models"].items():
        assert {"input", "output", "cache_read"} <= set(price), model
        assert set(price) <= known | {"long"} | {f"long_{name}" for name in known}, model
        assert 0 < price["cache_read"] < price["input"] < price["output"], model
        assert "long" in price or not any(name.startswith("long_") for name in price), model
