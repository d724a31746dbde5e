"""Provides clean rooms: fresh workspaces at a commit, in which mngr runs tests itself.

A clean room is an agent whose command has ended, so it uses the set-up, sandbox, network and hosts of `create`. It
holds nobody's work, so it does not go to the trash.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from mngr.agents.create.spec import AgentSpec
from mngr.api import Fleet
from mngr.base.config import Settings
from mngr.base.errors import Unreachable
from mngr.base.model import AgentView, Struct
from mngr.base.paths import find_project_root
from mngr.base.trust.project_trust import find_repository
from mngr.host.record_store import NameTaken
from mngr.tmr.cleanroom import lfs_files
from mngr.tmr.cleanroom.clean_room import CleanRoom
from mngr.tmr.cleanroom.clean_room_hosts import RoomHosts
from mngr.tmr.cleanroom.room_leases import IdleRoom, RoomLease, RoomLeases, RoomPurpose
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox, SandboxBuilder

CLEAN_ROOM_LABEL = {"role": "clean-room"}
_MAX_IDLE_SECONDS = 30.0  # A created host without tests is destroyed after this time: agents may wait for its place.


def count_cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CleanRoomOptions(Struct):
    """Where clean rooms are created, and what is around the tests in them."""

    on: str = ""  # the host part of an address: @HOST
    sandbox: CleanRoomSandbox | None = None  # around every command
    no_sandbox_reason: str = "--isolation off"  # why there is no sandbox, if there is none
    env: dict[str, str] | None = None
    settings_root: str | None = None  # the project whose settings count, if it is not that of the repository
    trusted_commit: str | None = None  # set-up uses the files of this commit; None: of the commit under test

    @property
    def cache_key(self) -> list[Any]:
        """Return the settings that a test's result depends on."""
        sandbox = None if self.sandbox is None else self.sandbox.to_dict()
        return [self.on, sandbox, "" if self.trusted_commit is None else "trusted set-up"]


_DEFAULT_OPTIONS = CleanRoomOptions()


