"""Ray: a host is a detached actor with a name, made by the class in host_actor, which the cluster gets by value.

`address` is that of the cluster (`auto`, HOST:PORT on one of its machines, ray://HOST:PORT from elsewhere).
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
from ray.util.scheduling_strategies import (  # type: ignore[import-not-found, unused-ignore]
    NodeAffinitySchedulingStrategy as OnNode,
)

from mngr.providers.bridge.protocol import EngineError
from mngr.providers.ray import host_actor, host_process, work_backup
from mngr.providers.ray.reachability import check_reachable, resolve_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from mngr.providers.bridge.protocol import Note

NAMESPACE = "mngr"
ANSWER_TIMEOUT = 10.0  # seconds in which an actor must say something
START_TIMEOUT = 60.0  # seconds that Ray may take to start an actor where there is room for it
STREAM_QUEUE_SIZE = 4  # portions of a stream that wait for whoever reads it

for module in (host_actor, work_backup):
    cloudpickle.register_pickle_by_value(module)


class RayBridgeEngine:
    """One cluster."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._address = str(options.get("address") or "auto")
        self._actors: dict[str, Any] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}  # that are being taken away

    async def close(self) -> None:
        if ray.is_initialized():
            ray.shutdown()

    async def exec(self, host: dict[str, Any], program: str, terminal: list[Any] | None) -> RayCommand:
        self._connect()
        await self._wait_until_removed(host["actor"])
        command = RayCommand(self, host)
        try:
            await command.start(program, terminal)
        except EngineError as error:
            if error.kind not in ("gone", "stopped") or self._find_actor(host["actor"]) is None:
                raise
            command = RayCommand(self, host)  # that was one of the same name, before
            await command.start(program, terminal)
        return command

    # Verbs

    async def do_make(
        self, note: Note, about: dict[str, Any], wish: dict[str, Any], node: str | None
    ) -> dict[str, Any]:
        """A host that runs; on that node, where its files are, or wherever there is room. The one there is already, if so."""
        self._connect()
        await self._wait_until_removed(about["actor"])
        self._actors.pop(about["actor"], None)  # it may be dead by now
        found = self._find_actor(about["actor"])
        if found is None:
            self._check_capacity(wish)
            given = {**about, "room": _read_source(host_process), "wish": wish}
            found = ray.remote(host_actor.HostActor).options(**_build_actor_options(about, wish, node)).remote(given)
        try:
            return dict(await _wait_with_timeout(START_TIMEOUT, found.open.remote()))
        except TimeoutError:
            ray.kill(found)
            raise EngineError("busy", "Ray found no room for it within a minute") from None
        except RayError as error:
            raise EngineError("other", f"the host could not be started: {_get_error_line(error)}") from None

    async def do_remove(self, note: Note, about: dict[str, Any], node: str | None) -> dict[str, Any]:
        """Take a host away with its directory and what the keeper has; that there is nothing is no trouble.

        What was begun is done, whether somebody waits for it or not: nobody may take half a directory for all of it.
        """
        self._connect()
        actor = str(about["actor"])
        await self._wait_until_removed(actor)
        task = self._leaving[actor] = asyncio.ensure_future(self._remove_host(about, node))
        task.add_done_callback(lambda _: self._leaving.pop(actor, None))
        await asyncio.shield(task)
        return {}

    async def _remove_host(self, about: dict[str, Any], node: str | None) -> None:
        found, is_clear = self._find_actor(about["actor"]), False
        if found is not None:
            try:
                await _wait_with_timeout(60.0, found.leave.remote())
                is_clear = True
            except (TimeoutError, RayError):
                pass
            ray.kill(found)
            self._actors.pop(about["actor"], None)
        if not is_clear and node is not None and self._is_node_up(node):
            await self._delete_directory(node, about["home"])
        await self._forget_host(about)

    async def _wait_until_removed(self, actor: str) -> None:
        """Nobody is taking it away any more."""
        if actor in self._leaving:
            await asyncio.wait([self._leaving[actor]])

    async def do_look(self, note: Note, about: dict[str, Any], node: str | None, closely: bool) -> dict[str, Any]:
        """Where a host is that runs, or its files without it; Refused when they are not there.

        `closely`: one that runs is asked, for it may have lost them already on its way out.
        """
        self._connect()
        actor = str(about["actor"])
        await self._wait_until_removed(actor)
        self._actors.pop(actor, None)
        is_running = self._find_actor(actor) is not None
        if is_running and closely:
            is_running = await self._is_staying(actor)
        if not is_running and not (node and self._is_node_up(node)):
            raise self.explain_loss({"actor": actor, "node": node})
        if not is_running and "home" in about and not await self._has_directory(str(node), about["home"]):
            raise EngineError("gone", "its files are not on its node any more")
        return {"node": node}

    async def _is_staying(self, actor: str) -> bool:
        """Return False when the actor ended before it could answer; Refused while it is being taken away."""
        answer = self._actors[actor].is_leaving.remote()
        try:
            is_leaving = await self._ask_actor(answer, "its actor")
        except EngineError as error:
            if not isinstance(error.__cause__, ActorDiedError):
                raise
            self._actors.pop(actor, None)
            return False
        if is_leaving:
            raise EngineError("busy", "the host is being taken away")
        return True

    async def do_find(self, note: Note, key: str, keeper: str) -> dict[str, Any]:
        """The actors of a home; the keeper, too, when there is no host that it could keep something of."""
        self._connect()
        named = _list_actor_names()
        mine = [name for name in named if name.startswith(f"host:{key}:")]
        found = [{"what": "actor", "name": name, "tag": "-".join(name.split(":")[1:3])} for name in mine]
        if keeper in named and not mine:
            found.append({"what": "actor", "name": keeper, "tag": keeper})
        return {"found": [{**one, "removal": _build_kill_command(self._address, one["name"])} for one in found]}

    async def do_join(self, note: Note, key: str, name: str) -> dict[str, Any]:
        """The actor of that name, our own before others', and what it was made from."""
        self._connect()
        for actor in sorted(_list_actor_names(), key=lambda one: not one.startswith(f"host:{key}:")):
            if actor.startswith("host:") and actor.endswith(f":{name}"):
                found = ray.get_actor(actor, namespace=NAMESPACE)
                made = await self._ask_actor(found.open.remote(), name)
                return {"actor": actor, "made": made, **await self._ask_actor(found.plan.remote(), name)}
        return {}

    async def do_kept(self, note: Note, keeper: str, tag: str) -> dict[str, Any]:
        """What the keeper knows of the agents of a host; nothing when it was lost itself."""
        self._connect()
        self._actors.pop(keeper, None)  # it may be dead by now
        found = self._find_actor(keeper)
        if found is None:
            return {"agents": []}
        return {"agents": await self._ask_actor(found.list.remote(tag), "the keeper")}

    async def do_fetch(self, note: Note, keeper: str, tag: str, agent: str, place: str) -> dict[str, Any]:
        """What the keeper has of an agent, as files in a directory here."""
        self._connect()
        found = self._find_actor(keeper)
        for name in (work_backup.COMMITS, work_backup.FILES) if found is not None else ():
            with open(os.path.join(place, name), "wb") as file:
                while data := await self._ask_actor(found.get.remote(tag, agent, name, file.tell()), "the keeper"):
                    file.write(data)
        return {}

    async def _ask_actor(self, ref: Any, who: str) -> Any:
        try:
            return await _wait_with_timeout(ANSWER_TIMEOUT, ref)
        except TimeoutError:
            raise EngineError("unreachable", f"{who} did not answer within {ANSWER_TIMEOUT:g}s") from None
        except RayError as error:
            raise EngineError("unreachable", f"{who} does not answer: {_get_error_line(error)}") from error

    async def _forget_host(self, about: dict[str, Any]) -> None:
        """What the keeper has of a host; the keeper itself when it was the last one."""
        found = self._find_actor(about["keeper"])
        if found is None:
            return
        try:
            await _wait_with_timeout(ANSWER_TIMEOUT, found.drop.remote(about["tag"]))
            start = f"host:{about['keeper'].partition(':')[2]}:"
            if not any(name.startswith(start) for name in _list_actor_names()):
                await _wait_with_timeout(ANSWER_TIMEOUT, found.leave.remote())
                ray.kill(found)
                self._actors.pop(about["keeper"], None)
        except (TimeoutError, RayError):
            pass

    async def _delete_directory(self, node: str, path: str) -> None:
        """Delete the directory of an actor that ended by itself."""
        try:
            await _wait_with_timeout(START_TIMEOUT, _make_node_task(node, host_actor.remove_directory).remote(path))
        except (TimeoutError, RayError):
            pass

    async def _has_directory(self, node: str, path: str) -> bool:
        """Whether there is a directory on a node."""
        try:
            return bool(
                await _wait_with_timeout(START_TIMEOUT, _make_node_task(node, host_actor.has_directory).remote(path))
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
                "unreachable", f"Ray at {self._address} cannot be reached: {_get_error_line(error)}"
            ) from None

    def get_actor(self, host: dict[str, Any]) -> Any:
        """The actor of a host; Refused says what became of it."""
        found = self._find_actor(host["actor"])
        if found is None:
            raise self.explain_loss(host)
        return found

    def explain_loss(self, host: dict[str, Any]) -> EngineError:
        """What an actor that is dead means: with its node go its files, without it they are still there."""
        self._actors.pop(host["actor"], None)
        if host.get("node") and self._is_node_up(host["node"]):
            return EngineError("stopped", "its actor ended; its files are on its node")
        return EngineError("gone", f"its node {host.get('address') or ''} is dead".replace("  ", " "))

    def _find_actor(self, name: str) -> Any:
        if name not in self._actors:
            try:
                self._actors[name] = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                return None
        return self._actors[name]

    def _is_node_up(self, node: str) -> bool:
        return any(one["NodeID"] == node and one["Alive"] for one in ray.nodes())

    def _check_capacity(self, wish: dict[str, Any]) -> None:
        """Refused when no node is large enough, or when all is taken now."""
        wanted = {"CPU": wish["cpus"], "GPU": wish["gpus"], "memory": wish["memory"], **wish["resources"]}
        wanted = {key: value for key, value in wanted.items() if value}
        alive = [one["Resources"] for one in ray.nodes() if one["Alive"]]
        if not any(all(have.get(key, 0) >= value for key, value in wanted.items()) for have in alive):
            said = ", ".join(f"{key} {value:g}" for key, value in wanted.items())
            raise EngineError("usage", f"no node of the cluster has {said}")
        free = ray.available_resources()
        for key, value in wanted.items():
            if free.get(key, 0) < value:
                raise EngineError("busy", f"all {key} of the cluster is in use")


