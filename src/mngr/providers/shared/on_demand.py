"""Hosts that an engine makes for us. What is known of each is in the registry, by phases: being made, there, being taken away."""

from __future__ import annotations

import json
import os
import time
from functools import partial

from mngr.base.errors import EngineBusy, MngrError, NotFound, ServiceUnavailable, UsageError, suggest_closest
from mngr.base.model import Struct
from mngr.host import registry, store
from mngr.host.protocol import Leftover
from mngr.host.remote_host import RemoteHost
from mngr.providers.shared import host_probe
from mngr.providers.shared.host_options import get_original_options, parse_network, reject_options
from mngr.providers.shared.interrupted_hosts import build_cleanup, finish_interrupted, host_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from mngr.base.errors import Unreachable
    from mngr.base.lock import Lock
    from mngr.base.paths import Home
    from mngr.base.shell import StartFunction
    from mngr.host.protocol import Host
    from mngr.host.remote_host import Transport

    Facts = dict[str, Any]  # what an engine wants to remember of a host, as JSON
    Note = Callable[[str], None]
else:
    Protocol = object  # typing would cost 10 ms

MAX_BUSY_PAUSE = 20.0  # seconds at most between two questions whether there is room


class FoundMachine(Struct):
    """Something on an engine that was made from this home."""

    resource_kind: str  # job, sandbox, image, …
    name: str
    tag: str
    removal_command: str  # the command that takes it away by hand


class Engine(Protocol):
    """What makes machines. All that it makes for a host carries the host's `tag`, one of the facts that `plan` gives.

    Every method raises Unreachable when the engine does not answer, in seconds; UsageError for settings that make no sense.
    """

    options: tuple[str, ...]  # what -b can say of a host, and a setting of all; `x.` is for all that begin so
    settings: tuple[str, ...]  # other settings of the provider
    can_stop: bool
    can_snapshot: (
        bool  # then it is a SnapshotEngine, and `wish["snapshot"]` is what its `snapshot` gave, with its `place`
    )

    def plan_machine(self, name: str, wish: Facts) -> Facts:
        """The facts before anything is made: `tag`, what `make` needs, perhaps `home` (agents' home there). Makes nothing."""
        ...

    def create(self, name: str, facts: Facts) -> Facts:
        """The facts of a machine that runs, and whose wire answers; Busy when there is no room and nothing was made."""
        ...

    # Of machines with the same fact `alike` only one is asked what it is like.

    def build_first_program(self, name: str, facts: Facts) -> str:
        """A program to run before all else on a new machine, perhaps by two at once unless the fact `clears` is true."""
        ...

    def check_stoppable(self, name: str, facts: Facts) -> None:
        """Raise MngrError for a machine that cannot be stopped, though others can."""
        ...

    def find_partial_snapshot(self, place: str) -> Facts | None:
        """What `drop_snapshot` needs to remove what a snapshot to this place has made so far; None if nothing."""
        ...

    def find_existing(self, name: str) -> Facts | None:
        """The facts of a machine of that name that is there already, with `whose` (a registry.key) it is; it runs then."""
        ...

    def open_wire(self, name: str, facts: Facts) -> Transport:
        """How to reach it; its `lost` gives HostStopped or HostGone where that is so. Asks nobody."""
        ...

    def start(self, name: str, facts: Facts) -> Facts:
        """The facts of the machine, which runs; one with its tag is used and none made beside it. HostGone, Busy."""
        ...

    def stop(self, name: str, facts: Facts) -> Facts:
        """The facts of the machine, of which nothing runs and all files are kept; also when it had stopped."""
        ...

    def remove(self, name: str, facts: Facts) -> None:
        """Take away everything with its tag; that there is nothing is no trouble. `facts` may be only those of `plan`."""
        ...

    def list_machines(self) -> list[FoundMachine]:
        """All that carries this home's key."""
        ...


class EngineDefaults:
    """The answers of an engine that has nothing special to say."""

    def build_first_program(self, name: str, facts: Facts) -> str:
        return ""

    def check_stoppable(self, name: str, facts: Facts) -> None:
        return None

    def find_partial_snapshot(self, place: str) -> Facts | None:
        return None


class SnapshotEngine(Engine, Protocol):
    """An engine that can keep a machine's files."""

    def save_snapshot(self, name: str, facts: Facts, place: str) -> Facts:
        """Keep the files of a running machine: what fits in the directory `place`; what to remember of the rest."""
        ...

    def delete_snapshot(self, facts: Facts) -> None:
        """Delete what is not in the place, by what `snapshot` gave; that it is not there is no trouble."""
        ...


