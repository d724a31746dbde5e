"""`usage`: tokens and cost of agents, from their own conversations."""

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
    """Tokens and cost of one group; `cost_usd` is None where a part of it is not known."""

    group: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None


def compute_usage(ctx: Context, names: list[str], by: str = "agent", *, destroyed: bool = False) -> list[UsageRow]:
    """What agents used, all that keep a conversation when none is named; `by` is one of BY, or label.KEY."""
    if by not in GROUPINGS and not (by.startswith("label.") and by[6:]):
        raise UsageError(f"usage cannot be told by {by!r}", "by: " + ", ".join(GROUPINGS) + ", label.KEY")
    kept = [get_transcript_location(ctx, name) for name in names] if names else _list_all_transcripts(ctx)
    if destroyed:
        kept += [locate_trashed_transcript(ctx, grave) for grave in list_trash(ctx) if grave.problem is None]
    prices = load_prices(ctx)
    groups: dict[str, list[tuple[dict[str, int], float | None]]] = {}
    for one, rows in zip(kept, map_parallel(lambda k: read_rows(ctx, k), kept, at_once=8), strict=True):
        if isinstance(rows, MngrError) and not names:
            continue  # a kind that keeps no conversation
        if isinstance(rows, Exception):
            raise rows
        if by == "agent":
            groups.setdefault(one.record.name, [])
        for row in rows:
            found = count_row_usage(row, prices)
            if found is not None and _is_from_agent(one, row):
                groups.setdefault(_get_group(one, row, by), []).append(found)
    return [_sum_usage(group, counts) for group, counts in sorted(groups.items())]


def add_usage(ctx: Context, agents: list[AgentView]) -> list[AgentView]:
    """The same agents with `usage` filled in where their kind keeps a conversation."""
    prices = load_prices(ctx)

    def one(agent: AgentView) -> AgentView:
        try:
            kept = get_transcript_location(ctx, agent.id)
            rows = read_rows(ctx, kept)
        except MngrError:
            return agent
        used = _sum_usage(
            "",
            [found for row in rows if _is_from_agent(kept, row) and (found := count_row_usage(row, prices))],
        )
        shown = {name: getattr(used, name) for name in ("input_tokens", "output_tokens", "cost_usd")}
        return agent.replace(usage=shown)

    found = map_parallel(one, agents, at_once=8)
    return [agent if isinstance(new, Exception) else new for agent, new in zip(agents, found, strict=True)]


def load_prices(ctx: Context) -> dict[str, dict[str, float]]:
    """The prices that are known: ours, and those of the file that `usage.prices` names."""
    paths = [os.path.join(os.path.dirname(kinds.__file__), "prices.json")]
    own = ctx.settings.get("usage.prices")
    if own:
        paths.append(os.path.expanduser(str(own)))
    found: dict[str, dict[str, float]] = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                models = json.load(file)["models"]
            found.update({str(name): {k: float(v) for k, v in row.items()} for name, row in models.items()})
        except OSError as error:
            raise MngrError(
                f"cannot read the prices {path}: {error.strerror}", "see: mngr config get usage.prices"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            hint = '{"models": {"NAME": {"input": 4.0, "output": 20.0}}}, in dollars for a million tokens'
            raise MngrError(f"{path} is no table of prices", f"it looks like: {hint}") from None
    return found


def count_row_usage(
    row: dict[str, Any], prices: dict[str, dict[str, float]]
) -> tuple[dict[str, int], float | None] | None:
    """(tokens, cost or None) of one row; None when it used nothing."""
    used = row.get("usage")
    if not isinstance(used, dict):
        return None
    counts = {name: _parse_count(used.get(name)) for name in TOKEN_FIELDS}
    cost = used.get("cost_usd")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9:
        return counts, float(cost)
    price = find_price(prices, str(row.get("model")))
    return counts, None if price is None or used.get("other_price") else _compute_cost(used, counts, price)


def _compute_cost(used: dict[str, Any], counts: dict[str, int], price: dict[str, float]) -> float | None:
    """By the price of one call; None where that does not tell all of it."""
    hour = min(_parse_count(used.get("cache_write_1h_tokens")), counts["cache_write_tokens"])
    amounts = {_PRICE_FIELDS[name]: count for name, count in counts.items()} | {"cache_write_1h": hour}
    amounts["cache_write"] -= hour
    asked = sum(count for name, count in counts.items() if name != "output_tokens")
    tier = "long_" if asked > price.get("long", asked) else ""
    if tier and _parse_count(used.get("calls")) > 1:
        return None  # together they are long; each may have been short
    if any(amount and tier + name not in price for name, amount in amounts.items()):
        return None
    return sum(amount * price[tier + name] for name, amount in amounts.items() if amount) / 1e6


def find_price(prices: dict[str, dict[str, float]], model: str) -> dict[str, float] | None:
    """The price of a model, None when nobody told us."""
    fits = [name for name in prices if name == model or (name.endswith("*") and model.startswith(name[:-1]))]
    return prices[max(fits, key=len)] if fits else None


def _list_all_transcripts(ctx: Context) -> list[TranscriptLocation]:
    found: list[TranscriptLocation] = []
    for _, _, answer in listing.observe_all_hosts(ctx):
        for seen in answer if isinstance(answer, list) else []:
            if seen.record is not None:
                directory = seen.host.home.agent_dir(seen.id)
                found.append(TranscriptLocation(host=seen.host, record=seen.record, directory=directory))
    return found


def _is_from_agent(kept: TranscriptLocation, row: dict[str, Any]) -> bool:
    """Not when it was said before there was this agent: a clone, or a conversation that it took up."""
    return str(row.get("at") or "~")[:19] >= kept.record.created_at[:19]


def _get_group(kept: TranscriptLocation, row: dict[str, Any], by: str) -> str:
    if by == "day":
        return str(row.get("at") or "")[:10] or "unknown"
    if by == "model":
        return str(row.get("model") or "unknown")
    if by.startswith("label."):
        return kept.record.labels.get(by[6:], "-")
    return str({"agent": kept.record.name, "kind": kept.record.kind, "project": kept.record.project}[by])


def _sum_usage(group: str, counts: list[tuple[dict[str, int], float | None]]) -> UsageRow:
    total = {name: sum(tokens[name] for tokens, _ in counts) for name in TOKEN_FIELDS}
    costs = [cost for _, cost in counts]
    known = [cost for cost in costs if cost is not None]
    return UsageRow(group=group, **total, cost_usd=round(sum(known), 6) if len(known) == len(costs) else None)


def _parse_count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0
