"""Connects to a Ray cluster and finds mngr's actors and their nodes."""

from __future__ import annotations

import os

import ray  # type: ignore[import-not-found, unused-ignore]
from ray.exceptions import RayError  # type: ignore[import-not-found, unused-ignore]

from mngr.providers.bridge.engine_interface import EngineError
from mngr.providers.ray.actor_messages import ActorAddress
from mngr.providers.ray.reachability import check_reachable, get_error_line, resolve_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMESPACE = "mngr"


class ActorDirectory:
    """Finds the actors of one cluster by their names, and remembers their handles."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._actors: dict[str, Any] = {}

    def connect(self) -> None:
        """Connect to the cluster, unless that is done. Raise EngineError if it cannot be reached."""
        if ray.is_initialized():
            return
        check_reachable(resolve_address(self.address))
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(address=self.address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            raise EngineError(
                "unreachable", f"Ray at {self.address} cannot be reached: {get_error_line(error)}"
            ) from None

    def get_actor(self, host: ActorAddress) -> Any:
        """Return the actor of a host. Raise EngineError that says why there is none."""
        actor = self.find_actor(host.actor)
        if actor is None:
            raise self.explain_loss(host)
        return actor

    def explain_loss(self, host: ActorAddress) -> EngineError:
        """Return the error for a dead actor: `stopped` while its node has its files, `gone` with its node."""
        self.forget(host.actor)
        if host.node and self.is_node_up(host.node):
            return EngineError("stopped", "its actor ended; its files are on its node")
        return EngineError("gone", f"its node {host.address or ''} is dead".replace("  ", " "))

    def find_actor(self, name: str) -> Any:
        """Return the actor of this name, or None."""
        if name not in self._actors:
            try:
                self._actors[name] = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                return None
        return self._actors[name]

    def is_node_up(self, node: str) -> bool:
        """True when the node belongs to the cluster and answers."""
        return any(row["NodeID"] == node and row["Alive"] for row in ray.nodes())

    def forget(self, name: str) -> None:
        """Drop the handle of an actor that may be dead. The next call looks the actor up again."""
        self._actors.pop(name, None)


def list_actor_names() -> list[str]:
    """Return the names of all actors of mngr."""
    rows = ray.util.list_named_actors(all_namespaces=True)
    return [str(row["name"]) for row in rows if row["namespace"] == NAMESPACE]
