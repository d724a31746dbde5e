"""Hosts as a whole: chosen or made for new agents, started, stopped, destroyed."""

from __future__ import annotations

from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.targets import make_failed_outcome, resolve_names
from mngr.base.config import as_list
from mngr.base.errors import HostGone, HostStopped, MngrError, Unreachable, UsageError
from mngr.base.fanout import map_parallel
from mngr.base.model import Outcome
from mngr.host import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.names import Address
    from mngr.host.protocol import Host

_MAX_PARALLEL_HOSTS = 8  # hosts


def choose_former_host(ctx: Context, wanted: Address) -> Host:
    """Where an agent shall live that was before, with a home for it; made where there is none, like the one that was."""
    return choose_or_create_host(ctx, wanted, [], None, like_before=True)[0]


def choose_or_create_host(
    ctx: Context,
    wanted: Address,
    build_args: list[str],
    network: str | None,
    *,
    new: bool = False,
    like_before: bool = False,
) -> tuple[Host, bool]:
    """Where new agents shall live, with a home for them; and whether the host was made for them just now.

    `like_before`: one that was destroyed comes back as it was, whatever the settings say by now.
    """
    is_local = wanted.provider in (None, "local") and wanted.host in (None, "local")
    if is_local and not build_args and not new:
        return ctx.local_host, False
    name = wanted.provider or ("local" if wanted.host is None else ctx.get_host_key(wanted.host)[0])
    provider = ctx.get_provider(name)
    is_known = wanted.host is not None and wanted.host in provider.list()
    if not provider.can_create_hosts:
        if build_args or new:
            flag = "-b" if build_args else "--new-host"
            raise UsageError(f"{name} makes no hosts, so {flag} has no meaning", "leave it out")
        host = provider.create(None, {}) if wanted.host is None else ctx.get_host(name, wanted.host)
        if not host.is_local:
            from mngr.providers.shared.host_probe import ensure_home

            ctx.home.create()
            ensure_home(ctx.home, host)
        return host, False
    if new and is_known:
        raise MngrError(f"there is already a host {wanted.host!r}", f"leave out --new-host, or write NAME@.{name}")
    ctx.home.create()
    options = _parse_build_args(ctx, name, build_args)
    if network is not None and not is_known:  # its first agent chooses; for all others it is checked
        options["network"] = network
    if wanted.host is not None and not is_known and not like_before:
        registry.delete_phases(ctx.home, name, wanted.host, "gone")
    try:
        made = provider.create(wanted.host, options)
    except HostGone as error:
        _recover_host(ctx, error)
        made = provider.create(wanted.host, options)
    is_joined = "guest" in (registry.find_facts(ctx.home, name, made.name) or {})
    return ctx.get_host(name, made.name), not is_known and not is_joined


def find_placeholder_host(ctx: Context, wanted: Address) -> Host | None:
    """In place of a host that is yet to be made, so that a plan can be checked before; None where there is nothing to make."""
    if wanted.provider in (None, "local"):
        return None
    provider = ctx.get_provider(wanted.provider)
    if not provider.can_create_hosts or (wanted.host is not None and wanted.host in provider.list()):
        return None
    from mngr.host.remote_host import RemoteHost

    return RemoteHost("new", provider.name, UnmadeHostTransport(), "/", 0)


class UnmadeHostTransport:
    """The wire to a host that is not there yet."""

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        raise self.make_lost_error("")

    def make_lost_error(self, said: str) -> Unreachable:
        return Unreachable("the host is not made yet")

    def close(self) -> None:
        pass


def destroy_unused_host(ctx: Context, host: Host) -> None:
    """Take away a host that was made for agents that could not be made."""
    try:
        if not listing.observe_host(ctx, host):
            ctx.get_provider(host.provider).destroy(host.name)
    except MngrError as error:
        ctx.note(f"{host.name} was made and is left: {error.message}")


def _parse_build_args(ctx: Context, provider: str, build_args: list[str]) -> dict[str, Any]:
    """What a new host shall be like: -b as the settings of its provider, `+=` adds to a list of theirs."""
    settings = ctx.settings.get_table(f"providers.{provider}")
    found: dict[str, Any] = {}
    for text in build_args:
        key, eq, value = text.partition("=")
        plain = key.removesuffix("+")
        if not eq or not plain:
            raise UsageError(f"-b: {text!r} is not KEY=VALUE", "for example: -b image=debian:stable")
        more = [*as_list(found.get(plain, settings.get(plain))), value]
        found[plain] = more if key.endswith("+") else value
    return found


