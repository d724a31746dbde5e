"""From what a user typed to the agent that is meant."""

from __future__ import annotations

from mngr.base import names
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable, UsageError, suggest_closest
from mngr.host import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.base.names import Address
    from mngr.host.protocol import Host


def parse_address(ctx: Context, text: str) -> Address:
    """Parse with the providers there are."""
    more = ctx.list_provider_names() if "@" in text else []
    return names.parse_address(text, (*names.PROVIDER_NAMES, *(p for p in more if p not in names.PROVIDER_NAMES)))


def get_agent(ctx: Context, text: str) -> tuple[Host, AgentRecord]:
    """The agent that `text` names; NotFound, MngrError when its record is damaged."""
    seen = [observe_agent(ctx, text)]
    record = seen[0].record
    if record is None:
        raise MngrError(
            f"the record of {seen[0].id} is damaged: {seen[0].damage}",
            f"put it away with: mngr destroy --force {seen[0].id}",
        )
    return seen[0].host, record


def get_agent_location(ctx: Context, text: str) -> tuple[Host, str]:
    """Host and id of an agent. One on another host, known here by name, is not looked at: it may be gone by now."""
    if names.is_agent_name(text) and ctx.home.exists():
        place, agent_id = store.find_host_of_name(ctx.home, text), store.find_id(ctx.home, text)
        if place is not None and agent_id is not None:
            return ctx.get_host(*place), agent_id
    seen = observe_agent(ctx, text)
    return seen.host, seen.id


def get_host(ctx: Context, wanted: Address) -> Host:
    """The host that an address names; UsageError when it names none."""
    if wanted.host is None:
        raise UsageError(f"{wanted} names no host", "write @HOST or @HOST.PROVIDER")
    return ctx.get_host(*((wanted.provider, wanted.host) if wanted.provider else ctx.get_host_key(wanted.host)))


def observe_agent(ctx: Context, text: str) -> ObservedAgent:
    """The agent that `text` names, with its state."""
    from mngr.agents.inspect import list as listing

    wanted = parse_address(ctx, text)
    if wanted.name is None:
        raise UsageError(f"{text!r} names a host, not an agent", "write NAME or NAME@HOST")
    if wanted.path is not None:
        raise UsageError(f"{text!r} names a file, not an agent", f"leave out :{wanted.path}")
    if not ctx.home.exists():
        raise NotFound(f"there is no agent {wanted.name!r}", "make one: mngr create NAME -- COMMAND")
    known = store.find_id(ctx.home, wanted.name)
    if known is None and names.is_agent_id(wanted.name):
        known = wanted.name
    place = _find_first_host(ctx, wanted)
    if known is not None and place is not None:
        found = listing.observe_host(ctx, ctx.get_host(*place), [known])
        if found:
            return found[0]
    return _search_all_hosts(ctx, wanted, place if wanted.host else None)


def _find_first_host(ctx: Context, wanted: Address) -> tuple[str, str] | None:
    """(provider, host) where an agent is to be looked for first; None where only a search can tell."""
    if wanted.host is not None:
        return (wanted.provider, wanted.host) if wanted.provider else ctx.get_host_key(wanted.host)
    assert wanted.name is not None
    elsewhere = store.find_host_of_name(ctx.home, wanted.name)
    if elsewhere is None:
        return ("local", "local") if wanted.provider in (None, "local") else None
    return elsewhere if wanted.provider in (None, elsewhere[0]) else None


def _search_all_hosts(ctx: Context, wanted: Address, place: tuple[str, str] | None) -> ObservedAgent:
    """Look on every host: an agent made by another client, or a provider's that has no name here."""
    from mngr.agents.inspect import list as listing

    matches: list[ObservedAgent] = []
    everyone: list[str] = []
    unreachable: list[str] = []
    gone: HostGone | None = None
    places = [place] if place else [p for p in ctx.list_host_keys() if wanted.provider in (None, p[0])]
    for _, host, answer in listing.observe_all_hosts(ctx, places):
        if isinstance(answer, HostGone) and place is None:
            if any(wanted.name in (s.id, s.record and s.record.name) for s in listing.list_last_observed(ctx, answer)):
                gone = answer
            continue
        if isinstance(answer, MngrError):
            if place is not None and not isinstance(answer, Unreachable):
                raise answer
            unreachable.append(f"{host}: {answer.message}")
        else:
            everyone.extend(seen.record.name for seen in answer if seen.record)
            matches.extend(s for s in answer if wanted.name in (s.id, s.record.name if s.record else None))
    if len(matches) > 1:
        listed = ", ".join(f"{s.id}@{s.host.name}" for s in matches)
        raise MngrError(f"{wanted.name!r} could be any of {listed}", "say which by its id")
    if matches:
        return matches[0]
    if gone is not None:
        raise gone
    if unreachable:
        raise Unreachable(
            f"{wanted.name!r} may be on a host that does not answer: {'; '.join(unreachable)}", "try again"
        )
    assert wanted.name is not None
    raise NotFound(f"there is no agent {wanted.name!r}", suggest_closest(wanted.name, everyone) or "see: mngr list")
