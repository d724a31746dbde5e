"""Finds the resources of the nodes in a Ray cluster, and of the nodes that its autoscaler could start."""

from __future__ import annotations

import ray  # type: ignore[import-not-found, unused-ignore]
from ray._private import state as ray_state  # type: ignore[import-not-found, unused-ignore]
from ray.exceptions import RayError  # type: ignore[import-not-found, unused-ignore]

from mngr.providers.bridge.engine_interface import EngineError
from mngr.providers.ray import autoscaler_config
from mngr.providers.ray.node_tasks import START_TIMEOUT, make_node_task, wait_with_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from mngr.providers.ray.actor_messages import ResourceRequest

_HEAD_RESOURCE = "node:__internal_head__"
_UNFINISHED_STATES = ("DEPENDENCIES_UNREADY", "PENDING_CREATION")


async def check_possible(request: ResourceRequest) -> None:
    """Raise EngineError if no node is large enough, and no node that the autoscaler could start."""
    nodes = [row for row in ray.nodes() if row["Alive"]]
    heads = [row["NodeID"] for row in nodes if _HEAD_RESOURCE in row["Resources"]]
    if not heads or _fits_any(request, [row["Resources"] for row in nodes]):
        return
    try:
        task = make_node_task(heads[0], autoscaler_config.read_node_types)
        types = await wait_with_timeout(START_TIMEOUT, task.remote(ray.get_runtime_context().gcs_address))
    except (TimeoutError, RayError):
        return  # The node types are unknown, so the host waits.
    if types is None or _fits_any(request, types):
        return
    description = ", ".join(f"{key} {value:g}" for key, value in _list_wanted(request).items())
    node = "no node of the cluster and no node type of its autoscaler" if types else "no node of the cluster"
    raise EngineError("usage", f"{node} has {description}")


def describe_lack(request: ResourceRequest) -> str | None:
    """Return what the cluster lacks at the moment, or None if a node has enough free resources."""
    if _fits_any(request, ray_state.available_resources_per_node().values()):
        return None
    free = ray.available_resources()
    lacking = [key for key, value in _list_wanted(request).items() if free.get(key, 0) < value]
    return f"the cluster does not have enough free {lacking[0]}" if lacking else "no node has enough free resources"


def is_pending(actor: Any) -> bool:
    """True while the actor waits for a node or for its process."""
    return (ray_state.actors(actor._actor_id.hex()) or {}).get("State") in _UNFINISHED_STATES


def _list_wanted(request: ResourceRequest) -> dict[str, float]:
    wanted = {"CPU": request.cpus, "GPU": request.gpus, "memory": request.memory, **request.resources}
    return {key: value for key, value in wanted.items() if value}


def _fits_any(request: ResourceRequest, offers: Iterable[Mapping[str, float]]) -> bool:
    """True when one of the offers is large enough."""
    wanted = _list_wanted(request)
    return any(all(offer.get(key, 0) >= value for key, value in wanted.items()) for offer in offers)
