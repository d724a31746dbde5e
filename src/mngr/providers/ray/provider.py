"""Actors on an existing Ray cluster as hosts. Each has a directory on its node and its own pid namespace."""

from __future__ import annotations

import os

from mngr.base import shell, time_format
from mngr.base.errors import HostGone, MngrError
from mngr.base.untrusted_json import find_text, get_object, get_objects, get_text
from mngr.host import host_store
from mngr.providers.bridge.connection import (
    MAX_CALL_SECONDS,
    Bridge,
    BridgeTransport,
    EngineModule,
    StoppedTransport,
)
from mngr.providers.ray.actor_messages import ActorAddress, ActorPlan, OpenedHost, ResourceRequest
from mngr.providers.shared.engine_protocol import EngineDefaults, FoundMachine, Machine
from mngr.providers.shared.host_options import get_author, make_option_error, parse_number
from mngr.providers.shared.on_demand import OnDemandProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins

    from mngr.base.paths import Home
    from mngr.base.shell import Stream
    from mngr.host.remote_host import Transport
    from mngr.providers.shared.engine_protocol import Engine
    from mngr.providers.shared.on_demand import Note

ERROR_HINTS = {
    "unreachable": "see whether the cluster runs: ray status; and check its address: mngr config get providers.ray.address",
    "missing": "install the cluster's version for that Python: pip install ray==VERSION; or choose another Python: mngr config set providers.ray.python PATH",
    "busy": "wait longer: mngr config set providers.ray.wait 1h; or request less with -b; see the nodes: ray status",
}
_ENGINE = EngineModule(name="mngr.providers.ray.ray_calls", variables=("RAY_",), hints=ERROR_HINTS)
PLACEMENTS = ("spread", "pack")
DEFAULT_WAIT = "10m"  # the time limit for a host that waits for a node
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# The mark at the end proves that the whole archive was transferred.
_PACK_SCRIPT = 'cd "$HOME" && tar -cf - --exclude=./.tmp . && printf %s {mark} >&2'
_UNPACK_SCRIPT = 'cd "$HOME" && tar -xpf - && printf %s {mark} >&2'


class RayMachine(Machine):
    """An actor on a node, or the local archive of its files while the host is stopped."""

    plan: ActorPlan
    request: ResourceRequest | None = None  # None for a host of another home, which only that home can start
    space: str | None = None  # own | shared; see OpenedHost
    node: str | None = None
    address: str | None = None
    files: str | None = None  # the archive of a stopped host

    @classmethod
    def read(cls, row: dict[str, object]) -> RayMachine:
        request = get_object(row, "request")
        return RayMachine(
            tag=get_text(row, "tag"),
            whose=find_text(row, "whose"),
            plan=ActorPlan.read(get_object(row, "plan")),
            request=ResourceRequest.read(request) if request else None,
            space=find_text(row, "space"),
            node=find_text(row, "node"),
            address=find_text(row, "address"),
            files=find_text(row, "files"),
        )

    def write(self) -> dict[str, object]:
        request = self.request.to_dict() if self.request is not None else None
        return self.replace(plan=self.plan.to_dict(), request=request).to_dict()


class RayProvider(OnDemandProvider[RayMachine]):
    """Provides actors on one cluster as hosts."""

    project_options = ("cpus", "gpus", "memory", "placement")

    def make_engine(self, name: str, home: Home, options: dict[str, object], note: Note) -> Engine[RayMachine]:
        self._ray_engine = RayEngine(name, home, options, note)
        self.patience = self._ray_engine.wait
        return self._ray_engine

    def list_backups(self, host: str) -> dict[str, dict[str, object]]:
        """Return the backup of each agent of a host, by agent id. See agents/lifecycle/host_recovery.py."""
        return self._ray_engine.list_backups(self._get_machine(host))

    def fetch_backup(self, host: str, agent: str, directory: str) -> None:
        """Write an agent's backup as files into a directory."""
        self._ray_engine.fetch_backup(self._get_machine(host), agent, directory)


