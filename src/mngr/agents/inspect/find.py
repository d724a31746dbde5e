"""Finds the agent or host that a user named."""

from __future__ import annotations

import time

from mngr.base import names_and_addresses, time_format
from mngr.base.errors import HostGone, MngrError, NotFound, Unreachable, UsageError, suggest_closest
from mngr.host import record_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentRecord
    from mngr.base.names_and_addresses import Address
    from mngr.host.protocol import Host


def parse_address(ctx: Context, text: str) -> Address:
    """Parse an address, knowing all available providers."""
    provider_names = ctx.list_provider_names() if "@" in text else []
    return names_and_addresses.parse_address(
        text,
        (
            *names_and_addresses.PROVIDER_NAMES,
            *(name for name in provider_names if name not in names_and_addresses.PROVIDER_NAMES),
        ),
    )


def get_agent(ctx: Context, text: str) -> tuple[Host, AgentRecord]:
    """Return the host and record of the named agent. Raise NotFound, or MngrError when mngr cannot read its record."""
    observed = observe_agent(ctx, text)
    if observed.record is None:
        raise record_store.make_unreadable_error(observed.id, observed.record_problem or ValueError("it is missing"))
    return observed.host, observed.record


def get_agent_location(ctx: Context, text: str) -> tuple[Host, str]:
    """Return the host and id of an agent.

    For a name that belongs to a remote host, do not check whether the agent still exists there.
    """
    if names_and_addresses.is_agent_name(text) and ctx.home.exists():
        host_key = record_store.find_host_of_name(ctx.home, text)
        agent_id = record_store.find_id(ctx.home, text)
        if host_key is not None and agent_id is not None:
            return ctx.get_host(*host_key), agent_id
    observed = observe_agent(ctx, text)
    return observed.host, observed.id


def get_host(ctx: Context, address: Address) -> Host:
    """Return the host that an address names. Raise UsageError when it names none."""
    if address.host is None:
        raise UsageError(f"{address} does not name a host", "write @HOST or @HOST.PROVIDER")
    return ctx.get_host(*((address.provider, address.host) if address.provider else ctx.get_host_key(address.host)))


def observe_agent(ctx: Context, text: str) -> ObservedAgent:
    """Return the named agent with its state. Raise NotFound when there is none."""
    from mngr.agents.inspect import list as listing

    address = parse_address(ctx, text)
    if address.name is None:
        raise UsageError(f"{text!r} names a host, not an agent", "write NAME or NAME@HOST")
    if address.path is not None:
        raise UsageError(f"{text!r} names a file, not an agent", f"name the agent alone: {address.name}")
    if not ctx.home.exists():
        raise NotFound(f"there is no agent {address.name!r}", f"create it: mngr create {address.name} -- COMMAND")
    agent_id = record_store.find_id(ctx.home, address.name)
    if agent_id is None and names_and_addresses.is_agent_id(address.name):
        agent_id = address.name
    host_key = _find_first_host(ctx, address)
    if agent_id is not None and host_key is not None:
        matches = listing.observe_host(ctx, ctx.get_host(*host_key), [agent_id])
        if matches:
            return matches[0]
    return _search_all_hosts(ctx, address, host_key if address.host else None)


def _find_first_host(ctx: Context, address: Address) -> tuple[str, str] | None:
    """Return the (provider, host) to look at first, or None when only a search can find the agent."""
    if address.host is not None:
        return (address.provider, address.host) if address.provider else ctx.get_host_key(address.host)
    assert address.name is not None
    remote_key = record_store.find_host_of_name(ctx.home, address.name)
    if remote_key is None:
        return ("local", "local") if address.provider in (None, "local") else None
    return remote_key if address.provider in (None, remote_key[0]) else None


def _search_all_hosts(ctx: Context, address: Address, only_key: tuple[str, str] | None) -> ObservedAgent:
    """Search all hosts, or the one given, for an agent whose name this home does not know.

    Such an agent was created by another client or belongs to a plugin's provider.
    """
    from mngr.agents.inspect import list as listing

    matches: list[ObservedAgent] = []
    known_names: list[str] = []
    unreachable: list[str] = []
    gone_error: HostGone | None = None
    host_keys = [only_key] if only_key else [key for key in ctx.list_host_keys() if address.provider in (None, key[0])]
    for _, host, answer in listing.observe_all_hosts(ctx, host_keys):
        if isinstance(answer, HostGone) and only_key is None:
            if any(
                address.name in (agent.id, agent.record and agent.record.name)
                for agent in listing.list_last_observed(ctx, answer)
            ):
                gone_error = answer
            continue
        if isinstance(answer, MngrError):
            if only_key is not None and not isinstance(answer, Unreachable):
                raise answer
            unreachable.append(f"{host}: {answer.message}")
        else:
            known_names.extend(agent.record.name for agent in answer if agent.record)
            matches.extend(
                agent for agent in answer if address.name in (agent.id, agent.record.name if agent.record else None)
            )
    if len(matches) > 1:
        candidates = ", ".join(f"{agent.id}@{agent.host.name}" for agent in matches)
        raise MngrError(
            f"{len(matches)} agents have the name {address.name!r}: {candidates}",
            f"use an id, for example: {matches[0].id}",
        )
    if matches:
        return matches[0]
    if gone_error is not None:
        raise gone_error
    if unreachable:
        raise Unreachable(
            f"{address.name!r} may be on a host that does not answer: {'; '.join(unreachable)}",
            "check the hosts: mngr list --hosts",
        )
    assert address.name is not None
    raise _find_destroyed(ctx, address) or NotFound(
        f"there is no agent {address.name!r}",
        suggest_closest(address.name, known_names) or "list the agents: mngr list",
    )


def _find_destroyed(ctx: Context, address: Address) -> NotFound | None:
    """Return the error that offers to restore the agent, or None when the trash does not have it."""
    from mngr.agents.inspect.trash import list_trash

    matches = [
        agent
        for agent in list_trash(ctx)
        if address.name in (agent.id, agent.name) and agent.problem is None and address.host in (None, agent.host)
    ]
    if not matches:
        return None
    latest = matches[-1]
    age = time_format.format_time_ago(time.time() - time_format.parse_timestamp(latest.destroyed_at))
    is_unique = len(matches) == 1
    return NotFound(
        f"{latest.name} was destroyed {age}",
        f"restore it: mngr undestroy {latest.name if is_unique else latest.id}",
    )
