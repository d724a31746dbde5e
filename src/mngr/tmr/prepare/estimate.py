"""What a run will take, before any agent is made: agents, tokens, money and time, from low to high."""

from __future__ import annotations

import math

from mngr.base.model import Struct
from mngr.tmr.plan import RunPlan
from mngr.tmr.prepare.history import RunHistory
from mngr.tmr.prepare.prepare import PreparedTests
from mngr.tmr.prepare.prompt import Prompt

KINDS_WITHOUT_MODEL = ("mechanic", "player", "command")  # need no model
_FULL_RECEIPT_RUNS = 24  # runs that a receipt in full takes beyond those of a quick one, about
_MODEL_TURNS = (
    5,
    60,
)  # how often a model reads its brief again and what it has seen since, if nothing is known
_AGENT_MINUTES = (1.0, 15.0)  # that one agent takes
_SCRIPTED_AGENT_SECONDS = (2.0, 15.0)  # that one takes which needs no model


class Estimate(Struct):
    """Low and high of everything; money is None where no price is known."""

    tests: int
    failing: int
    causes: int
    skipped: int
    agents: tuple[int, int]
    brief_tokens: int  # of the longest
    shared_tokens: int  # that all agents are told alike, so that prompt caches hit
    tokens: tuple[int, int]
    cost_usd: tuple[float, float] | None
    seconds: tuple[float, float]

    @property
    def text(self) -> str:
        """For people."""
        cost = "cost unknown" if self.cost_usd is None else f"${self.cost_usd[0]:.2f} to ${self.cost_usd[1]:.2f}"
        low, high = (f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s" for seconds in self.seconds)
        return (
            f"{self.tests} tests ({self.failing} fail, {self.causes} shared causes, {self.skipped} skipped): "
            f"{_format_range(*self.agents)} agents, {_format_range(*self.tokens)} tokens, {cost}, {low} to {high}; "
            f"a brief of {self.brief_tokens} tokens, {self.shared_tokens} of them the same for all"
        )


def estimate_run(
    plan: RunPlan, prepared: PreparedTests, memory: RunHistory, briefs: list[Prompt], slots: int, cores: int
) -> Estimate:
    """What the journal's facts and earlier runs let expect."""
    chosen = prepared.selected_tests
    brief_tokens = max((brief.tokens for brief in briefs), default=0)
    held = sum(len(cause["tests"]) for cause in prepared.root_causes)
    fewest, most = (
        len(chosen) - held + len(prepared.root_causes),
        len(chosen) + plan.tries * len(prepared.root_causes),
    )
    known = [one for one in memory.tests.values() if one.tokens]
    is_free = plan.agent in KINDS_WITHOUT_MODEL
    if is_free:
        each = (0, 0)
    elif known:
        each = (min(one.tokens for one in known), max(one.tokens for one in known))
    else:
        each = (brief_tokens * _MODEL_TURNS[0], brief_tokens * _MODEL_TURNS[1])
    tokens = (each[0] * fewest, each[1] * most)
    rates = [one.cost / one.tokens for one in known if one.cost is not None]
    cost = None
    if is_free:
        cost = (0.0, 0.0)
    elif rates:
        cost = (tokens[0] * min(rates), tokens[1] * max(rates))
    runs = plan.verify_k + (_FULL_RECEIPT_RUNS if plan.verify == "full" else 0)
    ours = sum(one.seconds for one in chosen) * runs / cores
    spans = _SCRIPTED_AGENT_SECONDS if is_free else (_AGENT_MINUTES[0] * 60, _AGENT_MINUTES[1] * 60)
    rounds = (math.ceil(fewest / max(1, slots)), math.ceil(most / max(1, slots)))
    return Estimate(
        tests=len(prepared.tests), failing=sum(one.verdict != "pass" for one in prepared.tests.values()),
        causes=len(prepared.root_causes), skipped=len(prepared.skipped), agents=(fewest, most), brief_tokens=brief_tokens,
        shared_tokens=briefs[0].shared_tokens if briefs else 0,
        tokens=tokens, cost_usd=cost, seconds=(ours + rounds[0] * spans[0], ours * 2 + rounds[1] * spans[1]),
    )  # fmt: skip


def _format_range(low: float, high: float) -> str:
    return _format_number(low) if low == high else f"{_format_number(low)} to {_format_number(high)}"


def _format_number(number: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= 10 * size:
            return f"{number / size:.0f}{letter}"
    return f"{number:.0f}"