class RayCommand:
    """A command on a host. One question at a time is under way, for the streams whose last answers were taken."""

    def __init__(self, engine: RayBridgeEngine, host: dict[str, Any]) -> None:
        self._engine = engine
        self._host = host
        self._key = os.urandom(8).hex()
        self._parts: dict[int, asyncio.Queue[bytes | EngineError | None]] = {at: asyncio.Queue() for at in (1, 2)}
        self._taken = asyncio.Event()
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._asking: asyncio.Task[None] | None = None

    async def start(self, program: str, terminal: list[Any] | None) -> None:
        """Have it started; Refused when that cannot be."""
        if terminal:
            self._parts[2].put_nowait(None)
        answer = await self._call_actor("run", ANSWER_TIMEOUT + 5, self._key, program, terminal)
        self._asking = asyncio.ensure_future(self._poll_until_end(answer))

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), host_actor.CHUNK_SIZE):
            await self._send_input(data[at : at + host_actor.CHUNK_SIZE], last=False)

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
        """Its command may take its time to read it; whether it is there is told by the other question."""
        try:
            await self._engine.get_actor(self._host).write.remote(self._key, data, last=last)
        except RayError:
            pass

    async def _poll_until_end(self, answer: dict[str, Any]) -> None:
        """Ask until it has ended."""
        try:
            while True:
                for at, data in answer["data"].items():
                    self._parts[at].put_nowait(data)
                for at in answer["ended"]:
                    self._parts[at].put_nowait(None)
                if "code" in answer:
                    self._code.set_result(answer["code"])
                    return
                wanted = [at for at, queue in self._parts.items() if queue.qsize() < STREAM_QUEUE_SIZE]
                if not wanted:  # it shall know that somebody is there; and it is asked at once when there is room
                    self._taken.clear()
                    await asyncio.wait([asyncio.ensure_future(self._taken.wait())], timeout=host_actor.POLL_TIMEOUT)
                    wanted = [at for at, queue in self._parts.items() if queue.qsize() < STREAM_QUEUE_SIZE]
                answer = await self._call_actor("pull", ANSWER_TIMEOUT + host_actor.POLL_TIMEOUT, self._key, wanted)
        except EngineError as error:
            for queue in self._parts.values():
                queue.put_nowait(error)
            if not self._code.done():
                self._code.set_exception(error)

    async def _call_actor(self, method: str, seconds: float, *words: Any) -> Any:
        actor = self._engine.get_actor(self._host)
        try:
            return await _wait_with_timeout(seconds, getattr(actor, method).remote(*words))
        except TimeoutError:
            raise EngineError("unreachable", f"it did not answer within {seconds:g}s") from None
        except ActorUnavailableError:
            where = self._host.get("address") or "its node"
            raise EngineError("unreachable", f"{where} does not answer") from None
        except (ActorDiedError, RayActorError):
            raise self._engine.explain_loss(self._host) from None
        except RayError as error:
            raise EngineError("other", _get_error_line(error)) from None


