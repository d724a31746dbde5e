"""Chooses or creates hosts for new agents, and starts and stops hosts."""

from __future__ import annotations

from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.for_each_agent import make_failed_outcome, resolve_names
from mngr.base.config import as_list
from mngr.base.errors import HostGone, HostStopped, MngrError, UsageError
from mngr.base.fanout import map_parallel
from mngr.base.model import Outcome
from mngr.host import host_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.names_and_addresses import Address
    from mngr.host.protocol import Host

_MAX_PARALLEL_HOSTS = 8


def choose_former_host(ctx: Context, address: Address) -> Host:
    """Return the host for an agent that existed before. Create the host as it was when it no longer exists."""
    return choose_or_create_host(ctx, address, [], None, like_before=True)[0]


def choose_or_create_host(
    ctx: Context,
    address: Address,
    build_args: list[str],
    network: str | None,
    *,
    new: bool = False,
    like_before: bool = False,
) -> tuple[Host, bool]:
    """Return the host for new agents, with a home on it, and whether this call created the host.

    With `like_before`, a destroyed host gets its former options, whatever the settings say now.
    """
    is_local = address.provider in (None, "local") and address.host in (None, "local")
    if is_local and not build_args and not new:
        return ctx.local_host, False
    provider_name = address.provider or ("local" if address.host is None else ctx.get_host_key(address.host)[0])
    provider = ctx.get_provider(provider_name)
    is_known = address.host is not None and address.host in provider.list()
    if not provider.can_create_hosts:
        if build_args or new:
            flag = "-b" if build_args else "--new-host"
            raise UsageError(f"{provider_name} does not create hosts, so {flag} has no effect", f"leave out {flag}")
        host = provider.create(None, {}) if address.host is None else ctx.get_host(provider_name, address.host)
        if not host.is_local:
            from mngr.providers.shared.host_preparation import ensure_home

            ctx.home.create()
            ensure_home(ctx.home, host)
        return host, False
    if new and is_known:
        raise MngrError(
            f"the host {address.host!r} already exists",
            f"leave out --new-host to use it, or write NAME@.{provider_name} for a new host",
        )
    ctx.home.create()
    options = _parse_build_args(ctx, provider_name, build_args)
    if network is not None and not is_known:  # The first agent decides the network of a host.
        options["network"] = network
    if address.host is not None and not is_known and not like_before:
        host_store.delete_phases(ctx.home, provider_name, address.host, "gone")
    try:
        created = provider.create(address.host, options)
    except HostGone as error:
        _recover_host(ctx, error)
        created = provider.create(address.host, options)
    facts = host_store.find_facts(ctx.home, provider_name, created.name)
    is_joined = facts is not None and facts.guest is not None
    return ctx.get_host(provider_name, created.name), not is_known and not is_joined


def find_creating_provider(ctx: Context, address: Address) -> str | None:
    """Return the provider that must create the host of the address, or None when the host exists."""
    if address.provider in (None, "local"):
        return None
    provider = ctx.get_provider(address.provider)
    if not provider.can_create_hosts or (address.host is not None and address.host in provider.list()):
        return None
    return provider.name


def destroy_unused_host(ctx: Context, host: Host) -> None:
    """Destroy a new host whose agents could not be created."""
    try:
        if not listing.observe_host(ctx, host):
            ctx.get_provider(host.provider).destroy(host.name)
    except MngrError as error:
        ctx.note(f"mngr created the host {host.name} and could not destroy it again: {error.message}")


def _parse_build_args(ctx: Context, provider: str, build_args: list[str]) -> dict[str, object]:
    """Return the options of a new host from `-b KEY=VALUE`. `+=` extends a list of the provider's settings."""
    settings = ctx.settings.get_table(f"providers.{provider}")
    options: dict[str, object] = {}
    for text in build_args:
        key, separator, value = text.partition("=")
        option = key.removesuffix("+")
        if not separator or not option:
            raise UsageError(f"-b: {text!r} is not KEY=VALUE", "for example: -b image=debian:stable")
        extended = [*as_list(options.get(option, settings.get(option))), value]
        options[option] = extended if key.endswith("+") else value
    return options


