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
    RayError,
)

from mngr.providers.bridge.engine_interface import EngineError
from mngr.providers.ray import actor_command, autoscaler_config, host_actor, host_init_process, work_backup
from mngr.providers.ray import cluster_capacity as capacity
from mngr.providers.ray.actor_directory import NAMESPACE, ActorDirectory, list_actor_names
from mngr.providers.ray.actor_messages import ActorAddress, ActorPlan, ResourceRequest
from mngr.providers.ray.node_tasks import START_TIMEOUT, make_node_task, pin_to_node, wait_with_timeout
from mngr.providers.ray.reachability import get_error_line
from mngr.providers.ray.run_on_actor import ANSWER_TIMEOUT, RayCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mngr.providers.bridge.engine_interface import Note, Verb
    from mngr.providers.bridge.messages import TerminalSpec

_STRATEGIES = {"spread": "SPREAD", "pack": "DEFAULT"}  # Ray's name for each placement

for module in (host_actor, actor_command, work_backup, autoscaler_config):
    cloudpickle.register_pickle_by_value(module)


class RayBridgeEngine:
    """The engine for one cluster."""

    def __init__(self, options: dict[str, object]) -> None:
        self._actors = ActorDirectory(str(options.get("address") or "auto"))
        self._removals: dict[str, asyncio.Task[None]] = {}  # by actor, the hosts that are being removed
        self.verbs: Mapping[str, Verb] = {
            "create": self.create_actor,
            "remove": self.remove_host,
            "locate": self.locate_host,
            "list": self.list_actors,
            "find_existing": self.find_existing_actor,
            "list_backups": self.list_backups,
            "fetch_backup": self.fetch_backup,
        }

    async def close(self) -> None:
        if ray.is_initialized():
            ray.shutdown()

    async def exec(self, host: dict[str, object], program: str, terminal: TerminalSpec | None) -> RayCommand:
        self._actors.connect()
        address = ActorAddress.read(host)
        await self._wait_until_removed(address.actor)
        command = RayCommand(self._actors, address)
        try:
            await command.start(program, terminal)
        except EngineError as error:
            if error.kind not in ("gone", "stopped") or self._actors.find_actor(address.actor) is None:
                raise
            command = RayCommand(self._actors, address)  # The cached actor was an older one of the same name.
            await command.start(program, terminal)
        return command

    async def create_actor(
        self, note: Note, plan: dict[str, object], request: dict[str, object], node: str | None, patience: float
    ) -> dict[str, object]:
        """Create the host's actor, or use the existing one, and return its facts.

        The actor runs on `node`, where its files are, or wherever there is capacity. It may wait `patience` seconds in
        Ray's queue, where an autoscaler sees it.
        """
        self._actors.connect()
        actor_name = ActorPlan.read(plan).actor
        resources = ResourceRequest.read(request)
        await self._wait_until_removed(actor_name)
        self._actors.forget(actor_name)  # The cached actor may be dead.
        actor = self._actors.find_actor(actor_name)
        if actor is None:
            await capacity.check_possible(resources)
            lack = capacity.describe_lack(resources)
            if lack:
                note(f"{lack}; the host waits until Ray has a place for it")
            else:
                patience = max(patience, START_TIMEOUT)
            options = _build_actor_options(actor_name, resources, node)
            complete_plan = {**plan, "request": request, "init_program": _read_source(host_init_process)}
            actor = ray.remote(host_actor.HostActor).options(**options).remote(complete_plan)
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

    async def remove_host(self, note: Note, plan: dict[str, object], node: str | None) -> dict[str, object]:
        """Remove a host with its directory and backups, if they exist.

        The removal continues when the client goes away: a half-deleted directory must not be taken for a complete one.
        """
        self._actors.connect()
        actor_plan = ActorPlan.read(plan)
        actor = actor_plan.actor
        await self._wait_until_removed(actor)
        task = self._removals[actor] = asyncio.ensure_future(self._remove_machine(actor_plan, node))
        task.add_done_callback(lambda _: self._removals.pop(actor, None))
        await asyncio.shield(task)
        return {}

    async def _remove_machine(self, plan: ActorPlan, node: str | None) -> None:
        actor = self._actors.find_actor(plan.actor)
        is_deleted = False
        if actor is not None:
            try:
                if not capacity.is_pending(actor):
                    await wait_with_timeout(60.0, actor.remove_host.remote())
                    is_deleted = True
            except (TimeoutError, RayError):
                pass
            ray.kill(actor)
            self._actors.forget(plan.actor)
        if not is_deleted and node is not None and plan.home is not None and self._actors.is_node_up(node):
            await self._delete_directory(node, plan.home)
        await self._delete_backups(plan)

    async def _wait_until_removed(self, actor: str) -> None:
        """Wait until a removal of the actor has ended."""
        if actor in self._removals:
            await asyncio.wait([self._removals[actor]])

    async def locate_host(
        self, note: Note, plan: dict[str, object], node: str | None, closely: bool
    ) -> dict[str, object]:
        """Return the node of a host that runs or has its files there. Raise EngineError if the files are gone.

        With `closely`, a running actor is asked, because it may be removing its files.
        """
        self._actors.connect()
        actor_plan = ActorPlan.read(plan)
        actor = actor_plan.actor
        await self._wait_until_removed(actor)
        self._actors.forget(actor)
        is_running = self._actors.find_actor(actor) is not None
        if is_running and closely:
            is_running = await self._is_staying(actor)
        if not is_running and not (node and self._actors.is_node_up(node)):
            raise self._actors.explain_loss(ActorAddress(actor=actor, node=node))
        if not is_running and actor_plan.home is not None and not await self._has_directory(str(node), actor_plan.home):
            raise EngineError("gone", "its files are no longer on its node")
        return {"node": node}

    async def _is_staying(self, actor: str) -> bool:
        """Return False when the actor ended before it could answer. Raise EngineError while it is being removed."""
        answer = self._actors.find_actor(actor).is_being_removed.remote()
        try:
            is_being_removed = await self._ask_actor(answer, "its actor")
        except EngineError as error:
            if not isinstance(error.__cause__, ActorDiedError):
                raise
            self._actors.forget(actor)
            return False
        if is_being_removed:
            raise EngineError("busy", "the host is being removed")
        return True

    async def list_actors(self, note: Note, key: str, backup_actor: str) -> dict[str, object]:
        """Return the actors of a home. Include the backup actor only if there is no host."""
        self._actors.connect()
        names = list_actor_names()
        host_names = [name for name in names if name.startswith(f"host:{key}:")]
        rows = [{"what": "actor", "name": name, "tag": "-".join(name.split(":")[1:3])} for name in host_names]
        if backup_actor in names and not host_names:
            rows.append({"what": "actor", "name": backup_actor, "tag": backup_actor})
        return {"found": [{**row, "removal": _build_kill_command(self._actors.address, row["name"])} for row in rows]}

    async def find_existing_actor(self, note: Note, key: str, name: str) -> dict[str, object]:
        """Return an existing actor of this host name with its facts. This home's actors come first."""
        self._actors.connect()
        actors = [actor for actor in list_actor_names() if actor.startswith("host:") and actor.endswith(f":{name}")]
        if not actors:
            return {}
        own_actors = [actor for actor in actors if actor.startswith(f"host:{key}:")]
        actor = (own_actors or actors)[0]
        handle = ray.get_actor(actor, namespace=NAMESPACE)
        opened = await self._ask_actor(handle.open_host.remote(), name)
        plan_and_request = await self._ask_actor(handle.get_plan.remote(), name)
        return {"actor": actor, "made": opened, **plan_and_request}

    async def list_backups(self, note: Note, backup_actor: str, tag: str) -> dict[str, object]:
        """Return the backups of a host's agents, or none when the backup actor is lost."""
        self._actors.connect()
        self._actors.forget(backup_actor)  # The cached actor may be dead.
        backup = self._actors.find_actor(backup_actor)
        if backup is None:
            return {"agents": []}
        return {"agents": await self._ask_actor(backup.list_agents.remote(tag), "the backup actor")}

    async def fetch_backup(self, note: Note, backup_actor: str, tag: str, agent: str, place: str) -> dict[str, object]:
        """Write an agent's backup as files into a local directory."""
        self._actors.connect()
        backup = self._actors.find_actor(backup_actor)
        if backup is None:
            return {}
        for name in (work_backup.COMMITS, work_backup.FILES):
            with open(os.path.join(place, name), "wb") as file:
                while True:
                    answer = backup.read_chunk.remote(tag, agent, name, file.tell())
                    chunk = await self._ask_actor(answer, "the backup actor")
                    if not chunk:
                        break
                    file.write(chunk)
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
        backup = self._actors.find_actor(plan.backup_actor)
        if backup is None:
            return
        try:
            await wait_with_timeout(ANSWER_TIMEOUT, backup.forget_host.remote(plan.tag))
            prefix = f"host:{plan.backup_actor.partition(':')[2]}:"
            if not any(name.startswith(prefix) for name in list_actor_names()):
                await wait_with_timeout(ANSWER_TIMEOUT, backup.forget_all.remote())
                ray.kill(backup)
                self._actors.forget(plan.backup_actor)
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
            answer = make_node_task(node, host_actor.has_directory).remote(path)
            return bool(await wait_with_timeout(START_TIMEOUT, answer))
        except (TimeoutError, RayError):
            raise EngineError("unreachable", "its node does not answer") from None


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
    if node:
        options["scheduling_strategy"] = pin_to_node(node)
    else:
        options["scheduling_strategy"] = _STRATEGIES[request.placement]
    return options


def _build_kill_command(address: str, name: str) -> str:
    """Return a command with which the user can end an actor."""
    code = f"import ray; ray.init({address!r}, namespace={NAMESPACE!r}); ray.kill(ray.get_actor({name!r}))"
    return f'python -c "{code}"'


def _read_source(module: Any) -> str:
    with open(module.__file__, encoding="utf-8") as file:
        return file.read()


ENGINE = RayBridgeEngine