class RayEngine(EngineDefaults[RayMachine]):
    """The engine for Ray. The code that uses Ray's library is in mngr.providers.ray.ray_calls."""

    options: tuple[str, ...] = ("cpus", "gpus", "memory", "placement", "resources.")
    settings: tuple[str, ...] = ("address", "python", "directory", "wait")
    can_stop = True
    can_snapshot = False

    def __init__(self, provider: str, home: Home, options: dict[str, object], note: Note) -> None:
        self._provider = provider
        self._home = home
        self._note = note
        self._key = host_store.compute_owner_key(home)
        self.wait = time_format.parse_duration(str(options.get("wait") or DEFAULT_WAIT))
        self._directory = str(options.get("directory") or f"/var/tmp/mngr-ray-{os.getuid()}")
        self._bridge = Bridge(
            provider, home, _ENGINE, {"address": options.get("address")}, python=options.get("python")
        )

    def read_machine(self, row: dict[str, object]) -> RayMachine:
        return RayMachine.read(row)

    def plan_machine(self, name: str, options: dict[str, object]) -> RayMachine:
        random_id = os.urandom(4).hex()
        tag = f"{self._key}-{random_id}"
        plan = ActorPlan(
            tag=tag,
            actor=f"host:{self._key}:{random_id}:{name}",
            author=get_author(),
            home=f"{self._directory}/{name}-{random_id}",
            backup_actor=f"backup:{self._key}",
            backup_dir=f"{self._directory}/.backups/{self._key}",
        )
        return RayMachine(tag=tag, plan=plan, request=_parse_resources(options), whose=self._key)

    def create(self, name: str, machine: RayMachine) -> RayMachine:
        return self._create_actor(name, machine, None)

    def find_existing(self, name: str) -> RayMachine | None:
        answer = self._bridge.call("find_existing", key=self._key, name=name)
        if not answer:
            return None
        opened = OpenedHost.read(get_object(answer, "made"))
        actor = get_text(answer, "actor")
        owner_key = actor.split(":")[1]
        plan, request = ActorPlan(actor=actor), None
        if owner_key == self._key:
            plan = ActorPlan.read(get_object(answer, "plan"))
            request = ResourceRequest.read(get_object(answer, "request"))
        machine = RayMachine(tag=plan.tag, whose=owner_key, plan=plan, request=request)
        return machine.replace(**opened.to_dict())

    def open_transport(self, name: str, machine: RayMachine) -> Transport:
        if machine.files:
            return StoppedTransport(self._provider, name)
        address = ActorAddress(actor=machine.plan.actor, node=machine.node, address=machine.address)
        return BridgeTransport(self._bridge, name, address.to_dict())

    def start_or_reuse_machine(self, name: str, machine: RayMachine) -> RayMachine:
        machine = _drop_stale_files(machine)
        archive = machine.files or self._find_interrupted_archive(name, machine)
        if archive is None:
            machine = machine.replace(node=self._locate(name, machine))
            is_guest = machine.request is None  # Only its owner can start it.
            return machine if is_guest else self._create_actor(name, machine, machine.node)
        machine = self._create_actor(name, machine.replace(files=None), None)
        with open(archive, "rb") as file:
            self._stream_files(name, machine, _UNPACK_SCRIPT, stdin=file)
        os.unlink(archive)
        return machine

    def stop(self, name: str, machine: RayMachine) -> RayMachine:
        archive, machine = self._get_archive_path(name), _drop_stale_files(machine)
        if machine.files:
            return machine
        if self._find_interrupted_archive(name, machine) is None:
            with open(f"{archive}.new", "wb") as file:
                self._stream_files(name, machine, _PACK_SCRIPT, stdout=file)
                os.fsync(file.fileno())
            os.replace(f"{archive}.new", archive)
        try:
            self._bridge.call("remove", plan=machine.plan.to_dict(), node=machine.node, host=name)
        except MngrError:
            try:
                self._find_interrupted_archive(name, machine)  # This deletes the archive if the host still runs.
            except MngrError:
                pass  # The next start or stop checks it again.
            raise
        return machine.replace(files=archive)

    def remove(self, name: str, machine: RayMachine) -> None:
        self._bridge.call("remove", plan=machine.plan.to_dict(), node=machine.node, host=name)
        archive = self._get_archive_path(name)
        for path in (archive, f"{archive}.new"):
            if os.path.exists(path):
                os.unlink(path)

    def list_machines(self) -> builtins.list[FoundMachine]:
        backup_actor = f"backup:{self._key}"
        answer = self._bridge.call("list", key=self._key, backup_actor=backup_actor)
        has_hosts = bool(
            host_store.list_hosts(self._home, self._provider)
        )  # The backup actor may hold backups of these hosts.
        return [
            FoundMachine(
                resource_kind=get_text(row, "what"),
                name=get_text(row, "name"),
                tag=get_text(row, "tag"),
                removal_command=get_text(row, "removal"),
            )
            for row in get_objects(answer, "found")
            if row.get("name") != backup_actor or not has_hosts
        ]

    def list_backups(self, machine: RayMachine) -> dict[str, dict[str, object]]:
        """Return the backups of a host's agents, by agent id, from the backup actor."""
        plan = machine.plan
        answer = self._bridge.call("list_backups", backup_actor=plan.backup_actor, tag=plan.tag)
        return {get_text(row, "id"): row for row in get_objects(answer, "agents")}

    def fetch_backup(self, machine: RayMachine, agent: str, directory: str) -> None:
        """Write an agent's backup from the backup actor into a directory."""
        plan = machine.plan
        self._bridge.call("fetch_backup", backup_actor=plan.backup_actor, tag=plan.tag, agent=agent, place=directory)

    def _get_archive_path(self, name: str) -> str:
        """Return the path of the local archive with a stopped host's files."""
        return os.path.join(self._home.hosts, self._provider, f"{name}.files")

    def _find_interrupted_archive(self, name: str, machine: RayMachine) -> str | None:
        """Return the archive of an interrupted stop, or None. Delete the archive if the host still has its files.

        Raise EngineBusy while the host is being removed.
        """
        archive = self._get_archive_path(name)
        if not os.path.exists(archive):
            return None
        try:
            self._locate(name, machine, closely=True)
        except HostGone:
            return archive
        os.unlink(archive)
        return None

    def _create_actor(self, name: str, machine: RayMachine, node: str | None) -> RayMachine:
        """Create the host's actor, on this node if one is given, and return the machine with it."""
        assert machine.request is not None
        plan, request = machine.plan.to_dict(), machine.request.to_dict()
        answer = self._bridge.call(
            "create",
            note=self._note,
            plan=plan,
            request=request,
            node=node,
            patience=self.wait,
            host=name,
            timeout=self.wait + MAX_CALL_SECONDS,
        )
        opened = OpenedHost.read(answer)
        if opened.space not in ("own", machine.space):
            self._note(
                f"{opened.address} allows no namespaces, so mngr searches for leftover processes of {name} when it ends"
            )
        return machine.replace(**opened.to_dict())

    def _locate(self, name: str, machine: RayMachine, *, closely: bool = False) -> str | None:
        """Return the host's node. Raise HostGone if its files do not exist any more, also because its node is dead."""
        plan = machine.plan.to_dict()
        answer = self._bridge.call("locate", plan=plan, node=machine.node, closely=closely, host=name)
        return find_text(answer, "node")

    def _stream_files(
        self, name: str, machine: RayMachine, program: str, stdin: Stream = shell.DEVNULL, stdout: Stream = None
    ) -> None:
        """Copy the host's files to or from a local file as a tar stream."""
        mark = f"mngr-{os.urandom(8).hex()}"
        transport = self.open_transport(name, machine)
        argv = transport.build_argv(program.format(mark=mark))
        process = shell.start_process(argv, stdin=stdin, stdout=stdout, stderr=shell.PIPE)
        assert process.stderr is not None
        with process.stderr as stream:
            stderr = stream.read().decode("utf-8", "replace")
        if shell.wait_process(process) == 0 and stderr.endswith(mark):
            return
        raise (
            transport.make_lost_error(stderr.strip())
            if not stderr.strip().startswith("tar")
            else _build_error(name, stderr)
        )


