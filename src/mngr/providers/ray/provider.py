"""Ray: a host is an actor on a cluster that is there already, with a directory on its node and a pid namespace of its own."""

from __future__ import annotations

import os

from mngr.base import shell
from mngr.base.errors import HostGone, MngrError, UsageError
from mngr.host import registry
from mngr.providers.bridge.connection import Bridge, BridgeWire, StoppedWire
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
PLACEMENTS = ("spread", "pack")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# All or nothing, whatever becomes of the connection meanwhile.
_PACK_SCRIPT = 'cd "$HOME" && tar -cf - --exclude=./.tmp . && printf %s {mark} >&2'
_UNPACK_SCRIPT = 'cd "$HOME" && tar -xpf - && printf %s {mark} >&2'


class RayProvider(OnDemandProvider):
    """Hosts on one cluster."""

    project_options = ("cpus", "gpus", "memory", "placement")

    def make_engine(self, name: str, home: Home, options: dict[str, Any], note: Note) -> Engine:
        return RayEngine(name, home, options, note)

    def list_backups(self, host: str) -> dict[str, dict[str, Any]]:
        """What outlives a host: of each of its agents, by its id, what is known of it elsewhere. See ops/rescue.py."""
        engine: Any = self._engine
        found: dict[str, dict[str, Any]] = engine.list_backups(self._get_facts(host)["engine"])
        return found

    def fetch_backup(self, host: str, agent: str, place: str) -> None:
        """What is kept of an agent, as files in a directory."""
        engine: Any = self._engine
        engine.fetch_backup(self._get_facts(host)["engine"], agent, place)


