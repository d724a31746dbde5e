"""Runs an operation on several agents. Each one gets its own outcome, and each host is asked only once."""

from __future__ import annotations

from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.base import names_and_addresses
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import Outcome
from mngr.host import record_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord

LIVE_STATES = ("STARTING", "RUNNING", "WAITING", "PARKED")


def resolve_names(ctx: Context, agent_names: list[str]) -> list[ObservedAgent | MngrError]:
    """Return the observed agent for each name, or the error."""
    ids = {}
    ids_by_host: dict[tuple[str, str], list[str]] = {}
    if ctx.home.exists():
        for name in agent_names:
            known_id = record_store.find_id(ctx.home, name) if names_and_addresses.is_agent_name(name) else None
            if known_id or names_and_addresses.is_agent_id(name):
                ids[name] = known_id or name
                host_key = record_store.find_host_of_name(ctx.home, name) or ("local", "local")
                ids_by_host.setdefault(host_key, []).append(ids[name])
    answers = map_parallel(
        lambda item: listing.observe_host(ctx, ctx.get_host(*item[0]), list(dict.fromkeys(item[1]))),
        list(ids_by_host.items()),
        at_once=32,
    )
    agents = {agent.id: agent for answer in answers if not isinstance(answer, Exception) for agent in answer}
    errors = {
        i: e
        for e, host_ids in zip(answers, ids_by_host.values(), strict=True)
        if isinstance(e, MngrError)
        for i in host_ids
    }

    def resolve_one(name: str) -> ObservedAgent | MngrError:
        if name in ids and ids[name] in agents:
            return agents[ids[name]]
        if name in ids and ids[name] in errors:
            return errors[ids[name]]
        try:
            return find.observe_agent(ctx, name)
        except MngrError as error:
            return error

    return [resolve_one(name) for name in agent_names]


def make_failed_outcome(name: str, error: Exception, agent_id: str | None = None) -> Outcome:
    """Return the failed outcome of a target. Raise any error that is not an MngrError, because it is a bug."""
    if not isinstance(error, MngrError):
        raise error
    return Outcome(id=agent_id, name=name, ok=False, error=error.message, hint=error.hint, exit_code=error.exit_code)


def run_on_targets(
    ctx: Context,
    target_names: list[str],
    work: Callable[[ObservedAgent, AgentRecord], Outcome],
    at_once: int = 8,
    observed: list[ObservedAgent | MngrError] | None = None,
) -> list[Outcome]:
    """Run `work` on every target in parallel and return the outcomes. An MngrError becomes the target's outcome.

    A target that is named twice runs once. `observed` are the resolved targets, if the caller has them already.
    """

    def run_one(pair: tuple[str, ObservedAgent | MngrError]) -> Outcome:
        name, target = pair
        if isinstance(target, MngrError):
            return make_failed_outcome(name, target)
        try:
            return work(target, get_record(target))
        except MngrError as error:
            return make_failed_outcome(target.record.name if target.record else name, error, target.id)

    observed = resolve_names(ctx, target_names) if observed is None else observed
    pairs = drop_repeated_targets(list(zip(target_names, observed, strict=True)))
    answers = map_parallel(run_one, pairs, at_once)
    return [
        answer if not isinstance(answer, Exception) else make_failed_outcome(name, answer)
        for (name, _), answer in zip(pairs, answers, strict=True)
    ]


def resolve_without_repeats(ctx: Context, target_names: list[str]) -> list[tuple[str, ObservedAgent | MngrError]]:
    """Return (name, observed agent or error) pairs. Of several names for one agent, keep the first."""
    return drop_repeated_targets(list(zip(target_names, resolve_names(ctx, target_names), strict=True)))


def drop_repeated_targets(
    pairs: list[tuple[str, ObservedAgent | MngrError]],
) -> list[tuple[str, ObservedAgent | MngrError]]:
    """Return the pairs without repeated agents. A name, an id and an address can name the same agent."""
    first_pairs: dict[str, tuple[str, ObservedAgent | MngrError]] = {}
    for name, observed in pairs:
        first_pairs.setdefault(name if isinstance(observed, MngrError) else observed.id, (name, observed))
    return list(first_pairs.values())


def get_record(observed: ObservedAgent) -> AgentRecord:
    """Return the agent's record. Raise MngrError when mngr cannot read it."""
    if observed.record is None:
        raise record_store.make_unreadable_error(observed.id, observed.record_problem or ValueError("it is missing"))
    return observed.record
