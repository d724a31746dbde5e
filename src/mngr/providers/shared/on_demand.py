"""Hosts that an engine makes for us. What is known of each is in the registry, by phases: being made, there, being taken away."""

from __future__ import annotations

import json
import os
import time
from functools import partial

from mngr.base.errors import Busy, MngrError, NotFound, NotTaken, UsageError, closest
from mngr.base.model import Record
from mngr.host import registry, store
from mngr.host.protocol import Leftover
from mngr.host.remote_host import PipeHost
from mngr.providers.shared import first_contact
from mngr.providers.shared.host_options import made_from, network_of, refuse_options
from mngr.providers.shared.phases import clear_notes, clearing, host_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from mngr.base.errors import Unreachable
    from mngr.base.lock import Lock
    from mngr.base.paths import Home
    from mngr.base.shell import Begin
    from mngr.host.protocol import Host
    from mngr.host.remote_host import Wire

    Facts = dict[str, Any]  # what an engine wants to remember of a host, as JSON
    Note = Callable[[str], None]
else:
    Protocol = object  # typing would cost 10 ms

PAUSE = 20.0  # seconds at most between two questions whether there is room


class Found(Record):
    """Something on an engine that was made from this home."""

    what: str  # job, sandbox, image, …
    name: str
    tag: str
    removal: str  # the command that takes it away by hand


class Engine(Protocol):
    """What makes machines. All that it makes for a host carries the host's `tag`, one of the facts that `plan` gives.

    Every method raises Unreachable when the engine does not answer, in seconds; UsageError for settings that make no sense.
    """

    options: tuple[str, ...]  # what -b can say of a host, and a setting of all; `x.` is for all that begin so
    settings: tuple[str, ...]  # other settings of the provider
    can_stop: bool
    can_snapshot: bool  # then it is a SnapshotEngine, and `wish["snapshot"]` is what its `snapshot` gave, with its `place`

    def plan(self, name: str, wish: Facts) -> Facts:
        """The facts before anything is made: `tag`, what `make` needs, perhaps `home` (agents' home there). Makes nothing."""
        ...

    def make(self, name: str, facts: Facts) -> Facts:
        """The facts of a machine that runs, and whose wire answers; Busy when there is no room and nothing was made."""
        ...

    # Of machines with the same fact `alike` only one is asked what it is like.

    def first(self, name: str, facts: Facts) -> str:
        """A program to run before all else on a new machine, perhaps by two at once unless the fact `clears` is true."""
        ...

    def refuse_stop(self, name: str, facts: Facts) -> None:
        """Raise MngrError for a machine that cannot be stopped, though others can."""
        ...

    def unfinished(self, place: str) -> Facts | None:
        """What `drop_snapshot` needs to remove what a snapshot to this place has made so far; None if nothing."""
        ...

    def join(self, name: str) -> Facts | None:
        """The facts of a machine of that name that is there already, with `whose` (a registry.key) it is; it runs then."""
        ...

    def wire(self, name: str, facts: Facts) -> Wire:
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

    def find(self) -> list[Found]:
        """All that carries this home's key."""
        ...


class EngineDefaults:
    """The answers of an engine that has nothing special to say."""

    def first(self, name: str, facts: Facts) -> str:
        return ""

    def refuse_stop(self, name: str, facts: Facts) -> None:
        return None

    def unfinished(self, place: str) -> Facts | None:
        return None


class SnapshotEngine(Engine, Protocol):
    """An engine that can keep a machine's files."""

    def snapshot(self, name: str, facts: Facts, place: str) -> Facts:
        """Keep the files of a running machine: what fits in the directory `place`; what to remember of the rest."""
        ...

    def drop_snapshot(self, facts: Facts) -> None:
        """Delete what is not in the place, by what `snapshot` gave; that it is not there is no trouble."""
        ...


