"""Hosts that an engine creates on demand. The registry stores each by phase: making, in use, ending."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from typing import Generic

from mngr.base.errors import EngineBusy, MngrError, NotFound, ServiceUnavailable, UsageError, suggest_closest
from mngr.base.untrusted_json import as_object, get_object
from mngr.host import host_store, record_store
from mngr.host.host_store import HostFacts
from mngr.host.protocol import Leftover
from mngr.host.remote_host import RemoteHost
from mngr.providers.shared import host_preparation
from mngr.providers.shared.engine_protocol import AnyMachine
from mngr.providers.shared.host_options import get_original_options, parse_network, reject_options
from mngr.providers.shared.interrupted_hosts import build_cleanup, finish_interrupted, host_lock
from mngr.providers.shared.on_demand_transport import OnDemandTransport

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence
    from typing import Any

    from mngr.base.lock import Lock
    from mngr.base.paths import Home
    from mngr.host.protocol import Host
    from mngr.providers.shared.engine_protocol import Engine, FoundMachine, SnapshotEngine

    Note = Callable[[str], None]

MAX_BUSY_PAUSE = 20.0  # seconds; the longest pause between two tries


class OnDemandProvider(Generic[AnyMachine]):
    """The hosts of one engine. A subclass creates the engine and names the settings that a project may choose."""

    can_create_hosts = True
    project_options: tuple[str, ...] = ()
    patience = 600.0  # seconds to wait for capacity
    waits = True  # whether a new unnamed host waits for capacity, too

    def __init__(self, name: str, home: Home, options: dict[str, object], note: Note = lambda text: None) -> None:
        self.name = name
        self._home = home
        self._options = options
        self._note = note
        self._cancelled: set[str] = set()  # hosts that nobody waits for any more
        engine: Any = self.make_engine(name, home, options, note)
        self._engine: SnapshotEngine[AnyMachine] = engine  # Snapshots are used only if `can_snapshot` is true.
        self.can_stop_hosts: bool = self._engine.can_stop
        self.can_snapshot_hosts: bool = self._engine.can_snapshot

    def make_engine(self, name: str, home: Home, options: dict[str, object], note: Note) -> Engine[AnyMachine]:
        """Return the engine for these settings of the provider, without contacting it."""
        raise NotImplementedError

    def list(self) -> list[str]:
        return host_store.list_hosts(self._home, self.name)

    def open(self, host: str) -> Host:
        facts = self._get_facts(host)
        transport = OnDemandTransport(
            self._home,
            self.name,
            host,
            lambda engine_facts: self._engine.open_transport(host, self._engine.read_machine(engine_facts)),
        )
        return RemoteHost(host, self.name, transport, facts.home, facts.uid)

    def create(self, host: str | None, options: dict[str, object]) -> Host:
        if host is None:
            name = f"mngr-{os.urandom(4).hex()}"
            self._create_host(name, options, auto=True, patience=self.patience if self.waits else 0.0)
            return self.open(name)
        self._cancelled.discard(host)
        with self._lock(host):
            finish_interrupted(self._home, self.name, host, self._remove_machine)
            if host_store.find_facts(self._home, self.name, host) is not None:
                reject_options(host, options)
                if self.can_stop_hosts:
                    self._start_or_stop("start", host)
            elif not self._use_existing(host, options):
                old_facts = host_store.find_facts(self._home, self.name, host, "gone") or HostFacts()
                host_options = options or get_original_options(self._home, old_facts)
                self._create_host(host, host_options, auto=old_facts.auto, patience=self.patience)
        return self.open(host)

    def cancel_create(self, host: str) -> None:
        """Let another thread's `create` of this host fail, if it still waits for capacity."""
        self._cancelled.add(host)
        facts = host_store.find_facts(self._home, self.name, host, "making")
        if facts is not None:
            self._engine.remove(host, self._read_machine(facts))

    def check_options(self, options: dict[str, object]) -> None:
        """Raise UsageError for options that no host can have; create nothing."""
        self._engine.plan_machine("check", self._merge_options(options))

    def start(self, host: str) -> None:
        with self._lock(host):
            self._start_or_stop("start", host)

    def stop(self, host: str) -> None:
        with self._lock(host):
            self._start_or_stop("stop", host)

    def check_stoppable(self, host: str) -> None:
        self._engine.check_stoppable(host, self._get_machine(host))

    def destroy(self, host: str) -> None:
        with self._lock(host):
            facts = self._get_facts(host)
            if facts.guest:
                host_store.forget_host(self._home, self.name, host)
                return
            note = facts.replace(owner=record_store.describe_this_process())
            host_store.save_facts(self._home, self.name, host, note, "ending")
            self._remove_machine(host, facts)

    def save_snapshot(self, host: str, directory: str) -> dict[str, object]:
        return {"snapshot_facts": self._engine.save_snapshot(host, self._get_machine(host), directory)}

    def find_partial_snapshot(self, host: str, directory: str) -> dict[str, object] | None:
        snapshot = self._engine.find_partial_snapshot(directory)
        return None if snapshot is None else {"snapshot_facts": snapshot}

    def delete_snapshot(self, facts: dict[str, object]) -> None:
        self._engine.delete_snapshot(get_object(facts, "snapshot_facts"))

    def list_leftovers(self) -> builtins.list[Leftover]:
        notes_before = self._list_notes()
        machines = self._engine.list_machines()
        notes = self._list_notes()
        # A host that is created or destroyed meanwhile is in one of the two lists.
        known_facts = [facts for _, _, facts in (*notes_before, *notes) if facts is not None]
        known_tags = {_get_engine_facts(facts).get("tag") for facts in known_facts}
        leftovers = [self._describe_interrupted(*note) for note in notes]
        unknown = [_describe_unknown(machine) for machine in machines if machine.tag not in known_tags]
        return [leftover for leftover in leftovers if leftover is not None] + unknown

    def _list_notes(self) -> builtins.list[tuple[str, str, HostFacts | None]]:
        """Return phase, host and facts of everything in the registry. Unreadable facts are None."""
        return [
            (phase, host, host_store.find_facts(self._home, self.name, host, phase))
            for phase in ("making", "ending", "json")
            for host in host_store.list_hosts(self._home, self.name, phase)
        ]

    def _describe_interrupted(self, phase: str, host: str, facts: HostFacts | None) -> Leftover | None:
        """Return the leftover of an interrupted operation, or None if nothing was interrupted."""
        doing = facts.doing if facts is not None else None
        verb = doing or {"making": "create", "ending": "destroy"}.get(phase)
        if verb is None or record_store.is_owner_alive(facts.owner if facts is not None else None):
            return None
        return Leftover(
            description=f"interrupted {verb}",
            name=f"@{host}.{self.name}",
            remove=self._build_cleanup(phase, host, facts),
            is_incomplete=phase == "making",
        )

    def _build_cleanup(self, phase: str, host: str, facts: HostFacts | None) -> Callable[[], None]:
        """Return a function that finishes an interrupted start or stop, or removes an incomplete host."""

        if phase != "json" or facts is None or facts.doing is None:
            return build_cleanup(self._home, self.name, host, phase, facts, self._remove_machine)
        verb = facts.doing

        def act() -> None:
            with self._lock(host):
                if host_store.find_facts(self._home, self.name, host) == facts:  # else another command has continued it
                    self._start_or_stop(verb, host)

        return act

    def _lock(self, host: str) -> Lock:
        return host_lock(self._home, self.name, host)

    def _get_facts(self, host: str) -> HostFacts:
        facts = host_store.find_facts(self._home, self.name, host)
        if facts is None:
            hint = suggest_closest(host, self.list()) or "check the hosts: mngr list --hosts"
            raise NotFound(f"{self.name} has no host {host!r}", hint)
        return facts

    def _get_machine(self, host: str) -> AnyMachine:
        return self._read_machine(self._get_facts(host))

    def _read_machine(self, facts: HostFacts) -> AnyMachine:
        return self._engine.read_machine(_get_engine_facts(facts))

    def _merge_options(self, options: dict[str, object]) -> dict[str, object]:
        """Return the settings, overridden by the options of this host. Raise UsageError for unknown names."""
        known: tuple[str, ...] = self._engine.options
        known += ("snapshot",) if self.can_snapshot_hosts else ()
        all_settings = (*known, *self._engine.settings, "kind", "cost_per_hour")
        for key in self._options:
            if not _is_known_option(key, all_settings):
                hint = suggest_closest(key, list(all_settings)) or "use one of: " + ", ".join(all_settings)
                raise UsageError(f"[providers.{self.name}] has no setting {key!r}", hint)
        host_options = dict(options)
        if "network" not in known and host_options.pop("network", "on") != "on":
            raise UsageError(
                f"{self.name} does not let mngr choose the network of its hosts, so --network has no effect",
                "leave out --network; on this machine, --sandbox --network works",
            )
        for key in host_options:
            if not _is_known_option(key, known):
                hint = suggest_closest(key, list(known)) or f"use one of: {', '.join(known)}"
                raise UsageError(f"-b: {self.name} has no option {key!r}", hint)
        merged = {
            **{key: value for key, value in self._options.items() if _is_known_option(key, known)},
            **host_options,
        }
        if merged.get("snapshot"):
            merged["snapshot"] = load_snapshot(self._home, str(merged["snapshot"]))
        return merged

    def _create_host(self, name: str, options: dict[str, object], *, auto: bool, patience: float) -> None:
        """Create a host. Its facts are saved first, so that `gc` can remove it after an interruption."""
        merged = self._merge_options(options)
        planned = self._engine.plan_machine(name, merged)
        network = parse_network(merged) if "network" in self._engine.options else None
        this_process = record_store.describe_this_process()
        plan = HostFacts(options=options, auto=auto, network=network, own={"engine": planned.write()})
        host_store.save_facts(self._home, self.name, name, plan.replace(owner=this_process), "making")
        try:
            machine = self._retry_while_busy(name, lambda: self._engine.create(name, planned), patience)
            first = self._engine.build_first_program(name, machine)
            prepared = self._prepare_home(name, machine, first)
        except BaseException as error:
            try:
                self._remove_machine(name, plan)
            except ServiceUnavailable:
                if isinstance(error, ServiceUnavailable):  # both before and after the failure
                    host_store.forget_host(self._home, self.name, name)
            except MngrError:
                pass  # The saved facts let `gc` remove it later.
            raise
        # While the maker runs, a host without agents may get some.
        facts = prepared.replace(
            options=options, auto=auto, network=network, maker=this_process, own={"engine": machine.write()}
        )
        host_store.save_facts(self._home, self.name, name, facts)
        host_store.delete_phases(self._home, self.name, name, "making", "gone")

    def _prepare_home(self, name: str, machine: AnyMachine, first: str) -> HostFacts:
        """Return the facts about a host whose home exists at the latest with its first command."""
        files = machine.alike
        known = host_store.find_image_facts(self._home, self.name, files) if files else None
        transport = self._engine.open_transport(name, machine)
        if known is not None:
            opening = host_preparation.build_home_program(first, known.home, machine.tag)
            if not machine.clears:
                return known.replace(opening=opening)
            host_preparation.run_home_program(transport, name, opening)  # now, because it must not run twice at once
            return known
        prepared = host_preparation.prepare_host(transport, name, machine.home, first)
        if files:
            host_store.save_image_facts(self._home, self.name, files, host_preparation.select_shared_facts(prepared))
        return prepared

    def _use_existing(self, name: str, options: dict[str, object]) -> bool:
        """Use an existing machine of this name. Return False when there is none."""
        machine = self._engine.find_existing(name)
        if machine is None:
            return False
        reject_options(name, options)
        prepared = host_preparation.prepare_host(self._engine.open_transport(name, machine), name, machine.home)
        guest = machine.whose != host_store.compute_owner_key(self._home)
        facts = prepared.replace(guest=guest, own={"engine": machine.write()})
        host_store.save_facts(self._home, self.name, name, facts)
        return True

    def _start_or_stop(self, verb: str, host: str) -> None:
        """Start or stop a host. The registry notes it first, so that `gc` can finish it after an interruption."""
        facts = self._get_facts(host).replace(doing=None, owner=None)
        machine = self._read_machine(facts)
        note = facts.replace(doing=verb, owner=record_store.describe_this_process())
        host_store.save_facts(self._home, self.name, host, note)
        try:
            if verb == "start":
                machine = self._retry_while_busy(
                    host, partial(self._engine.start_or_reuse_machine, host, machine), self.patience
                )
            else:
                machine = self._engine.stop(host, machine)
        except MngrError:
            host_store.save_facts(self._home, self.name, host, facts)
            raise
        host_store.save_facts(self._home, self.name, host, facts.replace(own={"engine": machine.write()}))

    def _retry_while_busy(self, host: str, action: Callable[[], AnyMachine], patience: float) -> AnyMachine:
        """Return the result of `action`. Repeat it for `patience` seconds while the engine is busy."""
        deadline, pause, last_message = time.monotonic() + patience, 1.0, ""
        while True:
            try:
                return action()
            except EngineBusy as busy:
                if time.monotonic() + pause > deadline or host in self._cancelled:
                    raise
                if busy.message != last_message:
                    self._note(f"{busy.message}; waiting for {self.name}")
                    last_message = busy.message
            time.sleep(pause)
            pause = min(pause * 1.5, MAX_BUSY_PAUSE)

    def _remove_machine(self, name: str, facts: HostFacts) -> None:
        """Remove the machine. Keep its options, so that it can be created again."""
        self._engine.remove(name, self._read_machine(facts))
        if host_store.find_facts(self._home, self.name, name) is not None:  # else the host was never complete
            remembered = HostFacts(options=facts.options, auto=facts.auto)
            host_store.save_facts(self._home, self.name, name, remembered, "gone")
        host_store.forget_host(self._home, self.name, name)


def _get_engine_facts(facts: HostFacts) -> dict[str, object]:
    return get_object(facts.own, "engine")


def load_snapshot(home: Home, name: str) -> dict[str, object]:
    """Return the engine's facts about a snapshot, with its `place`. Raise NotFound if it does not exist."""
    directory = os.path.join(home.snapshots, name)
    try:
        with open(os.path.join(directory, "meta.json"), encoding="utf-8") as file:
            snapshot_facts = get_object(as_object(json.load(file)), "host")["snapshot_facts"]
        return {**as_object(snapshot_facts), "place": directory}
    except (OSError, ValueError, KeyError):
        raise NotFound(f"there is no host snapshot {name!r}", "list the snapshots: mngr snapshot list") from None


def _is_known_option(key: str, known: Sequence[str]) -> bool:
    return any(key == name or (name.endswith(".") and key.startswith(name)) for name in known)


def _describe_unknown(machine: FoundMachine) -> Leftover:
    """Return a leftover without a `remove` function, because mngr does not know the machine's contents."""
    note = f"the {machine.resource_kind} {machine.name} was created from this home, but mngr has no record of it; if you do not need it: {machine.removal_command}"
    return Leftover(description=f"unknown {machine.resource_kind}", name=machine.name, note=note)
