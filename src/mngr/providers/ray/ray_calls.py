"""Uses Ray's library. A host is a detached actor with a name. Ray sends its class, in host_actor, by value.

`address` is `auto`, HOST:PORT on one of the cluster's machines, or ray://HOST:PORT from elsewhere.
"""

from __future__ import annotations

import asyncio
import os

import ray  # type: ignore[import-not-found, unused-ignore]
from ray import cloudpickle
from ray.exceptions import (  # type: ignore[import-not-found, unused-ignore]
    ActorDiedError,
    ActorUnavailableError,
    RayActorError,
    RayError,
)

from mngr.providers.bridge.engine_interface import EngineError
from mngr.providers.ray import autoscaler_config, host_actor, host_init_process, work_backup
from mngr.providers.ray import cluster_capacity as capacity
from mngr.providers.ray.actor_messages import ActorAddress, ActorPlan, ResourceRequest
from mngr.providers.ray.node_tasks import START_TIMEOUT, make_node_task, pin_to_node, wait_with_timeout
from mngr.providers.ray.reachability import check_reachable, get_error_line, resolve_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from mngr.providers.bridge.engine_interface import Note, Verb
    from mngr.providers.bridge.messages import TerminalSpec
    from mngr.providers.ray.host_actor import ActorOutput

NAMESPACE = "mngr"
ANSWER_TIMEOUT = 10.0  # seconds; an actor must answer within this time
STREAM_QUEUE_SIZE = 4  # chunks of a stream that wait for their reader

for module in (host_actor, work_backup, autoscaler_config):
    cloudpickle.register_pickle_by_value(module)