class RayEngine(EngineDefaults):
    """The engine as the others are; what there is to know of Ray is in mngr.providers.ray.bridge, in the Python that has it."""

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
            provider, home, "mngr.providers.ray.bridge", {"address": options.get("address")}, python=options.get("python"),
            variables=("RAY_",), hints=ERROR_HINTS,
        )  # fmt: skip

    def plan_machine(self, name: str, wish: Facts) -> Facts:
        number = os.urandom(4).hex()
        about = {
            "tag": f"{self._key}-{number}", "actor": f"host:{self._key}:{number}:{name}", "author": get_author(),
            "home": f"{self._directory}/{name}-{number}", "keeper": f"keeper:{self._key}",
            "kept": f"{self._directory}/.kept/{self._key}",
        }  # fmt: skip
        return {"tag": about["tag"], "about": about, "wish": _parse_resources(wish), "whose": self._key}

    def create(self, name: str, facts: Facts) -> Facts:
        return {**facts, **self._create_actor(name, facts, None)}

    def find_existing(self, name: str) -> Facts | None:
        found = self._bridge.call("join", key=self._key, name=name)
        if not found:
            return None
        facts = {**found["made"], "whose": found["actor"].split(":")[1]}
        if facts["whose"] != self._key:
            return {**facts, "about": {"actor": found["actor"]}}
        return {**facts, "tag": found["about"]["tag"], "about": found["about"], "wish": found["wish"]}

    def open_wire(self, name: str, facts: Facts) -> Transport:
        if facts.get("files"):
            return StoppedWire(self._provider, name)
        words = {"actor": facts["about"]["actor"], "node": facts.get("node"), "address": facts.get("address")}
        return BridgeWire(self._bridge, name, words)

    def start(self, name: str, facts: Facts) -> Facts:
        facts = _drop_stale_files(facts)
        kept = facts.get("files") or self._find_interrupted_archive(name, facts)
        if kept is None:
            facts = {**facts, "node": self._locate(name, facts)["node"]}
            is_guest = "wish" not in facts  # then it is its owner's to start
            return facts if is_guest else {**facts, **self._create_actor(name, facts, facts.get("node"))}
        facts = {key: value for key, value in facts.items() if key != "files"}
        facts.update(self._create_actor(name, facts, None))
        with open(kept, "rb") as file:
            self._stream_files(name, facts, _UNPACK_SCRIPT, stdin=file)
        os.unlink(kept)
        return facts

    def stop(self, name: str, facts: Facts) -> Facts:
        kept, facts = self._get_archive_path(name), _drop_stale_files(facts)
        if facts.get("files"):
            return facts
        if self._find_interrupted_archive(name, facts) is None:
            with open(f"{kept}.new", "wb") as file:
                self._stream_files(name, facts, _PACK_SCRIPT, stdout=file)
                os.fsync(file.fileno())
            os.replace(f"{kept}.new", kept)
        try:
            self._bridge.call("remove", about=facts["about"], node=facts.get("node"), host=name)
        except MngrError:
            try:
                self._find_interrupted_archive(name, facts)  # which is old when the host works on
            except MngrError:
                pass  # it is looked at when the host is started or stopped
            raise
        return {**facts, "files": kept}

    def remove(self, name: str, facts: Facts) -> None:
        self._bridge.call("remove", about=facts["about"], node=facts.get("node"), host=name)
        kept = self._get_archive_path(name)
        for path in (kept, f"{kept}.new"):
            if os.path.exists(path):
                os.unlink(path)

    def list_machines(self) -> builtins.list[FoundMachine]:
        keeper = f"keeper:{self._key}"
        answer = self._bridge.call("find", key=self._key, keeper=keeper)
        has_hosts = bool(registry.list_hosts(self._home, self._provider))  # then it may have what is left of one
        return [
            FoundMachine(resource_kind=one["what"], name=one["name"], tag=one["tag"], removal_command=one["removal"])
            for one in answer["found"]
            if one["name"] != keeper or not has_hosts
        ]

    def list_backups(self, facts: Facts) -> dict[str, dict[str, Any]]:
        """What the keeper knows of the agents of a host."""
        about = facts["about"]
        answer = self._bridge.call("kept", keeper=about["keeper"], tag=about["tag"])
        return {str(one["id"]): one for one in answer["agents"]}

    def fetch_backup(self, facts: Facts, agent: str, place: str) -> None:
        """What the keeper has of an agent, into a directory."""
        about = facts["about"]
        self._bridge.call("fetch", keeper=about["keeper"], tag=about["tag"], agent=agent, place=place)

    def _get_archive_path(self, name: str) -> str:
        """Where the files of a host are that is stopped."""
        return os.path.join(self._home.hosts, self._provider, f"{name}.files")

    def _find_interrupted_archive(self, name: str, facts: Facts) -> str | None:
        """The files that a stop which was cut off has brought here; they are old, and go, while the host has its own.

        Busy while it is just being taken away.
        """
        kept = self._get_archive_path(name)
        if not os.path.exists(kept):
            return None
        try:
            self._locate(name, facts, closely=True)
        except HostGone:
            return kept
        os.unlink(kept)
        return None

    def _create_actor(self, name: str, facts: Facts, node: str | None) -> Facts:
        made = self._bridge.call("make", about=facts["about"], wish=facts["wish"], node=node, host=name)
        if made["space"] != "own" and facts.get("space") != made["space"]:
            self._note(f"{made['address']} allows no namespaces: what {name} leaves running is looked for when it ends")
        return made

    def _locate(self, name: str, facts: Facts, *, closely: bool = False) -> Facts:
        """Where it is; HostGone when its files are not there any more, be it that its node is dead."""
        words = {"about": facts["about"], "node": facts.get("node"), "closely": closely}
        return self._bridge.call("look", **words, host=name)

    def _stream_files(self, name: str, facts: Facts, program: str, **streams: Any) -> None:
        """Its files from or to a file of ours, as a stream."""
        mark = f"mngr-{os.urandom(8).hex()}"
        wire = self.open_wire(name, facts)
        argv = wire.build_argv(program.format(mark=mark))
        process = shell.start_process(argv, **{"stdin": shell.DEVNULL, **streams}, stderr=shell.PIPE)
        assert process.stderr is not None
        with process.stderr as stream:
            said = stream.read().decode("utf-8", "replace")
        if shell.wait_process(process) == 0 and said.endswith(mark):
            return
        raise (wire.make_lost_error(said.strip()) if not said.strip().startswith("tar") else _build_error(name, said))


def _drop_stale_files(facts: Facts) -> Facts:
    """The facts, without files that are not there: a start that was cut off had already unpacked them."""
    has_files = os.path.exists(facts.get("files") or "")
    return facts if has_files else {key: value for key, value in facts.items() if key != "files"}


def _build_error(name: str, said: str) -> MngrError:
    return MngrError(f"the files of {name} could not be moved: {said.strip().splitlines()[-1]}", "check space there")


def _parse_resources(wish: Facts) -> Facts:
    """What a host shall have, in Ray's terms; UsageError when it makes no sense."""
    placement = str(wish.get("placement") or "spread")
    if placement not in PLACEMENTS:
        raise UsageError(f"placement cannot be {placement!r}", f"one of: {', '.join(PLACEMENTS)}")
    resources = {
        key.partition(".")[2]: parse_number(key, value) for key, value in wish.items() if key.startswith("resources.")
    }
    sizes = {key: parse_number(key, wish.get(key, default)) for key, default in (("cpus", 1), ("gpus", 0))}
    return {
        **sizes,
        "memory": _parse_bytes(wish.get("memory")),
        "resources": resources,
        "placement": placement,
    }


def _parse_bytes(value: object) -> int:
    """How much memory `4g` or `512m` is."""
    text = str(value or 0).lower().removesuffix("b").removesuffix("i")
    unit = _UNITS.get(text[-1:], 1)
    return int(parse_number("memory", text.rstrip("kmgt")) * unit)
