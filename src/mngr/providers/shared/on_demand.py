"""Hosts that an engine creates on demand. The registry stores each by phase: making, in use, ending."""

from __future__ import annotations

import json
import os
import time
from functools import partial

from mngr.base.errors import EngineBusy, MngrError, NotFound, ServiceUnavailable, UsageError, suggest_closest
from mngr.base.model import Struct
from mngr.host import registry, store
from mngr.host.protocol import Leftover
from mngr.host.remote_host import CommandStarter, RemoteHost
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
    from mngr.base.shell import ChildProcess
    from mngr.host.protocol import Host
    from mngr.host.remote_host import Transport

    Facts = dict[str, Any]  # what an engine stores about a host, as JSON
    Note = Callable[[str], None]
else:
    Protocol = object  # typing would cost 10 ms

MAX_BUSY_PAUSE = 20.0  # seconds; the longest pause between two tries


class FoundMachine(Struct):
    """A resource on an engine that was created from this home."""

    resource_kind: str  # job, sandbox, image, …
    name: str
    tag: str
    removal_command: str  # the command with which a user can remove it


class Engine(Protocol):
    """Creates machines. Every resource of a host carries the host's `tag`, a fact that `plan_machine` returns.

    Every method raises Unreachable within seconds if the engine does not answer, and UsageError for invalid settings.
    """

    options: tuple[str, ...]  # options of -b that are also settings; `x.` allows every name that begins so
    settings: tuple[str, ...]  # other settings of the provider
    can_stop: bool
    can_snapshot: bool  # a SnapshotEngine; `options["snapshot"]` then holds the facts and `place` of a snapshot

    def plan_machine(self, name: str, options: Facts) -> Facts:
        """Return the facts for `create`, with a `tag` and perhaps `home` (the agents' home). Creates nothing."""
        ...

    def create(self, name: str, facts: Facts) -> Facts:
        """Create a machine and return its facts when it answers. Raise EngineBusy if there is no capacity."""
        ...

    # mngr probes only one of the machines that have the same fact `alike`.

    def build_first_program(self, name: str, facts: Facts) -> str:
        """Return a program to run first on a new machine. It may run twice at once unless the fact `clears` is true."""
        ...

    def check_stoppable(self, name: str, facts: Facts) -> None:
        """Raise MngrError if this machine cannot be stopped, though others can."""
        ...

    def find_partial_snapshot(self, directory: str) -> Facts | None:
        """Return the facts with which `delete_snapshot` removes an interrupted snapshot, or None."""
        ...

    def find_existing(self, name: str) -> Facts | None:
        """Start an existing machine of this name and return its facts, with its owner's key in `whose`, or None."""
        ...

    def open_wire(self, name: str, facts: Facts) -> Transport:
        """Return the transport to a machine, without contacting it. Its errors say if it is stopped or gone."""
        ...

    def start(self, name: str, facts: Facts) -> Facts:
        """Start the machine, or use one with its tag, and return its facts. Raise HostGone or EngineBusy."""
        ...

    def stop(self, name: str, facts: Facts) -> Facts:
        """Stop the machine, keep its files and return its facts. A stopped machine stays stopped."""
        ...

    def remove(self, name: str, facts: Facts) -> None:
        """Remove every resource with the host's tag, if any exists. `facts` may be those of `plan_machine`."""
        ...

    def list_machines(self) -> list[FoundMachine]:
        """Return all resources that carry this home's key."""
        ...


class EngineDefaults:
    """Default implementations of the optional methods of an engine."""

    def build_first_program(self, name: str, facts: Facts) -> str:
        return ""

    def check_stoppable(self, name: str, facts: Facts) -> None:
        return None

    def find_partial_snapshot(self, directory: str) -> Facts | None:
        return None


class SnapshotEngine(Engine, Protocol):
    """An engine that can save a machine's files."""

    def save_snapshot(self, name: str, facts: Facts, directory: str) -> Facts:
        """Save the files of a running machine, in `directory` or on the engine. Return facts to delete them."""
        ...

    def delete_snapshot(self, facts: Facts) -> None:
        """Delete the parts of a snapshot that are on the engine, if they still exist."""
        ...