def _drop_stale_files(machine: RayMachine) -> RayMachine:
    """Return the machine without an archive that does not exist: an interrupted start has unpacked it."""
    return machine if os.path.exists(machine.files or "") else machine.replace(files=None)


def _build_error(name: str, stderr: str) -> MngrError:
    return MngrError(
        f"the files of {name} could not be moved: {stderr.strip().splitlines()[-1]}",
        "check the free space on the nodes: df -h",
    )


def _parse_resources(options: dict[str, object]) -> ResourceRequest:
    """Return the options in Ray's terms. Raise UsageError if they are invalid."""
    placement = str(options.get("placement") or "spread")
    if placement not in PLACEMENTS:
        expected = f"one of {', '.join(PLACEMENTS)}"
        raise make_option_error("ray", "placement", placement, expected, "spread")
    resources = {
        key.partition(".")[2]: parse_number("ray", key, value)
        for key, value in options.items()
        if key.startswith("resources.")
    }
    return ResourceRequest(
        cpus=parse_number("ray", "cpus", options.get("cpus", 1)),
        gpus=parse_number("ray", "gpus", options.get("gpus", 0)),
        memory=_parse_bytes(options.get("memory")),
        resources=resources,
        placement=placement,
    )


def _parse_bytes(value: object) -> int:
    """Return the number of bytes of `4g` or `512m`."""
    text = str(value or 0).lower().removesuffix("b").removesuffix("i")
    unit = _UNITS.get(text[-1:], 1)
    return int(parse_number("ray", "memory", text.rstrip("kmgt"), "a size such as 512m or 4g", "4g") * unit)
