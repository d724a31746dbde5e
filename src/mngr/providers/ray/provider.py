"""Actors on an existing Ray cluster as hosts. Each has a directory on its node and its own pid namespace."""

from __future__ import annotations

import os

from mngr.base import shell
from mngr.base.errors import HostGone, MngrError, UsageError
from mngr.host import registry
from mngr.providers.bridge.connection import Bridge, BridgeWire, EngineModule, StoppedWire
from mngr.providers.shared.host_options import get_author, parse_number
from mngr.providers.shared.on_demand import EngineDefaults, FoundMachine, OnDemandProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from typing import Any

    from mngr.base.paths import Home
    from mngr.host.remote_host import Transport
    from mngr.providers.shared.on_demand import Engine, Facts, Note

ERROR_HINTS = {
    "unreachable": "is it up? see [providers.ray] address, and: ray status",
    "missing": "install it there, in the cluster's version: pip install ray; or choose another: [providers.ray] python",
    "busy": "wait until hosts are stopped or destroyed, or ask for less: -b cpus=0",
}
_ENGINE = EngineModule(name="mngr.providers.ray.bridge", variables=("RAY_",), hints=ERROR_HINTS)
PLACEMENTS = ("spread", "pack")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# The mark at the end proves that the whole archive was transferred.
_PACK_SCRIPT = 'cd "$HOME" && tar -cf - --exclude=./.tmp . && printf %s {mark} >&2'
_UNPACK_SCRIPT = 'cd "$HOME" && tar -xpf - && printf %s {mark} >&2'


