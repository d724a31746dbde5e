"""Computes tokens and cost of agents from their conversations."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from mngr import kinds
from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.transcript import (
    TranscriptLocation,
    get_transcript_location,
    locate_trashed_transcript,
    read_entries,
)
from mngr.agents.inspect.trash import list_trash
from mngr.base.errors import MngrError, UsageError
from mngr.base.fanout import map_parallel
from mngr.base.model import AgentView, Struct
from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry

TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_PRICE_FIELDS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache_read",
    "cache_write_tokens": "cache_write",
}
GROUPINGS = ("agent", "day", "model", "kind", "project")


class UsageRow(Struct):
    """Tokens and cost of one group. `cost_usd` is None when a part of the cost is unknown."""

    group: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None


class MissingHost(Struct):
    """A host that did not answer, so that the usage of its agents is not counted."""

    host: str
    provider: str
    error: str


class EntryUsage(Struct):
    """Tokens by name, and cost, of one entry of a conversation. The cost is None when it is unknown."""

    tokens: dict[str, int]
    cost_usd: float | None


def compute_usage(
    ctx: Context,
    names: list[str],
    by: str = "agent",
    *,
    destroyed: bool = False,
    on_missing_host: Callable[[MissingHost], None] | None = None,
) -> list[UsageRow]:
    """Return the usage of the named agents, or of all, grouped by one of GROUPINGS or by label.KEY.

    Without names, a host that does not answer is left out, and `on_missing_host` learns why.
    """
    if by not in GROUPINGS and not (by.startswith("label.") and by[6:]):
        raise UsageError(f"mngr cannot group usage by {by!r}", "use one of: " + ", ".join(GROUPINGS) + ", label.KEY")
    if names:
        locations = [get_transcript_location(ctx, name) for name in names]
    else:
        locations, missing_hosts = _list_all_transcripts(ctx)
        if on_missing_host is not None:
            for missing_host in missing_hosts:
                on_missing_host(missing_host)
    if destroyed:
        locations += [locate_trashed_transcript(ctx, trashed) for trashed in list_trash(ctx) if trashed.problem is None]
    prices = load_prices(ctx)
    groups: dict[str, list[EntryUsage]] = {}
    transcripts = map_parallel(lambda item: read_entries(ctx, item), locations, at_once=8)
    for location, entries in zip(locations, transcripts, strict=True):
        if isinstance(entries, MngrError) and not names:
            continue  # This kind keeps no conversation.
        if isinstance(entries, Exception):
            raise entries
        if by == "agent":
            groups.setdefault(location.record.name, [])
        for entry in _select_own_entries(location, entries):
            entry_usage = count_entry_usage(entry, prices)
            if entry_usage is not None:
                groups.setdefault(_get_group(location, entry, by), []).append(entry_usage)
    return [_sum_usage(group, usages) for group, usages in sorted(groups.items())]


def add_usage(ctx: Context, agents: list[AgentView]) -> list[AgentView]:
    """Return the agents with `usage` filled in where their kind keeps a conversation."""
    prices = load_prices(ctx)

    def add_to_agent(agent: AgentView) -> AgentView:
        try:
            location = get_transcript_location(ctx, agent.id)
            entries = read_entries(ctx, location)
        except MngrError:
            return agent
        own_entries = _select_own_entries(location, entries)
        usages = [count_entry_usage(entry, prices) for entry in own_entries]
        total = _sum_usage("", [entry_usage for entry_usage in usages if entry_usage is not None])
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
                f"cannot read the price file {path}: {error.strerror}",
                "see which file is set: mngr config get usage.prices",
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            hint = '{"models": {"NAME": {"input": 4.0, "output": 20.0}}}, in US dollars per million tokens'
            raise MngrError(f"{path} is not a valid price file", f"write it like this: {hint}") from None
    return prices


def count_entry_usage(entry: TranscriptEntry, prices: dict[str, dict[str, float]]) -> EntryUsage | None:
    """Return the usage of one entry, or None when the entry used nothing."""
    usage = entry.usage
    if usage is None:
        return None
    tokens = {name: _check_count(getattr(usage, name)) for name in TOKEN_FIELDS}
    if usage.cost_usd is not None and 0 <= usage.cost_usd < 1e9:
        return EntryUsage(tokens=tokens, cost_usd=float(usage.cost_usd))
    price = find_price(prices, str(entry.model))
    if price is None or usage.other_price:
        return EntryUsage(tokens=tokens, cost_usd=None)
    return EntryUsage(tokens=tokens, cost_usd=_compute_cost(usage, tokens, price))


def _compute_cost(usage: TokenUsage, counts: dict[str, int], price: dict[str, float]) -> float | None:
    """Return the cost of one call, or None when the prices do not cover all of it."""
    hour_tokens = min(_check_count(usage.cache_write_1h_tokens), counts["cache_write_tokens"])
    amounts = {_PRICE_FIELDS[name]: count for name, count in counts.items()} | {"cache_write_1h": hour_tokens}
    amounts["cache_write"] -= hour_tokens
    input_tokens = sum(count for name, count in counts.items() if name != "output_tokens")
    tier = "long_" if input_tokens > price.get("long", input_tokens) else ""
    if tier and _check_count(usage.calls) > 1:
        return None  # The calls are long together, but each one may have been short.
    if any(amount and tier + name not in price for name, amount in amounts.items()):
        return None
    return sum(amount * price[tier + name] for name, amount in amounts.items() if amount) / 1e6


def find_price(prices: dict[str, dict[str, float]], model: str) -> dict[str, float] | None:
    """Return the price of a model, or None when it is unknown."""
    patterns = [name for name in prices if name == model or (name.endswith("*") and model.startswith(name[:-1]))]
    return prices[max(patterns, key=len)] if patterns else None


def _list_all_transcripts(ctx: Context) -> tuple[list[TranscriptLocation], list[MissingHost]]:
    """Return where the conversations of all agents are, and the hosts that did not answer."""
    locations: list[TranscriptLocation] = []
    missing_hosts: list[MissingHost] = []
    for provider, host, answer in listing.observe_all_hosts(ctx):
        if isinstance(answer, MngrError):
            missing_hosts.append(MissingHost(host=host, provider=provider, error=answer.message))
            continue
        for observed in answer:
            if observed.record is not None:
                directory = observed.host.home.agent_dir(observed.id)
                locations.append(TranscriptLocation(host=observed.host, record=observed.record, directory=directory))
    return locations, missing_hosts


def _select_own_entries(location: TranscriptLocation, entries: list[TranscriptEntry]) -> list[TranscriptEntry]:
    """Return the entries that are not older than the agent.

    Older entries come from the original of a clone, or from a resumed conversation.
    """
    created_at = location.record.created_at[:19]
    return [entry for entry in entries if (entry.at or "~")[:19] >= created_at]


def _get_group(location: TranscriptLocation, entry: TranscriptEntry, by: str) -> str:
    """Return the name of the group that an entry belongs to."""
    if by == "day":
        return (entry.at or "")[:10] or "unknown"
    if by == "model":
        return entry.model or "unknown"
    if by.startswith("label."):
        return location.record.labels.get(by[6:], "-")
    return str({"agent": location.record.name, "kind": location.record.kind, "project": location.record.project}[by])


def _sum_usage(group: str, usages: list[EntryUsage]) -> UsageRow:
    """Return the row of a group. Its cost is None when one of the costs is unknown."""
    total = {name: sum(usage.tokens[name] for usage in usages) for name in TOKEN_FIELDS}
    known_costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    is_cost_known = len(known_costs) == len(usages)
    return UsageRow(group=group, **total, cost_usd=round(sum(known_costs), 6) if is_cost_known else None)


def _check_count(count: int | None) -> int:
    """Return a plausible number of tokens, or 0, because an agent can write any number there."""
    return count if count is not None and 0 <= count < 1 << 53 else 0