class RayBridgeEngine:
    """The engine for one cluster."""

    def __init__(self, options: dict[str, object]) -> None:
        self._address = str(options.get("address") or "auto")
        self._actors: dict[str, Any] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}  # the hosts that are being removed
        self.verbs: Mapping[str, Verb] = {
            "create": self.do_create,
            "remove": self.do_remove,
            "locate": self.do_locate,
            "list": self.do_list,
            "find_existing": self.do_find_existing,
            "list_backups": self.do_list_backups,
            "fetch_backup": self.do_fetch_backup,
        }

    async def close(self) -> None:
        if ray.is_initialized():
            ray.shutdown()

    async def exec(self, host: dict[str, object], program: str, terminal: TerminalSpec | None) -> RayCommand:
        self._connect()
        address = ActorAddress.read(host)
        await self._wait_until_removed(address.actor)
        command = RayCommand(self, address)
        try:
            await command.start(program, terminal)
        except EngineError as error:
            if error.kind not in ("gone", "stopped") or self._find_actor(address.actor) is None:
                raise
            command = RayCommand(self, address)  # The cached actor was an older one of the same name.
            await command.start(program, terminal)
        return command

    async def do_create(
        self, note: Note, about: dict[str, object], wish: dict[str, object], node: str | None, patience: float
    ) -> dict[str, object]:
        """Create the host's actor, or use the existing one, and return its facts.

        The actor runs on `node`, where its files are, or wherever there is capacity. It may wait `patience` seconds in
        Ray's queue, where an autoscaler sees it.
        """
        self._connect()
        plan, request = ActorPlan.read(about), ResourceRequest.read(wish)
        await self._wait_until_removed(plan.actor)
        self._actors.pop(plan.actor, None)  # The cached actor may be dead.
        actor = self._find_actor(plan.actor)
        if actor is None:
            await capacity.check_possible(request)
            if lack := capacity.describe_lack(request):
                note(f"{lack}; the host waits until Ray has a place for it")
            else:
                patience = max(patience, START_TIMEOUT)
            options = _build_actor_options(plan.actor, request, node)
            actor_facts = {**about, "init_program": _read_source(host_init_process), "wish": wish}
            actor = ray.remote(host_actor.HostActor).options(**options).remote(actor_facts)
        try:
            return dict(await wait_with_timeout(patience, actor.open_host.remote()))
        except TimeoutError:
            ray.kill(actor)
            raise EngineError("busy", f"Ray found no free node for the host within {patience:g} s") from None
        except asyncio.CancelledError:
            if capacity.is_pending(actor):  # The client is gone, so nobody waits for the host.
                ray.kill(actor)
            raise
        except RayError as error:
            raise EngineError("other", f"the host could not be started: {get_error_line(error)}") from None

    async def do_remove(self, note: Note, about: dict[str, object], node: str | None) -> dict[str, object]:
        """Remove a host with its directory and backups, if they exist.

        The removal continues when the client goes away: a half-deleted directory must not be taken for a complete one.
        """
        self._connect()
        plan = ActorPlan.read(about)
        actor = plan.actor
        await self._wait_until_removed(actor)
        task = self._leaving[actor] = asyncio.ensure_future(self._remove_host(plan, node))
        task.add_done_callback(lambda _: self._leaving.pop(actor, None))
        await asyncio.shield(task)
        return {}

    async def _remove_host(self, plan: ActorPlan, node: str | None) -> None:
        actor, is_deleted = self._find_actor(plan.actor), False
        if actor is not None:
            try:
                if not capacity.is_pending(actor):
                    await wait_with_timeout(60.0, actor.remove_host.remote())
                    is_deleted = True
            except (TimeoutError, RayError):
                pass
            ray.kill(actor)
            self._actors.pop(plan.actor, None)
        if not is_deleted and node is not None and plan.home is not None and self._is_node_up(node):
            await self._delete_directory(node, plan.home)
        await self._delete_backups(plan)

    async def _wait_until_removed(self, actor: str) -> None:
        """Wait until a removal of the actor has ended."""
        if actor in self._leaving:
            await asyncio.wait([self._leaving[actor]])

    async def do_locate(
        self, note: Note, about: dict[str, object], node: str | None, closely: bool
    ) -> dict[str, object]:
        """Return the node of a host that runs or has its files there. Raise EngineError if the files are gone.

        With `closely`, a running actor is asked, because it may be removing its files.
        """
        self._connect()
        plan = ActorPlan.read(about)
        actor = plan.actor
        await self._wait_until_removed(actor)
        self._actors.pop(actor, None)
        is_running = self._find_actor(actor) is not None
        if is_running and closely:
            is_running = await self._is_staying(actor)
        if not is_running and not (node and self._is_node_up(node)):
            raise self.explain_loss(ActorAddress(actor=actor, node=node))
        if not is_running and plan.home is not None and not await self._has_directory(str(node), plan.home):
            raise EngineError("gone", "its files are no longer on its node")
        return {"node": node}

    async def _is_staying(self, actor: str) -> bool:
        """Return False when the actor ended before it could answer. Raise EngineError while it is being removed."""
        answer = self._actors[actor].is_being_removed.remote()
        try:
            is_being_removed = await self._ask_actor(answer, "its actor")
        except EngineError as error:
            if not isinstance(error.__cause__, ActorDiedError):
                raise
            self._actors.pop(actor, None)
            return False
        if is_being_removed:
            raise EngineError("busy", "the host is being removed")
        return True

    async def do_list(self, note: Note, key: str, keeper: str) -> dict[str, object]:
        """Return the actors of a home. Include the backup actor only if there is no host."""
        self._connect()
        names = _list_actor_names()
        host_names = [name for name in names if name.startswith(f"host:{key}:")]
        rows = [{"what": "actor", "name": name, "tag": "-".join(name.split(":")[1:3])} for name in host_names]
        if keeper in names and not host_names:
            rows.append({"what": "actor", "name": keeper, "tag": keeper})
        return {"found": [{**row, "removal": _build_kill_command(self._address, row["name"])} for row in rows]}

    async def do_find_existing(self, note: Note, key: str, name: str) -> dict[str, object]:
        """Return an existing actor of this host name with its facts. This home's actors come first."""
        self._connect()
        for actor in sorted(_list_actor_names(), key=lambda actor_name: not actor_name.startswith(f"host:{key}:")):
            if actor.startswith("host:") and actor.endswith(f":{name}"):
                handle = ray.get_actor(actor, namespace=NAMESPACE)
                opened = await self._ask_actor(handle.open_host.remote(), name)
                return {"actor": actor, "made": opened, **await self._ask_actor(handle.get_plan.remote(), name)}
        return {}

    async def do_list_backups(self, note: Note, keeper: str, tag: str) -> dict[str, object]:
        """Return the backups of a host's agents, or none when the backup actor is lost."""
        self._connect()
        self._actors.pop(keeper, None)  # The cached actor may be dead.
        backup = self._find_actor(keeper)
        if backup is None:
            return {"agents": []}
        return {"agents": await self._ask_actor(backup.list_agents.remote(tag), "the keeper")}

    async def do_fetch_backup(self, note: Note, keeper: str, tag: str, agent: str, place: str) -> dict[str, object]:
        """Write an agent's backup as files into a local directory."""
        self._connect()
        backup = self._find_actor(keeper)
        for name in (work_backup.COMMITS, work_backup.FILES) if backup is not None else ():
            with open(os.path.join(place, name), "wb") as file:
                while data := await self._ask_actor(
                    backup.read_chunk.remote(tag, agent, name, file.tell()), "the keeper"
                ):
                    file.write(data)
        return {}

    async def _ask_actor(self, ref: Any, actor_description: str) -> Any:
        """Return an actor's answer. Raise EngineError if it does not answer in time."""
        try:
            return await wait_with_timeout(ANSWER_TIMEOUT, ref)
        except TimeoutError:
            raise EngineError("unreachable", f"{actor_description} did not answer within {ANSWER_TIMEOUT:g}s") from None
        except RayError as error:
            raise EngineError("unreachable", f"{actor_description} does not answer: {get_error_line(error)}") from error

    async def _delete_backups(self, plan: ActorPlan) -> None:
        """Delete the backups of a host, and the backup actor after the last host."""
        backup = self._find_actor(plan.keeper)
        if backup is None:
            return
        try:
            await wait_with_timeout(ANSWER_TIMEOUT, backup.forget_host.remote(plan.tag))
            prefix = f"host:{plan.keeper.partition(':')[2]}:"
            if not any(name.startswith(prefix) for name in _list_actor_names()):
                await wait_with_timeout(ANSWER_TIMEOUT, backup.forget_all.remote())
                ray.kill(backup)
                self._actors.pop(plan.keeper, None)
        except (TimeoutError, RayError):
            pass

    async def _delete_directory(self, node: str, path: str) -> None:
        """Delete the directory of an actor that ended by itself."""
        try:
            await wait_with_timeout(START_TIMEOUT, make_node_task(node, host_actor.remove_directory).remote(path))
        except (TimeoutError, RayError):
            pass

    async def _has_directory(self, node: str, path: str) -> bool:
        """True when the directory exists on the node."""
        try:
            return bool(
                await wait_with_timeout(START_TIMEOUT, make_node_task(node, host_actor.has_directory).remote(path))
            )
        except (TimeoutError, RayError):
            raise EngineError("unreachable", "its node does not answer") from None

    # The cluster

    def _connect(self) -> None:
        if ray.is_initialized():
            return
        check_reachable(resolve_address(self._address))
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(address=self._address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            raise EngineError(
                "unreachable", f"Ray at {self._address} cannot be reached: {get_error_line(error)}"
            ) from None

    def get_actor(self, host: ActorAddress) -> Any:
        """Return the actor of a host. Raise EngineError that says why there is none."""
        actor = self._find_actor(host.actor)
        if actor is None:
            raise self.explain_loss(host)
        return actor

    def explain_loss(self, host: ActorAddress) -> EngineError:
        """Return the error for a dead actor: `stopped` while its node has its files, `gone` with its node."""
        self._actors.pop(host.actor, None)
        if host.node and self._is_node_up(host.node):
            return EngineError("stopped", "its actor ended; its files are on its node")
        return EngineError("gone", f"its node {host.address or ''} is dead".replace("  ", " "))

    def _find_actor(self, name: str) -> Any:
        if name not in self._actors:
            try:
                self._actors[name] = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                return None
        return self._actors[name]

    def _is_node_up(self, node: str) -> bool:
        return any(row["NodeID"] == node and row["Alive"] for row in ray.nodes())


class RayCommand:
    """A command on a host. Only one `poll_output` is in progress, for the streams whose reader keeps up."""

    def __init__(self, engine: RayBridgeEngine, host: ActorAddress) -> None:
        self._engine = engine
        self._host = host
        self._key = os.urandom(8).hex()
        self._parts: dict[int, asyncio.Queue[bytes | EngineError | None]] = {
            stream: asyncio.Queue() for stream in (1, 2)
        }
        self._taken = asyncio.Event()
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._asking: asyncio.Task[None] | None = None

    async def start(self, program: str, terminal: TerminalSpec | None) -> None:
        """Start the command. Raise EngineError if that fails."""
        if terminal:
            self._parts[2].put_nowait(None)
        size = (terminal.rows, terminal.columns, terminal.term) if terminal else None
        answer = await self._call_actor("start_command", ANSWER_TIMEOUT + 5, self._key, program, size)
        self._asking = asyncio.ensure_future(self._poll_until_end(answer))

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), host_actor.CHUNK_SIZE):
            await self._send_input(data[start : start + host_actor.CHUNK_SIZE], last=False)

    async def end_input(self) -> None:
        await self._send_input(b"", last=True)

    async def read(self, stream: int) -> AsyncIterator[bytes]:
        while (part := await self._parts[stream].get()) is not None:
            if isinstance(part, EngineError):
                raise part
            self._taken.set()
            yield part

    async def wait(self) -> int:
        return await self._code

    async def resize(self, rows: int, columns: int) -> None:
        await self._call_actor("resize", ANSWER_TIMEOUT, self._key, rows, columns)

    async def kill(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        try:
            await self._call_actor("kill", ANSWER_TIMEOUT, self._key)
        except EngineError:
            pass

    async def _send_input(self, data: bytes, *, last: bool) -> None:
        """Send input. The command may take long to read it; `poll_output` notices a lost actor."""
        try:
            await self._engine.get_actor(self._host).write.remote(self._key, data, last=last)
        except RayError:
            pass

    async def _poll_until_end(self, answer: ActorOutput) -> None:
        """Ask for output until the command has ended, and put it into the queues."""
        try:
            while True:
                for stream, data in answer["data"].items():
                    self._parts[stream].put_nowait(data)
                for stream in answer["ended"]:
                    self._parts[stream].put_nowait(None)
                if "code" in answer:
                    self._code.set_result(answer["code"])
                    return
                wanted = [stream for stream, queue in self._parts.items() if queue.qsize() < STREAM_QUEUE_SIZE]
                if not wanted:
                    # The queues are full. Ask again when there is space, or soon, to show that the reader exists.
                    self._taken.clear()
                    await asyncio.wait([asyncio.ensure_future(self._taken.wait())], timeout=host_actor.POLL_TIMEOUT)
                    wanted = [stream for stream, queue in self._parts.items() if queue.qsize() < STREAM_QUEUE_SIZE]
                answer = await self._call_actor(
                    "poll_output", ANSWER_TIMEOUT + host_actor.POLL_TIMEOUT, self._key, wanted
                )
        except EngineError as error:
            for queue in self._parts.values():
                queue.put_nowait(error)
            if not self._code.done():
                self._code.set_exception(error)

    async def _call_actor(self, method: str, seconds: float, *words: Any) -> Any:
        """Call a method of the host's actor and return its answer. Raise EngineError if that fails."""
        actor = self._engine.get_actor(self._host)
        try:
            return await wait_with_timeout(seconds, getattr(actor, method).remote(*words))
        except TimeoutError:
            raise EngineError("unreachable", f"it did not answer within {seconds:g}s") from None
        except ActorUnavailableError:
            where = self._host.address or "its node"
            raise EngineError("unreachable", f"{where} does not answer") from None
        except (ActorDiedError, RayActorError):
            raise self._engine.explain_loss(self._host) from None
        except RayError as error:
            raise EngineError("other", get_error_line(error)) from None


def _build_actor_options(actor: str, request: ResourceRequest, node: str | None) -> dict[str, object]:
    """Return Ray's options for a host's actor."""
    options: dict[str, object] = {
        "name": actor,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": 0,
        "max_concurrency": 1000,
        "num_cpus": request.cpus,
        "num_gpus": request.gpus or None,
        "memory": request.memory or None,
        "resources": request.resources or None,
    }
    options["scheduling_strategy"] = (
        pin_to_node(node) if node else {"spread": "SPREAD", "pack": "DEFAULT"}[request.placement]
    )
    return options


def _build_kill_command(address: str, name: str) -> str:
    """Return a command with which the user can end an actor."""
    code = f"import ray; ray.init({address!r}, namespace={NAMESPACE!r}); ray.kill(ray.get_actor({name!r}))"
    return f'python -c "{code}"'


def _list_actor_names() -> list[str]:
    rows = ray.util.list_named_actors(all_namespaces=True)
    return [str(row["name"]) for row in rows if row["namespace"] == NAMESPACE]


def _read_source(module: Any) -> str:
    with open(module.__file__, encoding="utf-8") as file:
        return file.read()


ENGINE = RayBridgeEngine