class CleanRoomPool:
    """The clean rooms of one run, used or idle: at most `at_once` at a time. Each one serves a single commit."""

    def __init__(
        self,
        fleet: Fleet,
        run: str,
        repo: str,
        options: CleanRoomOptions = _DEFAULT_OPTIONS,
        *,
        at_once: int | None = None,
        name_prefix: str = "clean-room",
    ) -> None:
        self.fleet, self.run, self.repo = fleet, run, os.path.abspath(repo)
        self.max_rooms = at_once or count_cores()
        self._options, self._on, self._name_prefix = options, options.on, name_prefix
        self._sandbox_builder = None if options.sandbox is None else SandboxBuilder(options.sandbox)
        self.cache_key = options.cache_key
        self.hosts = RoomHosts(fleet, self._on, f"tmr-{run}-{name_prefix}")
        self._leases = RoomLeases[CleanRoom](self.max_rooms)

    @contextlib.contextmanager
    def acquire(self, commit: str, source: str | None = None) -> Iterator[CleanRoom]:
        """Yield a clean room at a commit, and keep it for the next request for this commit.

        An exception means that the room may be broken, so the pool discards it. Waits while all rooms are in use.
        `source` is another repository with the same history, to use instead of the project.
        """
        purpose = RoomPurpose(commit, source or self.repo)
        lease = self._leases.take(purpose)
        room = None
        try:
            room = self._open_room(lease, purpose)
            yield room
        except BaseException as error:
            self._discard(lease.number, room, is_lost=self.creates_hosts and isinstance(error, Unreachable))
            raise
        room.prepare_for_reuse()
        self._leases.keep(IdleRoom(lease.number, purpose, room))
        if self.creates_hosts:
            timer = threading.Timer(_MAX_IDLE_SECONDS, self.release_idle, [_MAX_IDLE_SECONDS])
            timer.daemon = True
            timer.start()

    def _open_room(self, lease: RoomLease[CleanRoom], purpose: RoomPurpose) -> CleanRoom:
        """Return the idle room of the lease, or a new room if the idle one has another purpose."""
        if lease.idle is not None:
            if lease.idle.purpose == purpose:
                return lease.idle.room
            self.fleet.discard_clean_rooms([lease.idle.room.name])
        return self._create_room(lease.number, purpose.commit, purpose.source)

    def _discard(self, number: int, room: CleanRoom | None, *, is_lost: bool) -> None:
        """Discard a room that may be broken, unless its host is lost, and let others use its number."""
        try:
            if room is not None and not is_lost:
                self.fleet.discard_clean_rooms([room.name])
        finally:
            self._leases.return_number(number, is_lost=is_lost)

    def _create_room(self, number: int, commit: str, source: str | None) -> CleanRoom:
        """Create the clean room with this number, and replace a leftover of the same name."""
        name = f"tmr-{self.run}-{self._name_prefix}-{number}"
        trusted_commit = self._options.trusted_commit
        setup_commit = trusted_commit if trusted_commit and self.settings.get("project.setup") else commit
        with self.hosts.create_or_use(number) as on:
            try:
                view = self._create_agent(name, on, setup_commit, source)
            except NameTaken:  # by a leftover: nobody else creates clean rooms for this run
                self.fleet.discard_clean_rooms([name])
                view = self._create_agent(name, on, setup_commit, source)
        try:
            room = CleanRoom(self.fleet, view.name, view.work_dir, setup_commit, self.repo, self._sandbox_builder)
            room.keeps_bytecode = commit == trusted_commit
            if self._root:
                room.lfs_store = lfs_files.find_store(find_repository(self._root))
            if setup_commit != commit:
                room.switch_commit(commit, source or self.repo)
        except BaseException:
            self.fleet.discard_clean_rooms([name])
            raise
        room.renew = lambda: room.replace_by(self._create_room(number, commit, source))
        if self._sandbox_builder is None:
            room.isolation = f"none: {self._options.no_sandbox_reason}"
        return room

    @property
    def settings(self) -> Settings:
        """Return the settings of the user's project, never those of a commit under test."""
        return self.fleet.context.load_project_settings(self._root)

    @property
    def _root(self) -> str | None:
        """The directory of the user's project."""
        return self._options.settings_root or find_project_root(self.repo)

    @property
    def trusts_commits(self) -> bool:
        """True when set-up runs with the files of the commit under test."""
        return self._options.trusted_commit is None

    def _create_agent(self, name: str, on: str, commit: str, source: str | None) -> AgentView:
        spec = AgentSpec(
            address=name + on,
            kind="command",
            command=["true"],
            source=source or self.repo,
            settings_root=self._options.settings_root,
            runs_filters=False,
            branch=f"{commit}:mngr/{name}",
            transfer="mirror",
            dirty="ignore",
            env=self._options.env or {},
            labels={**CLEAN_ROOM_LABEL, "run": self.run},
        )
        return self.fleet.create(spec)

    def remove_leftovers(self, *called: str) -> list[str]:
        """Discard clean rooms that a killed process left, and their hosts, and return the names.

        `called` are the name prefixes of the rooms, by default the pool's own prefix.
        """
        prefixes = tuple(f"tmr-{self.run}-{name}-" for name in called or (self._name_prefix,))
        leftovers = [
            agent
            for agent in self.fleet.list().agents
            if agent.labels.get("role") == CLEAN_ROOM_LABEL["role"]
            and agent.labels.get("run") == self.run
            and agent.name.startswith(prefixes)
        ]
        removed = [
            outcome.name
            for outcome in self.fleet.discard_clean_rooms([agent.name for agent in leftovers])
            if outcome.ok
        ]
        self.hosts.remove_leftovers(prefixes)
        return removed

    @property
    def creates_hosts(self) -> bool:
        """True when each clean room gets a host that a provider creates, so that a lost host can be replaced."""
        return bool(self.hosts.provider)

    def release_idle(self, seconds: float = 0.0) -> None:
        """Discard the clean rooms that nobody has used for so long, and destroy the hosts without a room."""
        idle_rooms, numbers = self._leases.retire_idle(seconds)
        if idle_rooms:
            self.fleet.discard_clean_rooms([room.name for room in idle_rooms])
        self.hosts.destroy(numbers)

    def close(self) -> None:
        """Discard the idle clean rooms, and destroy the hosts that were created for clean rooms."""
        self.hosts.stop_creating()
        self.release_idle()
        self.hosts.release()