def split_agents_and_hosts(ctx: Context, targets: list[str]) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Return the targets that name agents, and the (provider, host) of each target `@HOST` or `@HOST.PROVIDER`."""
    hosts: dict[str, tuple[str, str]] = {}
    for target in targets:
        if target.startswith("@"):
            address = find.parse_address(ctx, target)
            if address.host is None or address.path is not None:
                raise UsageError(f"{target!r} does not name a host", "write @HOST or @HOST.PROVIDER")
            hosts[target] = (
                (address.provider, address.host) if address.provider is not None else ctx.get_host_key(address.host)
            )
    return [target for target in targets if target not in hosts], hosts


def resolve_and_start_hosts(ctx: Context, names: list[str]) -> list[ObservedAgent | MngrError]:
    """Return the observed agent or the error for each name, after starting stopped hosts and recovering lost ones."""
    resolved = resolve_names(ctx, names)
    host_errors = (HostStopped, HostGone)
    targets_by_host = {
        (error.provider, error.host): f"@{error.host}.{error.provider}"
        for error in resolved
        if isinstance(error, host_errors)
    }
    if not targets_by_host:
        return resolved
    outcomes = start_hosts(ctx, {target: host_key for host_key, target in targets_by_host.items()})
    for index, error in enumerate(resolve_names(ctx, names)):
        outcome = outcomes.get(f"@{error.host}.{error.provider}") if isinstance(error, host_errors) else None
        resolved[index] = MngrError(outcome.error, outcome.hint) if outcome and outcome.error else error
    return resolved


def start_hosts(ctx: Context, host_keys: dict[str, tuple[str, str]]) -> dict[str, Outcome]:
    """Start hosts by target and return the outcomes. Leave a running host alone, and recover one that is gone."""

    def start_one(host_key: tuple[str, str]) -> Outcome:
        try:
            if not ctx.get_provider(host_key[0]).can_stop_hosts and ctx.get_provider(host_key[0]).can_create_hosts:
                listing.observe_host(ctx, ctx.get_host(*host_key))  # Such a host either runs or is gone.
            else:
                _get_stoppable_provider(ctx, host_key, "start").start(host_key[1])
        except HostGone as error:
            _recover_host(ctx, error)
        return Outcome(id=None, name=f"@{host_key[1]}.{host_key[0]}", extra={"was": None})

    return run_on_hosts(host_keys, start_one)


def _recover_host(ctx: Context, error: HostGone) -> None:
    """Create a host again that is gone, and restore its agents from what is known elsewhere."""
    from mngr.agents.lifecycle.host_recovery import recover_host  # This module is rarely needed and slow to import.

    for note in recover_host(ctx, error):
        ctx.note(note)


def stop_hosts(
    ctx: Context, host_keys: dict[str, tuple[str, str]], end_agents: Callable[[Host, list[ObservedAgent]], None]
) -> dict[str, Outcome]:
    """Stop hosts. `end_agents` ends the processes of their agents first."""

    def stop_one(host_key: tuple[str, str]) -> Outcome:
        name = f"@{host_key[1]}.{host_key[0]}"
        provider = _get_stoppable_provider(ctx, host_key, "stop")
        host = ctx.get_host(*host_key)
        try:
            end_agents(host, listing.observe_host(ctx, host))
            listing.observe_host(ctx, host)  # `mngr list` shows this answer while the host is stopped.
        except HostStopped:
            return Outcome(id=None, name=name, extra={"was": "STOPPED"})
        provider.stop(host_key[1])
        return Outcome(id=None, name=name, extra={"was": "RUNNING"})

    return run_on_hosts(host_keys, stop_one)


def _get_stoppable_provider(ctx: Context, host_key: tuple[str, str], verb: str) -> Any:
    """Return the host's provider. Raise MngrError when mngr cannot start or stop this host."""
    provider = ctx.get_provider(host_key[0])
    facts = host_store.find_facts(ctx.home, *host_key)
    if verb == "stop" and facts is not None and facts.guest:
        raise MngrError(
            f"another home of mngr created the host {host_key[1]}, and only that home can stop it",
            f"stop it from that home: mngr --home DIR stop @{host_key[1]}.{host_key[0]}",
        )
    if not provider.can_stop_hosts:
        raise MngrError(
            f"mngr cannot start or stop {host_key[0]} hosts such as {host_key[1]}",
            f"{verb} its agents instead: mngr list --host {host_key[1]} --ids | mngr {verb} -",
        )
    if verb == "stop":
        from mngr.host.protocol import StopChecker

        if isinstance(provider, StopChecker):
            provider.check_stoppable(host_key[1])
    return provider


def run_on_hosts(
    host_keys: dict[str, tuple[str, str]], work: Callable[[tuple[str, str]], Outcome]
) -> dict[str, Outcome]:
    """Run `work` on every host in parallel and return the outcomes by target."""
    answers = map_parallel(work, list(host_keys.values()), at_once=_MAX_PARALLEL_HOSTS)
    return {
        target: make_failed_outcome(target, answer) if isinstance(answer, Exception) else answer
        for target, answer in zip(host_keys, answers, strict=True)
    }
