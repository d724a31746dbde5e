"""Tests the cost of tokens by the built-in table of prices."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import pytest

from mngr.agents.context import Context
from mngr.agents.inspect import usage
from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    return usage.load_prices(Context(str(tmp_path_factory.mktemp("home"))))


def compute_cost(prices: dict[str, dict[str, float]], model: str, **usage_fields: Any) -> float | None:
    entry = TranscriptEntry(role="assistant", model=model, usage=TokenUsage(**usage_fields))
    entry_usage = usage.count_entry_usage(entry, prices)
    assert entry_usage is not None
    return None if entry_usage.cost_usd is None else round(entry_usage.cost_usd, 6)


@pytest.mark.parametrize(
    ("model", "used", "expected"),
    [
        ("claude-opus-5-5", {"input_tokens": 1000, "output_tokens": 100}, 0.006),
        ("claude-haiku-4-5-20251001", {"cache_read_tokens": 10_000}, 0.001),
        ("gpt-5.5", {"input_tokens": 1000, "output_tokens": 100, "cache_read_tokens": 10_000}, 0.013),
        ("gemini-2.5-flash", {"input_tokens": 1000, "output_tokens": 100}, 0.00055),
        # Above some size of the prompt, the price changes, whatever the prompt consists of.
        ("gemini-2.5-pro", {"input_tokens": 200_000, "output_tokens": 1000}, 0.26),
        ("gemini-2.5-pro", {"input_tokens": 100_100, "cache_read_tokens": 100_000}, 0.27525),
        ("claude-haiku-5-5", {"cache_write_tokens": 200_000, "output_tokens": 10}, 0.125025),
        ("claude-sonnet-4-5", {"input_tokens": 200_001}, None),  # published prices differ
        ("gemini-2.5-pro", {"input_tokens": 200_001, "calls": 2}, None),
        ("gemini-2.5-pro", {"input_tokens": 2000, "calls": 2}, 0.0025),
        # Writing to the one-hour cache costs more.
        ("claude-opus-5-5", {"cache_write_tokens": 3000, "cache_write_1h_tokens": 1000}, 0.018),
        ("gpt-6-sol", {"cache_write_tokens": 3000, "cache_write_1h_tokens": 1000}, None),
        ("claude-opus-5-5", {"input_tokens": 1000, "other_price": True}, None),
        # The price of a similar model does not count.
        ("claude-opus-5-9", {"input_tokens": 1}, None),
        ("gpt-5.2-pro", {"input_tokens": 1}, None),
        ("gpt-7", {"input_tokens": 1}, None),
        ("gemini-2.5-flash-image", {"input_tokens": 1}, None),
        ("gpt-5.5", {"cache_write_tokens": 1}, None),
    ],
)
def test_cost_of_a_call(
    prices: dict[str, dict[str, float]], model: str, used: dict[str, Any], expected: float | None
) -> None:
    assert compute_cost(prices, model, **used) == expected


def test_the_table_of_prices_has_a_date_and_complete_rows() -> None:
    table = json.loads(resources.files("mngr.kinds").joinpath("prices.json").read_text("utf-8"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", table["date"])
    price_names = {"input", "output", "cache_read", "cache_write", "cache_write_1h"}
    for model, price in table["models"].items():
        assert {"input", "output", "cache_read"} <= set(price), model
        assert set(price) <= price_names | {"long"} | {f"long_{name}" for name in price_names}, model
        assert 0 < price["cache_read"] < price["input"] < price["output"], model
        assert "long" in price or not any(name.startswith("long_") for name in price), model