def split_agents_and_hosts(ctx: Context, wanted: list[str]) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Words that name agents, and (provider, host) of those that name a host: `@HOST` or `@HOST.PROVIDER`."""
    hosts: dict[str, tuple[str, str]] = {}
    for word in wanted:
        if word.startswith("@"):
            where = find.parse_address(ctx, word)
            if where.host is None or where.path is not None:
                raise UsageError(f"{word!r} names no host", "write @HOST or @HOST.PROVIDER")
            hosts[word] = (where.provider, where.host) if where.provider is not None else ctx.get_host_key(where.host)
    return [word for word in wanted if word not in hosts], hosts


def resolve_and_start_hosts(ctx: Context, wanted: list[str]) -> list[ObservedAgent | MngrError]:
    """What each name stands for, once the hosts that are stopped have been started, and those that are gone made anew."""
    found = resolve_names(ctx, wanted)
    away = (HostStopped, HostGone)
    asleep = {(e.provider, e.host): f"@{e.host}.{e.provider}" for e in found if isinstance(e, away)}
    if not asleep:
        return found
    outcomes = start_hosts(ctx, {word: place for place, word in asleep.items()})
    for at, error in enumerate(resolve_names(ctx, wanted)):
        outcome = outcomes.get(f"@{error.host}.{error.provider}") if isinstance(error, away) else None
        found[at] = MngrError(outcome.error, outcome.hint) if outcome and outcome.error else error
    return found


def start_hosts(ctx: Context, places: dict[str, tuple[str, str]]) -> dict[str, Outcome]:
    """Start hosts; one that runs is left alone, one that is gone is made anew."""

    def one(place: tuple[str, str]) -> Outcome:
        try:
            if not ctx.get_provider(place[0]).can_stop_hosts and ctx.get_provider(place[0]).can_create_hosts:
                listing.observe_host(ctx, ctx.get_host(*place))  # it runs, or is gone
            else:
                _get_stoppable_provider(ctx, place, "start").start(place[1])
        except HostGone as error:
            _recover_host(ctx, error)
        return Outcome(id=None, name=f"@{place[1]}.{place[0]}", extra={"was": None})

    return run_on_hosts(places, one)


def _recover_host(ctx: Context, error: HostGone) -> None:
    """Make a host anew that is gone, with its agents as they are known elsewhere."""
    from mngr.agents.lifecycle.host_recovery import recover_host  # rarely needed, and slow to import

    for note in recover_host(ctx, error):
        ctx.note(note)


def stop_hosts(
    ctx: Context, places: dict[str, tuple[str, str]], end: Callable[[Host, list[ObservedAgent]], None]
) -> dict[str, Outcome]:
    """Stop hosts; their agents are ended first, as each of them would be."""

    def one(place: tuple[str, str]) -> Outcome:
        name = f"@{place[1]}.{place[0]}"
        provider = _get_stoppable_provider(ctx, place, "stop")
        host = ctx.get_host(*place)
        try:
            end(host, listing.observe_host(ctx, host))
            listing.observe_host(ctx, host)  # is what `list` shows until it is started again
        except HostStopped:
            return Outcome(id=None, name=name, extra={"was": "STOPPED"})
        provider.stop(place[1])
        return Outcome(id=None, name=name, extra={"was": "RUNNING"})

    return run_on_hosts(places, one)


def _get_stoppable_provider(ctx: Context, place: tuple[str, str], verb: str) -> Any:
    provider = ctx.get_provider(place[0])
    if verb == "stop" and (registry.find_facts(ctx.home, *place) or {}).get("guest"):
        raise MngrError(f"{place[1]} was made from another home, and is not ours to stop", "stop it there")
    if not provider.can_stop_hosts:
        raise MngrError(
            f"{place[0]} hosts are not ours to start and stop",
            "name its agents: mngr list --host " + place[1],
        )
    if verb == "stop":
        from mngr.host.protocol import StopChecker

        if isinstance(provider, StopChecker):
            provider.check_stoppable(place[1])
    return provider


def run_on_hosts(places: dict[str, tuple[str, str]], work: Callable[[tuple[str, str]], Outcome]) -> dict[str, Outcome]:
    """Do something with every host, by the words that named them."""
    answers = map_parallel(work, list(places.values()), at_once=_MAX_PARALLEL_HOSTS)
    return {
        word: make_failed_outcome(word, answer) if isinstance(answer, Exception) else answer
        for word, answer in zip(places, answers, strict=True)
    }