class RentedProvider:
    """The hosts of one engine. A subclass says which, and what of its settings a project may choose for who works on it."""

    can_create_hosts = True
    from_project: tuple[str, ...] = ()
    patience = 600.0  # seconds that a host waits for room
    waits = True  # also a new one for new agents; who has other work to do meanwhile says no

    def __init__(
        self, name: str, home: Home, options: dict[str, Any], note: Note = lambda text: None
    ) -> None:
        self.name = name
        self._home = home
        self._options = options
        self._note = note
        self._engine: Any = self.hire(name, home, options, note)
        self.can_stop_hosts: bool = self._engine.can_stop
        self.can_snapshot_hosts: bool = self._engine.can_snapshot

    def hire(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        """The engine, by the settings of the provider; touches nothing."""
        raise NotImplementedError

    def list(self) -> list[str]:
        return registry.names(self._home, self.name)

    def open(self, host: str) -> Host:
        facts = self._facts(host)
        wire = RentedWire(self._home, self.name, host, lambda found: self._engine.wire(host, found))
        return PipeHost(host, self.name, wire, str(facts["home"]), int(facts["uid"]))

    def create(self, host: str | None, options: dict[str, Any]) -> Host:
        if host is None:
            name = f"mngr-{os.urandom(4).hex()}"
            self._make(name, options, auto=True, patience=self.patience if self.waits else 0.0)
            return self.open(name)
        with self._lock(host):
            clear_notes(self._home, self.name, host, self._remove)
            if registry.load(self._home, self.name, host) is not None:
                refuse_options(host, options)
                if self.can_stop_hosts:
                    self._turn("start", host)
            elif not self._join(host, options):
                before = registry.load(self._home, self.name, host, "gone") or {}
                auto = before.get("auto") is True
                self._make(host, options or made_from(self._home, before), auto=auto, patience=self.patience)
        return self.open(host)

    def check(self, options: dict[str, Any]) -> None:
        """UsageError for what no host can be; makes nothing."""
        self._engine.plan("check", self._wish(options))

    def start(self, host: str) -> None:
        with self._lock(host):
            self._turn("start", host)

    def stop(self, host: str) -> None:
        with self._lock(host):
            self._turn("stop", host)

    def refuse_stop(self, host: str) -> None:
        self._engine.refuse_stop(host, self._facts(host)["engine"])

    def destroy(self, host: str) -> None:
        with self._lock(host):
            facts = self._facts(host)
            if facts.get("guest"):
                registry.forget(self._home, self.name, host)
                return
            registry.save(self._home, self.name, host, {**facts, "owner": store.this_process()}, "ending")
            self._remove(host, facts)

    def snapshot(self, host: str, place: str) -> dict[str, Any]:
        kept: dict[str, Any] = self._engine.snapshot(host, self._facts(host)["engine"], place)
        return {"kept": kept}

    def unfinished(self, host: str, place: str) -> dict[str, Any] | None:
        found = self._engine.unfinished(place)
        return None if found is None else {"kept": found}

    def drop_snapshot(self, facts: dict[str, Any]) -> None:
        self._engine.drop_snapshot(facts["kept"])

    def leftovers(self) -> builtins.list[Leftover]:
        before = self._notes()
        there = self._engine.find()
        notes = self._notes()
        # What is made or taken away meanwhile stands in one of both.
        tags = {(facts.get("engine") or {}).get("tag") for _, _, facts in (*before, *notes)}
        found = []
        for phase, host, facts in notes:
            verb = facts.get("doing") or {"making": "create", "ending": "destroy"}.get(phase)
            if verb and not store.is_alive(facts.get("owner")):
                act = self._finish(phase, host, facts)
                what, name = f"interrupted {verb}", f"@{host}.{self.name}"
                found.append(Leftover(what=what, name=name, act=act, is_half_made=phase == "making"))
        return found + [_unknown(one) for one in there if one.tag not in tags]

    def _notes(self) -> builtins.list[tuple[str, str, dict[str, Any]]]:
        """All that is written down of hosts: phase, host and facts; none of what cannot be read."""
        return [
            (phase, host, registry.load(self._home, self.name, host, phase) or {})
            for phase in ("making", "ending", "json")
            for host in registry.names(self._home, self.name, phase)
        ]

    def _finish(self, phase: str, host: str, facts: dict[str, Any]) -> Callable[[], None]:
        """What makes an end of a command that was cut off: a start and a stop are done, what was half made goes."""

        if phase != "json":
            return clearing(self._home, self.name, host, phase, facts, self._remove)

        def act() -> None:
            with self._lock(host):
                if registry.load(self._home, self.name, host) == facts:  # else somebody has gone on with it
                    self._turn(facts["doing"], host)

        return act

    def _lock(self, host: str) -> Lock:
        return host_lock(self._home, self.name, host)

    def _facts(self, host: str) -> dict[str, Any]:
        facts = registry.load(self._home, self.name, host)
        if facts is None:
            hint = closest(host, self.list()) or "see: mngr list --hosts"
            raise NotFound(f"{self.name} has no host {host!r}", hint)
        return facts

    def _wish(self, options: dict[str, Any]) -> dict[str, Any]:
        """The settings with what was asked for this host in their place; UsageError when there is no such thing."""
        known: tuple[str, ...] = self._engine.options
        known += ("snapshot",) if self.can_snapshot_hosts else ()
        every = (*known, *self._engine.settings, "kind", "cost_per_hour")
        for key in self._options:
            if not _is_in(key, every):
                hint = closest(key, list(every)) or "known: " + ", ".join(every)
                raise UsageError(f"[providers.{self.name}] has no setting {key!r}", hint)
        asked = dict(options)
        if "network" not in known and asked.pop("network", "on") != "on":
            raise UsageError(
                f"{self.name} gives its hosts the network that it has, so --network has no meaning",
                "leave it out; on this machine, --sandbox --network works",
            )
        for key in asked:
            if not _is_in(key, known):
                hint = closest(key, list(known)) or f"known: {', '.join(known)}"
                raise UsageError(f"-b: {self.name} has no option {key!r}", hint)
        wish = {**{key: value for key, value in self._options.items() if _is_in(key, known)}, **asked}
        if wish.get("snapshot"):
            wish["snapshot"] = load_snapshot(self._home, str(wish["snapshot"]))
        return wish

    def _make(self, name: str, options: dict[str, Any], *, auto: bool, patience: float) -> None:
        """A new host. Its note is written first: what is interrupted is known, and `gc` takes it away."""
        wish = self._wish(options)
        facts: dict[str, Any] = {
            "engine": self._engine.plan(name, wish),
            "options": options,
            "auto": auto,
        }
        if "network" in self._engine.options:
            facts["network"] = network_of(wish)
        registry.save(self._home, self.name, name, {**facts, "owner": store.this_process()}, "making")
        try:
            engine = self._when_there_is_room(lambda: self._engine.make(name, facts["engine"]), patience)
            first = self._engine.first(name, engine)
            found = self._settle_in(name, engine, first)
        except BaseException as error:
            try:
                self._remove(name, facts)
            except NotTaken:
                if isinstance(error, NotTaken):  # before and after it
                    registry.forget(self._home, self.name, name)
            except MngrError:
                pass  # it stays noted, for `gc`
            raise
        maker = store.this_process()  # until it has ended, a host without agents may get some
        registry.save(self._home, self.name, name, {**found, **facts, "engine": engine, "maker": maker})
        registry.drop(self._home, self.name, name, "making", "gone")

    def _settle_in(self, name: str, engine: Facts, first: str) -> dict[str, Any]:
        """Facts about a host that has a home for agents, at the latest with its first command; of many with the same files one is asked."""
        files = engine.get("alike")
        known = registry.load_alike(self._home, self.name, files) if files else None
        wire = self._engine.wire(name, engine)
        if known is not None:
            opening = first_contact.opening(first, known["home"], engine["tag"])
            if not engine.get("clears"):
                return {**known, "opening": opening}
            first_contact.open_up(wire, name, opening)  # not while somebody else is at work there already
            return known
        found = first_contact.settle_in(wire, name, engine.get("home"), first)
        if files:
            registry.save_alike(self._home, self.name, files, first_contact.alike(found))
        return found

    def _join(self, name: str, options: dict[str, Any]) -> bool:
        """Use a machine of that name that is there already; False when there is none."""
        engine: Facts | None = self._engine.join(name)
        if engine is None:
            return False
        refuse_options(name, options)
        found = first_contact.settle_in(self._engine.wire(name, engine), name, engine.get("home"))
        guest = engine.get("whose") != registry.key(self._home)
        registry.save(self._home, self.name, name, {**found, "engine": engine, "guest": guest})
        return True

    def _turn(self, verb: str, host: str) -> None:
        """Start or stop a host, noted first: when it is cut off, `gc` makes an end of it."""
        facts = {key: value for key, value in self._facts(host).items() if key not in ("doing", "owner")}
        noted = {**facts, "doing": verb, "owner": store.this_process()}
        registry.save(self._home, self.name, host, noted)
        try:
            if verb == "start":
                act = partial(self._engine.start, host, facts["engine"])
                engine = self._when_there_is_room(act, self.patience)
            else:
                engine = self._engine.stop(host, facts["engine"])
        except MngrError:
            registry.save(self._home, self.name, host, facts)
            raise
        registry.save(self._home, self.name, host, {**facts, "engine": engine})

    def _when_there_is_room(self, act: Callable[[], Facts], patience: float) -> Facts:
        """What it gives; asked again and again while the engine is busy, as long as there is patience."""
        deadline, pause, told = time.monotonic() + patience, 1.0, ""
        while True:
            try:
                return act()
            except Busy as busy:
                if time.monotonic() + pause > deadline:
                    raise
                if busy.message != told:
                    self._note(f"{busy.message}; waiting for {self.name}")
                    told = busy.message
            time.sleep(pause)
            pause = min(pause * 1.5, PAUSE)

    def _remove(self, name: str, facts: dict[str, Any]) -> None:
        """Take all of it away; what it was like stays known."""
        self._engine.remove(name, facts["engine"])
        if registry.load(self._home, self.name, name) is not None:  # else it never came to be
            kept = {key: facts.get(key) for key in ("options", "auto")}
            registry.save(self._home, self.name, name, kept, "gone")
        registry.forget(self._home, self.name, name)


class RentedWire:
    """The wire by what is known of the host now: a start, be it by another process, can have changed that."""

    def __init__(self, home: Home, provider: str, host: str, reach: Callable[[Facts], Wire]) -> None:
        self._home = home
        self._place = (provider, host)
        self._reach = reach
        self._facts: Facts | None = None
        self._opening = ""
        self._wires: list[Wire] = []

    def _wire(self) -> Wire:
        known = registry.load(self._home, *self._place)
        if known is not None and (known["engine"] != self._facts or not self._wires):
            self._wires.append(self._reach(known["engine"]))
            self._facts = known["engine"]
            self._opening = known.get("opening", "")
        if not self._wires:
            raise NotFound(f"{self._place[0]} has no host {self._place[1]!r}", "see: mngr list --hosts")
        return self._wires[-1]

    def argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        wire = self._wire()
        return wire.argv(self._opening + program, terminal=terminal, only=only)

    @property
    def begin(self) -> Begin | None:
        """The shorter way, if this wire has one."""
        return getattr(self._wire(), "begin", None)

    def lost(self, said: str) -> Unreachable:
        return self._wire().lost(said)

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


def _is_in(key: str, known: Sequence[str]) -> bool:
    return any(key == name or (name.endswith(".") and key.startswith(name)) for name in known)


def _unknown(one: Found) -> Leftover:
    """Its tag is this home's, but what is in it nobody can tell."""
    note = f"the {one.what} {one.name} was made from this home, which does not know it; if you do not need it: {one.removal}"
    return Leftover(what=f"unknown {one.what}", name=one.name, note=note)