class OnDemandProvider:
    """The hosts of one engine. A subclass says which, and what of its settings a project may choose for who works on it."""

    can_create_hosts = True
    project_options: tuple[str, ...] = ()
    patience = 600.0  # seconds that a host waits for room
    waits = True  # also a new one for new agents; who has other work to do meanwhile says no

    def __init__(self, name: str, home: Home, options: dict[str, Any], note: Note = lambda text: None) -> None:
        self.name = name
        self._home = home
        self._options = options
        self._note = note
        engine: Any = self.make_engine(name, home, options, note)
        self._engine: SnapshotEngine = engine  # mngr asks for snapshots only if `can_snapshot` is true
        self.can_stop_hosts: bool = self._engine.can_stop
        self.can_snapshot_hosts: bool = self._engine.can_snapshot

    def make_engine(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        """The engine, by the settings of the provider; touches nothing."""
        raise NotImplementedError

    def list(self) -> list[str]:
        return registry.list_hosts(self._home, self.name)

    def open(self, host: str) -> Host:
        facts = self._get_facts(host)
        wire = OnDemandWire(self._home, self.name, host, lambda found: self._engine.open_wire(host, found))
        return RemoteHost(host, self.name, wire, str(facts["home"]), int(facts["uid"]))

    def create(self, host: str | None, options: dict[str, Any]) -> Host:
        if host is None:
            name = f"mngr-{os.urandom(4).hex()}"
            self._create_host(name, options, auto=True, patience=self.patience if self.waits else 0.0)
            return self.open(name)
        with self._lock(host):
            finish_interrupted(self._home, self.name, host, self._remove_host)
            if registry.find_facts(self._home, self.name, host) is not None:
                reject_options(host, options)
                if self.can_stop_hosts:
                    self._start_or_stop("start", host)
            elif not self._use_existing(host, options):
                before = registry.find_facts(self._home, self.name, host, "gone") or {}
                auto = before.get("auto") is True
                self._create_host(
                    host,
                    options or get_original_options(self._home, before),
                    auto=auto,
                    patience=self.patience,
                )
        return self.open(host)

    def check_options(self, options: dict[str, Any]) -> None:
        """UsageError for what no host can be; makes nothing."""
        self._engine.plan_machine("check", self._merge_options(options))

    def start(self, host: str) -> None:
        with self._lock(host):
            self._start_or_stop("start", host)

    def stop(self, host: str) -> None:
        with self._lock(host):
            self._start_or_stop("stop", host)

    def check_stoppable(self, host: str) -> None:
        self._engine.check_stoppable(host, self._get_facts(host)["engine"])

    def destroy(self, host: str) -> None:
        with self._lock(host):
            facts = self._get_facts(host)
            if facts.get("guest"):
                registry.forget_host(self._home, self.name, host)
                return
            registry.save_facts(
                self._home, self.name, host, {**facts, "owner": store.describe_this_process()}, "ending"
            )
            self._remove_host(host, facts)

    def save_snapshot(self, host: str, place: str) -> dict[str, Any]:
        kept: dict[str, Any] = self._engine.save_snapshot(host, self._get_facts(host)["engine"], place)
        return {"kept": kept}

    def find_partial_snapshot(self, host: str, place: str) -> dict[str, Any] | None:
        found = self._engine.find_partial_snapshot(place)
        return None if found is None else {"kept": found}

    def delete_snapshot(self, facts: dict[str, Any]) -> None:
        self._engine.delete_snapshot(facts["kept"])

    def list_leftovers(self) -> builtins.list[Leftover]:
        before = self._list_notes()
        there = self._engine.list_machines()
        notes = self._list_notes()
        # What is made or taken away meanwhile stands in one of both.
        tags = {(facts.get("engine") or {}).get("tag") for _, _, facts in (*before, *notes)}
        found = []
        for phase, host, facts in notes:
            verb = facts.get("doing") or {"making": "create", "ending": "destroy"}.get(phase)
            if verb and not store.is_owner_alive(facts.get("owner")):
                act = self._build_cleanup(phase, host, facts)
                what, name = f"interrupted {verb}", f"@{host}.{self.name}"
                found.append(Leftover(description=what, name=name, remove=act, is_incomplete=phase == "making"))
        return found + [_describe_unknown(one) for one in there if one.tag not in tags]

    def _list_notes(self) -> builtins.list[tuple[str, str, dict[str, Any]]]:
        """All that is written down of hosts: phase, host and facts; none of what cannot be read."""
        return [
            (phase, host, registry.find_facts(self._home, self.name, host, phase) or {})
            for phase in ("making", "ending", "json")
            for host in registry.list_hosts(self._home, self.name, phase)
        ]

    def _build_cleanup(self, phase: str, host: str, facts: dict[str, Any]) -> Callable[[], None]:
        """What makes an end of a command that was cut off: a start and a stop are done, what was half made goes."""

        if phase != "json":
            return build_cleanup(self._home, self.name, host, phase, facts, self._remove_host)

        def act() -> None:
            with self._lock(host):
                if registry.find_facts(self._home, self.name, host) == facts:  # else somebody has gone on with it
                    self._start_or_stop(facts["doing"], host)

        return act

    def _lock(self, host: str) -> Lock:
        return host_lock(self._home, self.name, host)

    def _get_facts(self, host: str) -> dict[str, Any]:
        facts = registry.find_facts(self._home, self.name, host)
        if facts is None:
            hint = suggest_closest(host, self.list()) or "see: mngr list --hosts"
            raise NotFound(f"{self.name} has no host {host!r}", hint)
        return facts

    def _merge_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """The settings with what was asked for this host in their place; UsageError when there is no such thing."""
        known: tuple[str, ...] = self._engine.options
        known += ("snapshot",) if self.can_snapshot_hosts else ()
        every = (*known, *self._engine.settings, "kind", "cost_per_hour")
        for key in self._options:
            if not _is_known_option(key, every):
                hint = suggest_closest(key, list(every)) or "known: " + ", ".join(every)
                raise UsageError(f"[providers.{self.name}] has no setting {key!r}", hint)
        asked = dict(options)
        if "network" not in known and asked.pop("network", "on") != "on":
            raise UsageError(
                f"{self.name} gives its hosts the network that it has, so --network has no meaning",
                "leave it out; on this machine, --sandbox --network works",
            )
        for key in asked:
            if not _is_known_option(key, known):
                hint = suggest_closest(key, list(known)) or f"known: {', '.join(known)}"
                raise UsageError(f"-b: {self.name} has no option {key!r}", hint)
        wish = {
            **{key: value for key, value in self._options.items() if _is_known_option(key, known)},
            **asked,
        }
        if wish.get("snapshot"):
            wish["snapshot"] = load_snapshot(self._home, str(wish["snapshot"]))
        return wish

    def _create_host(self, name: str, options: dict[str, Any], *, auto: bool, patience: float) -> None:
        """A new host. Its note is written first: what is interrupted is known, and `gc` takes it away."""
        wish = self._merge_options(options)
        facts: dict[str, Any] = {
            "engine": self._engine.plan_machine(name, wish),
            "options": options,
            "auto": auto,
        }
        if "network" in self._engine.options:
            facts["network"] = parse_network(wish)
        registry.save_facts(self._home, self.name, name, {**facts, "owner": store.describe_this_process()}, "making")
        try:
            engine = self._retry_while_busy(lambda: self._engine.create(name, facts["engine"]), patience)
            first = self._engine.build_first_program(name, engine)
            found = self._prepare_home(name, engine, first)
        except BaseException as error:
            try:
                self._remove_host(name, facts)
            except ServiceUnavailable:
                if isinstance(error, ServiceUnavailable):  # before and after it
                    registry.forget_host(self._home, self.name, name)
            except MngrError:
                pass  # it stays noted, for `gc`
            raise
        maker = store.describe_this_process()  # until it has ended, a host without agents may get some
        registry.save_facts(self._home, self.name, name, {**found, **facts, "engine": engine, "maker": maker})
        registry.delete_phases(self._home, self.name, name, "making", "gone")

    def _prepare_home(self, name: str, engine: Facts, first: str) -> dict[str, Any]:
        """Facts about a host that has a home for agents, at the latest with its first command; of many with the same files one is asked."""
        files = engine.get("alike")
        known = registry.find_image_facts(self._home, self.name, files) if files else None
        wire = self._engine.open_wire(name, engine)
        if known is not None:
            opening = host_probe.build_home_program(first, known["home"], engine["tag"])
            if not engine.get("clears"):
                return {**known, "opening": opening}
            host_probe.run_home_program(wire, name, opening)  # not while somebody else is at work there already
            return known
        found = host_probe.prepare_host(wire, name, engine.get("home"), first)
        if files:
            registry.save_image_facts(self._home, self.name, files, host_probe.select_shared_facts(found))
        return found

    def _use_existing(self, name: str, options: dict[str, Any]) -> bool:
        """Use a machine of that name that is there already; False when there is none."""
        engine: Facts | None = self._engine.find_existing(name)
        if engine is None:
            return False
        reject_options(name, options)
        found = host_probe.prepare_host(self._engine.open_wire(name, engine), name, engine.get("home"))
        guest = engine.get("whose") != registry.compute_owner_key(self._home)
        registry.save_facts(self._home, self.name, name, {**found, "engine": engine, "guest": guest})
        return True

    def _start_or_stop(self, verb: str, host: str) -> None:
        """Start or stop a host, noted first: when it is cut off, `gc` makes an end of it."""
        facts = {key: value for key, value in self._get_facts(host).items() if key not in ("doing", "owner")}
        noted = {**facts, "doing": verb, "owner": store.describe_this_process()}
        registry.save_facts(self._home, self.name, host, noted)
        try:
            if verb == "start":
                act = partial(self._engine.start, host, facts["engine"])
                engine = self._retry_while_busy(act, self.patience)
            else:
                engine = self._engine.stop(host, facts["engine"])
        except MngrError:
            registry.save_facts(self._home, self.name, host, facts)
            raise
        registry.save_facts(self._home, self.name, host, {**facts, "engine": engine})

    def _retry_while_busy(self, act: Callable[[], Facts], patience: float) -> Facts:
        """What it gives; asked again and again while the engine is busy, as long as there is patience."""
        deadline, pause, told = time.monotonic() + patience, 1.0, ""
        while True:
            try:
                return act()
            except EngineBusy as busy:
                if time.monotonic() + pause > deadline:
                    raise
                if busy.message != told:
                    self._note(f"{busy.message}; waiting for {self.name}")
                    told = busy.message
            time.sleep(pause)
            pause = min(pause * 1.5, MAX_BUSY_PAUSE)

    def _remove_host(self, name: str, facts: dict[str, Any]) -> None:
        """Take all of it away; what it was like stays known."""
        self._engine.remove(name, facts["engine"])
        if registry.find_facts(self._home, self.name, name) is not None:  # else it never came to be
            kept = {key: facts.get(key) for key in ("options", "auto")}
            registry.save_facts(self._home, self.name, name, kept, "gone")
        registry.forget_host(self._home, self.name, name)


class OnDemandWire:
    """The wire by what is known of the host now: a start, be it by another process, can have changed that."""

    def __init__(self, home: Home, provider: str, host: str, reach: Callable[[Facts], Transport]) -> None:
        self._home = home
        self._place = (provider, host)
        self._reach = reach
        self._facts: Facts | None = None
        self._opening = ""
        self._wires: list[Transport] = []

    def _get_current_wire(self) -> Transport:
        known = registry.find_facts(self._home, *self._place)
        if known is not None and (known["engine"] != self._facts or not self._wires):
            self._wires.append(self._reach(known["engine"]))
            self._facts = known["engine"]
            self._opening = known.get("opening", "")
        if not self._wires:
            raise NotFound(f"{self._place[0]} has no host {self._place[1]!r}", "see: mngr list --hosts")
        return self._wires[-1]

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        wire = self._get_current_wire()
        return wire.build_argv(self._opening + program, terminal=terminal, only=only)

    @property
    def begin(self) -> StartFunction | None:
        """The shorter way, if this wire has one."""
        return getattr(self._get_current_wire(), "begin", None)

    def make_lost_error(self, said: str) -> Unreachable:
        return self._get_current_wire().make_lost_error(said)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
        self._wires.clear()


def load_snapshot(home: Home, name: str) -> Facts:
    """What an engine remembers of a snapshot, with its `place`; NotFound when there is no such snapshot of a host."""
    place = os.path.join(home.snapshots, name)
    try:
        with open(os.path.join(place, "meta.json"), encoding="utf-8") as file:
            return {**json.load(file)["host"]["kept"], "place": place}
    except (OSError, ValueError, KeyError, TypeError):
        raise NotFound(f"there is no snapshot {name!r} of a host", "see: mngr snapshot list") from None


def _is_known_option(key: str, known: Sequence[str]) -> bool:
    return any(key == name or (name.endswith(".") and key.startswith(name)) for name in known)


def _describe_unknown(one: FoundMachine) -> Leftover:
    """Its tag is this home's, but what is in it nobody can tell."""
    note = f"the {one.resource_kind} {one.name} was made from this home, which does not know it; if you do not need it: {one.removal_command}"
    return Leftover(description=f"unknown {one.resource_kind}", name=one.name, note=note)
