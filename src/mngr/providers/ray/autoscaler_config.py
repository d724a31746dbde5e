"""Reads which nodes the autoscaler of a Ray cluster may start. Ray sends this module to the head by value."""

from __future__ import annotations

import glob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MONITORS = ("autoscaler/_private/monitor.py", "autoscaler/v2/monitor.py")
_CONFIG_OPTION, _ADDRESS_OPTION = "--autoscaling-config=", "--gcs-address="


def read_node_types(address: str) -> list[dict[str, float]] | None:
    """Return the resources of each node type that can still be started, or None if they are unknown.

    The head's monitor process has the configuration of the autoscaler. A cluster without an autoscaler has the monitor,
    too, but no configuration: then the list is empty.
    """
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if any(word.endswith(_MONITORS) for word in words) and f"{_ADDRESS_OPTION}{address}" in words:
            configs = [word.removeprefix(_CONFIG_OPTION) for word in words if word.startswith(_CONFIG_OPTION)]
            return _read_config(configs[0]) if configs else []
    return None


def _read_config(path: str) -> list[dict[str, float]] | None:
    import yaml  # type: ignore[import-untyped, unused-ignore]  # Ray needs it, and mngr does not

    try:
        with open(path, encoding="utf-8") as file:
            types: dict[str, dict[str, Any]] = yaml.safe_load(file)["available_node_types"]
        return [
            {name: float(value) for name, value in node_type["resources"].items()}
            for node_type in types.values()
            if node_type.get("max_workers", 1) != 0
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        return None
