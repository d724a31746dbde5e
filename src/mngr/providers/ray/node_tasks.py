"""Runs functions on one node of a Ray cluster, and waits for answers."""

from __future__ import annotations

import asyncio

import ray  # type: ignore[import-not-found, unused-ignore]
from ray.util.scheduling_strategies import (  # type: ignore[import-not-found, unused-ignore]
    NodeAffinitySchedulingStrategy as OnNode,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

START_TIMEOUT = 60.0  # seconds; for starting an actor or a task if there is capacity


def make_node_task(node: str, function: Any) -> Any:
    """Return a Ray function that runs once, on this node."""
    return ray.remote(function).options(num_cpus=0, scheduling_strategy=pin_to_node(node), max_retries=0)


def pin_to_node(node: str) -> Any:
    """Return the placement on this node only."""
    return OnNode(node_id=node, soft=False)


async def wait_with_timeout(seconds: float, ref: Any) -> Any:
    """Return the value of a reference. Raise TimeoutError if it has none by then."""
    return await asyncio.wait_for(_get_value(ref), seconds)


async def _get_value(ref: Any) -> Any:
    return await ref