def _build_actor_options(about: dict[str, Any], wish: dict[str, Any], node: str | None) -> dict[str, Any]:
    """What Ray is told of an actor."""
    options: dict[str, Any] = {
        "name": about["actor"], "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True, "max_restarts": 0,
        "max_concurrency": 1000, "num_cpus": wish["cpus"], "num_gpus": wish["gpus"] or None, "memory": wish["memory"] or None,
        "resources": wish["resources"] or None,
    }  # fmt: skip
    options["scheduling_strategy"] = (
        _pin_to_node(node) if node else {"spread": "SPREAD", "pack": "DEFAULT"}[wish["placement"]]
    )
    return options


def _make_node_task(node: str, what: Any) -> Any:
    """A function that runs on a node, once."""
    return ray.remote(what).options(num_cpus=0, scheduling_strategy=_pin_to_node(node), max_retries=0)


def _pin_to_node(node: str) -> Any:
    return OnNode(node_id=node, soft=False)


def _build_kill_command(address: str, name: str) -> str:
    """What one types to end an actor."""
    code = f"import ray; ray.init({address!r}, namespace={NAMESPACE!r}); ray.kill(ray.get_actor({name!r}))"
    return f'python -c "{code}"'


def _list_actor_names() -> list[str]:
    rows = ray.util.list_named_actors(all_namespaces=True)
    return [str(row["name"]) for row in rows if row["namespace"] == NAMESPACE]


async def _wait_with_timeout(seconds: float, ref: Any) -> Any:
    return await asyncio.wait_for(_get_value(ref), seconds)


async def _get_value(ref: Any) -> Any:
    return await ref


def _read_source(module: Any) -> str:
    with open(module.__file__, encoding="utf-8") as file:
        return file.read()


def _get_error_line(error: BaseException) -> str:
    """The first line of what Ray says that says something."""
    said = str(getattr(error, "cause", None) or error)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


ENGINE = RayBridgeEngine