class RayProvider(OnDemandProvider):
    """Provides actors on one cluster as hosts."""

    project_options = ("cpus", "gpus", "memory", "placement")

    def make_engine(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        return RayEngine(name, home, options, note)

    def list_backups(self, host: str) -> dict[str, dict[str, Any]]:
        """Return the backup of each agent of a host, by agent id. See agents/lifecycle/host_recovery.py."""
        engine: Any = self._engine
        backups: dict[str, dict[str, Any]] = engine.list_backups(self._get_facts(host)["engine"])
        return backups

    def fetch_backup(self, host: str, agent: str, directory: str) -> None:
        """Write an agent's backup as files into a directory."""
        engine: Any = self._engine
        engine.fetch_backup(self._get_facts(host)["engine"], agent, directory)


class RayEngine(EngineDefaults):
    """The engine for Ray. The code that uses Ray's library is in mngr.providers.ray.bridge."""

    options: tuple[str, ...] = ("cpus", "gpus", "memory", "placement", "resources.")
    settings: tuple[str, ...] = ("address", "python", "directory")
    can_stop = True
    can_snapshot = False

    def __init__(self, provider: str, home: Home, options: dict[str, Any], note: Note) -> None:
        self._provider = provider
        self._home = home
        self._note = note
        self._key = registry.compute_owner_key(home)
        self._directory = str(options.get("directory") or f"/var/tmp/mngr-ray-{os.getuid()}")
        self._bridge = Bridge(
            provider, home, _ENGINE, {"address": options.get("address")}, python=options.get("python")
        )

    def plan_machine(self, name: str, options: Facts) -> Facts:
        random_id = os.urandom(4).hex()
        about = {
            "tag": f"{self._key}-{random_id}", "actor": f"host:{self._key}:{random_id}:{name}", "author": get_author(),
            "home": f"{self._directory}/{name}-{random_id}", "keeper": f"keeper:{self._key}",
            "kept": f"{self._directory}/.kept/{self._key}",
        }  # fmt: skip
        return {"tag": about["tag"], "about": about, "wish": _parse_resources(options), "whose": self._key}

    def create(self, name: str, facts: Facts) -> Facts:
        return {**facts, **self._create_actor(name, facts, None)}

    def find_existing(self, name: str) -> Facts | None:
        answer = self._bridge.call("find_existing", key=self._key, name=name)
        if not answer:
            return None
        facts = {**answer["made"], "whose": answer["actor"].split(":")[1]}
        if facts["whose"] != self._key:
            return {**facts, "about": {"actor": answer["actor"]}}
        return {**facts, "tag": answer["about"]["tag"], "about": answer["about"], "wish": answer["wish"]}

    def open_wire(self, name: str, facts: Facts) -> Transport:
        if facts.get("files"):
            return StoppedWire(self._provider, name)
        words = {"actor": facts["about"]["actor"], "node": facts.get("node"), "address": facts.get("address")}
        return BridgeWire(self._bridge, name, words)

    def start(self, name: str, facts: Facts) -> Facts:
        facts = _drop_stale_files(facts)
        archive = facts.get("files") or self._find_interrupted_archive(name, facts)
        if archive is None:
            facts = {**facts, "node": self._locate(name, facts)["node"]}
            is_guest = "wish" not in facts  # Only its owner can start it.
            return facts if is_guest else {**facts, **self._create_actor(name, facts, facts.get("node"))}
        facts = {key: value for key, value in facts.items() if key != "files"}
        facts.update(self._create_actor(name, facts, None))
        with open(archive, "rb") as file:
            self._stream_files(name, facts, _UNPACK_SCRIPT, stdin=file)
        os.unlink(archive)
        return facts

    def stop(self, name: str, facts: Facts) -> Facts:
        archive, facts = self._get_archive_path(name), _drop_stale_files(facts)
        if facts.get("files"):
            return facts
        if self._find_interrupted_archive(name, facts) is None:
            with open(f"{archive}.new", "wb") as file:
                self._stream_files(name, facts, _PACK_SCRIPT, stdout=file)
                os.fsync(file.fileno())
            os.replace(f"{archive}.new", archive)
        try:
            self._bridge.call("remove", about=facts["about"], node=facts.get("node"), host=name)
        except MngrError:
            try:
                self._find_interrupted_archive(name, facts)  # This deletes the archive if the host still runs.
            except MngrError:
                pass  # The next start or stop checks it again.
            raise
        return {**facts, "files": archive}

    def remove(self, name: str, facts: Facts) -> None:
        self._bridge.call("remove", about=facts["about"], node=facts.get("node"), host=name)
        archive = self._get_archive_path(name)
        for path in (archive, f"{archive}.new"):
            if os.path.exists(path):
                os.unlink(path)

    def list_machines(self) -> builtins.list[FoundMachine]:
        keeper = f"keeper:{self._key}"
        answer = self._bridge.call("list", key=self._key, keeper=keeper)
        has_hosts = bool(
            registry.list_hosts(self._home, self._provider)
        )  # The backup actor may hold backups of these hosts.
        return [
            FoundMachine(resource_kind=row["what"], name=row["name"], tag=row["tag"], removal_command=row["removal"])
            for row in answer["found"]
            if row["name"] != keeper or not has_hosts
        ]

    def list_backups(self, facts: Facts) -> dict[str, dict[str, Any]]:
        """Return the backups of a host's agents, by agent id, from the backup actor."""
        about = facts["about"]
        answer = self._bridge.call("list_backups", keeper=about["keeper"], tag=about["tag"])
        return {str(backup["id"]): backup for backup in answer["agents"]}

    def fetch_backup(self, facts: Facts, agent: str, directory: str) -> None:
        """Write an agent's backup from the backup actor into a directory."""
        about = facts["about"]
        self._bridge.call("fetch_backup", keeper=about["keeper"], tag=about["tag"], agent=agent, place=directory)

    def _get_archive_path(self, name: str) -> str:
        """Return the path of the local archive with a stopped host's files."""
        return os.path.join(self._home.hosts, self._provider, f"{name}.files")

    def _find_interrupted_archive(self, name: str, facts: Facts) -> str | None:
        """Return the archive of an interrupted stop, or None. Delete the archive if the host still has its files.

        Raise EngineBusy while the host is being removed.
        """
        archive = self._get_archive_path(name)
        if not os.path.exists(archive):
            return None
        try:
            self._locate(name, facts, closely=True)
        except HostGone:
            return archive
        os.unlink(archive)
        return None

    def _create_actor(self, name: str, facts: Facts, node: str | None) -> Facts:
        """Create the host's actor, on this node if one is given, and return its facts."""
        created = self._bridge.call("create", about=facts["about"], wish=facts["wish"], node=node, host=name)
        if created["space"] != "own" and facts.get("space") != created["space"]:
            self._note(
                f"{created['address']} allows no namespaces: what {name} leaves running is looked for when it ends"
            )
        return created

    def _locate(self, name: str, facts: Facts, *, closely: bool = False) -> Facts:
        """Return the host's node. Raise HostGone if its files do not exist any more, also because its node is dead."""
        words = {"about": facts["about"], "node": facts.get("node"), "closely": closely}
        return self._bridge.call("locate", **words, host=name)

    def _stream_files(self, name: str, facts: Facts, program: str, **streams: Any) -> None:
        """Copy the host's files to or from a local file as a tar stream."""
        mark = f"mngr-{os.urandom(8).hex()}"
        wire = self.open_wire(name, facts)
        argv = wire.build_argv(program.format(mark=mark))
        process = shell.start_process(argv, **{"stdin": shell.DEVNULL, **streams}, stderr=shell.PIPE)
        assert process.stderr is not None
        with process.stderr as stream:
            stderr = stream.read().decode("utf-8", "replace")
        if shell.wait_process(process) == 0 and stderr.endswith(mark):
            return
        raise (
            wire.make_lost_error(stderr.strip()) if not stderr.strip().startswith("tar") else _build_error(name, stderr)
        )


def _drop_stale_files(facts: Facts) -> Facts:
    """Return the facts without an archive that does not exist: an interrupted start has unpacked it."""
    has_files = os.path.exists(facts.get("files") or "")
    return facts if has_files else {key: value for key, value in facts.items() if key != "files"}


def _build_error(name: str, stderr: str) -> MngrError:
    return MngrError(f"the files of {name} could not be moved: {stderr.strip().splitlines()[-1]}", "check space there")


def _parse_resources(options: Facts) -> Facts:
    """Return the options in Ray's terms. Raise UsageError if they are invalid."""
    placement = str(options.get("placement") or "spread")
    if placement not in PLACEMENTS:
        raise UsageError(f"placement cannot be {placement!r}", f"one of: {', '.join(PLACEMENTS)}")
    resources = {
        key.partition(".")[2]: parse_number(key, value)
        for key, value in options.items()
        if key.startswith("resources.")
    }
    sizes = {key: parse_number(key, options.get(key, default)) for key, default in (("cpus", 1), ("gpus", 0))}
    return {
        **sizes,
        "memory": _parse_bytes(options.get("memory")),
        "resources": resources,
        "placement": placement,
    }


def _parse_bytes(value: object) -> int:
    """Return the number of bytes of `4g` or `512m`."""
    text = str(value or 0).lower().removesuffix("b").removesuffix("i")
    unit = _UNITS.get(text[-1:], 1)
    return int(parse_number("memory", text.rstrip("kmgt")) * unit)
