"""Computes tokens and cost of agents from their conversations."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr import kinds
from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.transcript import (
    TranscriptLocation,
    get_transcript_location,
    locate_trashed_transcript,
    read_rows,
)
from mngr.agents.inspect.trash import list_trash
from mngr.base.errors import MngrError, UsageError
from mngr.base.fanout import map_parallel
from mngr.base.model import AgentView, Struct

TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_PRICE_FIELDS = {"input_tokens": "input", "output_tokens": "output", "cache_read_tokens": "cache_read", "cache_write_tokens": "cache_write"}  # fmt: skip
GROUPINGS = ("agent", "day", "model", "kind", "project")


class UsageRow(Struct):
    """Tokens and cost of one group. `cost_usd` is None when a part of the cost is unknown."""

    group: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None


def compute_usage(ctx: Context, names: list[str], by: str = "agent", *, destroyed: bool = False) -> list[UsageRow]:
    """Return the usage of the named agents, or of all, grouped by one of GROUPINGS or by label.KEY."""
    if by not in GROUPINGS and not (by.startswith("label.") and by[6:]):
        raise UsageError(f"usage cannot be told by {by!r}", "by: " + ", ".join(GROUPINGS) + ", label.KEY")
    locations = [get_transcript_location(ctx, name) for name in names] if names else _list_all_transcripts(ctx)
    if destroyed:
        locations += [locate_trashed_transcript(ctx, trashed) for trashed in list_trash(ctx) if trashed.problem is None]
    prices = load_prices(ctx)
    groups: dict[str, list[tuple[dict[str, int], float | None]]] = {}
    for location, rows in zip(
        locations, map_parallel(lambda item: read_rows(ctx, item), locations, at_once=8), strict=True
    ):
        if isinstance(rows, MngrError) and not names:
            continue  # This kind keeps no conversation.
        if isinstance(rows, Exception):
            raise rows
        if by == "agent":
            groups.setdefault(location.record.name, [])
        for row in rows:
            row_usage = count_row_usage(row, prices)
            if row_usage is not None and _is_from_agent(location, row):
                groups.setdefault(_get_group(location, row, by), []).append(row_usage)
    return [_sum_usage(group, counts) for group, counts in sorted(groups.items())]


def add_usage(ctx: Context, agents: list[AgentView]) -> list[AgentView]:
    """Return the agents with `usage` filled in where their kind keeps a conversation."""
    prices = load_prices(ctx)

    def add_to_agent(agent: AgentView) -> AgentView:
        try:
            location = get_transcript_location(ctx, agent.id)
            rows = read_rows(ctx, location)
        except MngrError:
            return agent
        total = _sum_usage(
            "",
            [
                row_usage
                for row in rows
                if _is_from_agent(location, row) and (row_usage := count_row_usage(row, prices))
            ],
        )
        usage = {name: getattr(total, name) for name in ("input_tokens", "output_tokens", "cost_usd")}
        return agent.replace(usage=usage)

    updated = map_parallel(add_to_agent, agents, at_once=8)
    return [agent if isinstance(result, Exception) else result for agent, result in zip(agents, updated, strict=True)]


def load_prices(ctx: Context) -> dict[str, dict[str, float]]:
    """Return the known prices by model: the built-in ones and those of the file that `usage.prices` names."""
    paths = [os.path.join(os.path.dirname(kinds.__file__), "prices.json")]
    user_file = ctx.settings.get("usage.prices")
    if user_file:
        paths.append(os.path.expanduser(str(user_file)))
    prices: dict[str, dict[str, float]] = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                models = json.load(file)["models"]
            prices.update({str(name): {k: float(v) for k, v in row.items()} for name, row in models.items()})
        except OSError as error:
            raise MngrError(
                f"cannot read the prices {path}: {error.strerror}", "see: mngr config get usage.prices"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            hint = '{"models": {"NAME": {"input": 4.0, "output": 20.0}}}, in dollars for a million tokens'
            raise MngrError(f"{path} is no table of prices", f"it looks like: {hint}") from None
    return prices


def count_row_usage(
    row: dict[str, Any], prices: dict[str, dict[str, float]]
) -> tuple[dict[str, int], float | None] | None:
    """Return (tokens, cost or None) of one row, or None when the row used nothing."""
    usage = row.get("usage")
    if not isinstance(usage, dict):
        return None
    counts = {name: _parse_count(usage.get(name)) for name in TOKEN_FIELDS}
    cost = usage.get("cost_usd")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9:
        return counts, float(cost)
    price = find_price(prices, str(row.get("model")))
    return counts, None if price is None or usage.get("other_price") else _compute_cost(usage, counts, price)


def _compute_cost(usage: dict[str, Any], counts: dict[str, int], price: dict[str, float]) -> float | None:
    """Return the cost of one call, or None when the prices do not cover all of it."""
    hour_tokens = min(_parse_count(usage.get("cache_write_1h_tokens")), counts["cache_write_tokens"])
    amounts = {_PRICE_FIELDS[name]: count for name, count in counts.items()} | {"cache_write_1h": hour_tokens}
    amounts["cache_write"] -= hour_tokens
    input_tokens = sum(count for name, count in counts.items() if name != "output_tokens")
    tier = "long_" if input_tokens > price.get("long", input_tokens) else ""
    if tier and _parse_count(usage.get("calls")) > 1:
        return None  # The calls are long together, but each one may have been short.
    if any(amount and tier + name not in price for name, amount in amounts.items()):
        return None
    return sum(amount * price[tier + name] for name, amount in amounts.items() if amount) / 1e6


def find_price(prices: dict[str, dict[str, float]], model: str) -> dict[str, float] | None:
    """Return the price of a model, or None when it is unknown."""
    patterns = [name for name in prices if name == model or (name.endswith("*") and model.startswith(name[:-1]))]
    return prices[max(patterns, key=len)] if patterns else None


def _list_all_transcripts(ctx: Context) -> list[TranscriptLocation]:
    locations: list[TranscriptLocation] = []
    for _, _, answer in listing.observe_all_hosts(ctx):
        for observed in answer if isinstance(answer, list) else []:
            if observed.record is not None:
                directory = observed.host.home.agent_dir(observed.id)
                locations.append(TranscriptLocation(host=observed.host, record=observed.record, directory=directory))
    return locations


def _is_from_agent(location: TranscriptLocation, row: dict[str, Any]) -> bool:
    """False for a row that is older than the agent: from the original of a clone, or from a resumed conversation."""
    return str(row.get("at") or "~")[:19] >= location.record.created_at[:19]


def _get_group(location: TranscriptLocation, row: dict[str, Any], by: str) -> str:
    """Return the name of the group that a row belongs to."""
    if by == "day":
        return str(row.get("at") or "")[:10] or "unknown"
    if by == "model":
        return str(row.get("model") or "unknown")
    if by.startswith("label."):
        return location.record.labels.get(by[6:], "-")
    return str({"agent": location.record.name, "kind": location.record.kind, "project": location.record.project}[by])


def _sum_usage(group: str, counts: list[tuple[dict[str, int], float | None]]) -> UsageRow:
    """Return the row of a group. Its cost is None when one of the costs is unknown."""
    total = {name: sum(tokens[name] for tokens, _ in counts) for name in TOKEN_FIELDS}
    costs = [cost for _, cost in counts]
    known_costs = [cost for cost in costs if cost is not None]
    return UsageRow(
        group=group, **total, cost_usd=round(sum(known_costs), 6) if len(known_costs) == len(costs) else None
    )


def _parse_count(value: object) -> int:
    """Return a plausible number of tokens, or 0, because an agent can write anything there."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0