class OnDemandProvider:
    """The hosts of one engine. A subclass creates the engine and names the settings that a project may choose."""

    can_create_hosts = True
    project_options: tuple[str, ...] = ()
    patience = 600.0  # seconds to wait for capacity
    waits = True  # whether a new unnamed host waits for capacity, too

    def __init__(self, name: str, home: Home, options: dict[str, Any], note: Note = lambda text: None) -> None:
        self.name = name
        self._home = home
        self._options = options
        self._note = note
        engine: Any = self.make_engine(name, home, options, note)
        self._engine: SnapshotEngine = engine  # Snapshots are used only if `can_snapshot` is true.
        self.can_stop_hosts: bool = self._engine.can_stop
        self.can_snapshot_hosts: bool = self._engine.can_snapshot

    def make_engine(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        """Return the engine for these settings of the provider, without contacting it."""
        raise NotImplementedError

    def list(self) -> list[str]:
        return registry.list_hosts(self._home, self.name)

    def open(self, host: str) -> Host:
        facts = self._get_facts(host)
        wire = OnDemandWire(self._home, self.name, host, lambda engine: self._engine.open_wire(host, engine))
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
                old_facts = registry.find_facts(self._home, self.name, host, "gone") or {}
                auto = old_facts.get("auto") is True
                self._create_host(
                    host,
                    options or get_original_options(self._home, old_facts),
                    auto=auto,
                    patience=self.patience,
                )
        return self.open(host)

    def check_options(self, options: dict[str, Any]) -> None:
        """Raise UsageError for options that no host can have; create nothing."""
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

    def save_snapshot(self, host: str, directory: str) -> dict[str, Any]:
        snapshot: dict[str, Any] = self._engine.save_snapshot(host, self._get_facts(host)["engine"], directory)
        return {"kept": snapshot}

    def find_partial_snapshot(self, host: str, directory: str) -> dict[str, Any] | None:
        snapshot = self._engine.find_partial_snapshot(directory)
        return None if snapshot is None else {"kept": snapshot}

    def delete_snapshot(self, facts: dict[str, Any]) -> None:
        self._engine.delete_snapshot(facts["kept"])

    def list_leftovers(self) -> builtins.list[Leftover]:
        notes_before = self._list_notes()
        machines = self._engine.list_machines()
        notes = self._list_notes()
        # A host that is created or destroyed meanwhile is in one of the two lists.
        tags = {(facts.get("engine") or {}).get("tag") for _, _, facts in (*notes_before, *notes)}
        leftovers = []
        for phase, host, facts in notes:
            verb = facts.get("doing") or {"making": "create", "ending": "destroy"}.get(phase)
            if verb and not store.is_owner_alive(facts.get("owner")):
                remove = self._build_cleanup(phase, host, facts)
                text, name = f"interrupted {verb}", f"@{host}.{self.name}"
                leftovers.append(Leftover(description=text, name=name, remove=remove, is_incomplete=phase == "making"))
        return leftovers + [_describe_unknown(machine) for machine in machines if machine.tag not in tags]

    def _list_notes(self) -> builtins.list[tuple[str, str, dict[str, Any]]]:
        """Return phase, host and facts of everything in the registry. Unreadable facts are empty."""
        return [
            (phase, host, registry.find_facts(self._home, self.name, host, phase) or {})
            for phase in ("making", "ending", "json")
            for host in registry.list_hosts(self._home, self.name, phase)
        ]

    def _build_cleanup(self, phase: str, host: str, facts: dict[str, Any]) -> Callable[[], None]:
        """Return a function that finishes an interrupted start or stop, or removes an incomplete host."""

        if phase != "json":
            return build_cleanup(self._home, self.name, host, phase, facts, self._remove_host)

        def act() -> None:
            with self._lock(host):
                if registry.find_facts(self._home, self.name, host) == facts:  # else another command has continued it
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
        """Return the settings, overridden by the options of this host. Raise UsageError for unknown names."""
        known: tuple[str, ...] = self._engine.options
        known += ("snapshot",) if self.can_snapshot_hosts else ()
        all_settings = (*known, *self._engine.settings, "kind", "cost_per_hour")
        for key in self._options:
            if not _is_known_option(key, all_settings):
                hint = suggest_closest(key, list(all_settings)) or "known: " + ", ".join(all_settings)
                raise UsageError(f"[providers.{self.name}] has no setting {key!r}", hint)
        host_options = dict(options)
        if "network" not in known and host_options.pop("network", "on") != "on":
            raise UsageError(
                f"{self.name} gives its hosts the network that it has, so --network has no meaning",
                "leave it out; on this machine, --sandbox --network works",
            )
        for key in host_options:
            if not _is_known_option(key, known):
                hint = suggest_closest(key, list(known)) or f"known: {', '.join(known)}"
                raise UsageError(f"-b: {self.name} has no option {key!r}", hint)
        merged = {
            **{key: value for key, value in self._options.items() if _is_known_option(key, known)},
            **host_options,
        }
        if merged.get("snapshot"):
            merged["snapshot"] = load_snapshot(self._home, str(merged["snapshot"]))
        return merged

    def _create_host(self, name: str, options: dict[str, Any], *, auto: bool, patience: float) -> None:
        """Create a host. Its facts are saved first, so that `gc` can remove it after an interruption."""
        merged = self._merge_options(options)
        facts: dict[str, Any] = {
            "engine": self._engine.plan_machine(name, merged),
            "options": options,
            "auto": auto,
        }
        if "network" in self._engine.options:
            facts["network"] = parse_network(merged)
        registry.save_facts(self._home, self.name, name, {**facts, "owner": store.describe_this_process()}, "making")
        try:
            engine = self._retry_while_busy(lambda: self._engine.create(name, facts["engine"]), patience)
            first = self._engine.build_first_program(name, engine)
            host_facts = self._prepare_home(name, engine, first)
        except BaseException as error:
            try:
                self._remove_host(name, facts)
            except ServiceUnavailable:
                if isinstance(error, ServiceUnavailable):  # both before and after the failure
                    registry.forget_host(self._home, self.name, name)
            except MngrError:
                pass  # The saved facts let `gc` remove it later.
            raise
        maker = store.describe_this_process()  # While this process runs, a host without agents may get some.
        registry.save_facts(self._home, self.name, name, {**host_facts, **facts, "engine": engine, "maker": maker})
        registry.delete_phases(self._home, self.name, name, "making", "gone")

    def _prepare_home(self, name: str, engine: Facts, first: str) -> dict[str, Any]:
        """Return the facts about a host whose home exists at the latest with its first command."""
        files = engine.get("alike")
        known = registry.find_image_facts(self._home, self.name, files) if files else None
        wire = self._engine.open_wire(name, engine)
        if known is not None:
            opening = host_probe.build_home_program(first, known["home"], engine["tag"])
            if not engine.get("clears"):
                return {**known, "opening": opening}
            host_probe.run_home_program(wire, name, opening)  # now, because it must not run twice at once
            return known
        host_facts = host_probe.prepare_host(wire, name, engine.get("home"), first)
        if files:
            registry.save_image_facts(self._home, self.name, files, host_probe.select_shared_facts(host_facts))
        return host_facts

    def _use_existing(self, name: str, options: dict[str, Any]) -> bool:
        """Use an existing machine of this name. Return False when there is none."""
        engine: Facts | None = self._engine.find_existing(name)
        if engine is None:
            return False
        reject_options(name, options)
        host_facts = host_probe.prepare_host(self._engine.open_wire(name, engine), name, engine.get("home"))
        guest = engine.get("whose") != registry.compute_owner_key(self._home)
        registry.save_facts(self._home, self.name, name, {**host_facts, "engine": engine, "guest": guest})
        return True

    def _start_or_stop(self, verb: str, host: str) -> None:
        """Start or stop a host. The registry notes it first, so that `gc` can finish it after an interruption."""
        facts = {key: value for key, value in self._get_facts(host).items() if key not in ("doing", "owner")}
        note = {**facts, "doing": verb, "owner": store.describe_this_process()}
        registry.save_facts(self._home, self.name, host, note)
        try:
            if verb == "start":
                start_machine = partial(self._engine.start, host, facts["engine"])
                engine = self._retry_while_busy(start_machine, self.patience)
            else:
                engine = self._engine.stop(host, facts["engine"])
        except MngrError:
            registry.save_facts(self._home, self.name, host, facts)
            raise
        registry.save_facts(self._home, self.name, host, {**facts, "engine": engine})

    def _retry_while_busy(self, action: Callable[[], Facts], patience: float) -> Facts:
        """Return the result of `action`. Repeat it for `patience` seconds while the engine is busy."""
        deadline, pause, last_message = time.monotonic() + patience, 1.0, ""
        while True:
            try:
                return action()
            except EngineBusy as busy:
                if time.monotonic() + pause > deadline:
                    raise
                if busy.message != last_message:
                    self._note(f"{busy.message}; waiting for {self.name}")
                    last_message = busy.message
            time.sleep(pause)
            pause = min(pause * 1.5, MAX_BUSY_PAUSE)

    def _remove_host(self, name: str, facts: dict[str, Any]) -> None:
        """Remove the machine. Keep its options, so that it can be created again."""
        self._engine.remove(name, facts["engine"])
        if registry.find_facts(self._home, self.name, name) is not None:  # else the host was never complete
            remembered = {key: facts.get(key) for key in ("options", "auto")}
            registry.save_facts(self._home, self.name, name, remembered, "gone")
        registry.forget_host(self._home, self.name, name)


class OnDemandWire:
    """A transport that follows the registry, because another process can restart the host in the meantime."""

    def __init__(self, home: Home, provider: str, host: str, open_wire: Callable[[Facts], Transport]) -> None:
        self._home = home
        self._place = (provider, host)
        self._reach = open_wire
        self._facts: Facts | None = None
        self._opening = ""
        self._wires: list[Transport] = []

    def _get_current_wire(self) -> Transport:
        """Return the transport for the latest facts in the registry. Raise NotFound for an unknown host."""
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

    def start_command(
        self, argv: Sequence[str], streams: tuple[int, int, int], timeout: float | None
    ) -> ChildProcess | None:
        """Start the command as the current transport does, or return None if a local process must run it."""
        wire = self._get_current_wire()
        return wire.start_command(argv, streams, timeout) if isinstance(wire, CommandStarter) else None

    def make_lost_error(self, stderr: str) -> Unreachable:
        return self._get_current_wire().make_lost_error(stderr)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
        self._wires.clear()


def load_snapshot(home: Home, name: str) -> Facts:
    """Return the engine's facts about a snapshot, with its `place`. Raise NotFound if it does not exist."""
    directory = os.path.join(home.snapshots, name)
    try:
        with open(os.path.join(directory, "meta.json"), encoding="utf-8") as file:
            return {**json.load(file)["host"]["kept"], "place": directory}
    except (OSError, ValueError, KeyError, TypeError):
        raise NotFound(f"there is no snapshot {name!r} of a host", "see: mngr snapshot list") from None


def _is_known_option(key: str, known: Sequence[str]) -> bool:
    return any(key == name or (name.endswith(".") and key.startswith(name)) for name in known)


def _describe_unknown(machine: FoundMachine) -> Leftover:
    """Return a leftover without a `remove` function, because mngr does not know the machine's contents."""
    note = f"the {machine.resource_kind} {machine.name} was made from this home, which does not know it; if you do not need it: {machine.removal_command}"
    return Leftover(description=f"unknown {machine.resource_kind}", name=machine.name, note=note)
