"""Finds what interrupted commands left behind in an engine."""

from __future__ import annotations

from mngr.base import shell
from mngr.host import host_store, record_store
from mngr.host.protocol import Leftover
from mngr.providers.docker.container_record import read_container
from mngr.providers.shared.interrupted_hosts import build_cleanup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.base.paths import Home
    from mngr.host.host_store import HostFacts
    from mngr.providers.docker.docker_cli import DockerCli

    Undo = Callable[[str, HostFacts], None]


def list_leftovers(home: Home, provider: str, engine: DockerCli, key: str, undo: Undo) -> list[Leftover]:
    """Return hosts whose create or destroy was interrupted, and unknown containers and volumes of this home."""
    leftovers = []
    volume_by_host: dict[str, str] = {}
    for phase, description in (("json", ""), ("making", "interrupted create"), ("ending", "interrupted destroy")):
        for host in host_store.list_hosts(home, provider, phase):
            facts = host_store.find_facts(home, provider, host, phase)
            volume_by_host[host] = read_container(facts).volume if facts is not None else ""
            if description and not record_store.is_owner_alive(facts.owner if facts is not None else None):
                cleanup = build_cleanup(home, provider, host, phase, facts, undo)
                name = f"@{host}.{provider}"
                leftovers.append(
                    Leftover(description=description, name=name, remove=cleanup, is_incomplete=phase == "making")
                )
    filters = ["--filter", f"label=mngr.home={key}", "--format"]
    containers = engine.run_checked("containers could not be listed", "ps", "-a", *filters, "{{.Names}}").split()
    volumes = engine.run_checked("volumes could not be listed", "volume", "ls", *filters, "{{.Name}}").split()
    leftovers += [
        _describe_unknown(engine, "container", name, "rm", "-f", "-v")
        for name in containers
        if name not in volume_by_host
    ]
    leftovers += [
        _describe_unknown(engine, "volume", name, "volume", "rm")
        for name in volumes
        if name not in volume_by_host.values()
    ]
    return leftovers


def _describe_unknown(engine: DockerCli, resource_kind: str, name: str, *words: str) -> Leftover:
    """Return a leftover without a `remove` function, because mngr does not know what it contains."""
    removal = shell.join([*engine.words, *words, name])
    note = f"the {resource_kind} {name} was created from this home, but mngr has no record of it; if you do not need it: {removal}"
    return Leftover(description=f"unknown {resource_kind}", name=name, note=note)
