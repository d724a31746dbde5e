"""What is left in an engine by commands that were interrupted."""

from __future__ import annotations

from mngr.base import shell
from mngr.host import registry, store
from mngr.host.protocol import Leftover
from mngr.providers.shared.interrupted_hosts import build_cleanup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.base.paths import Home
    from mngr.providers.docker.docker_cli import DockerCli

    Undo = Callable[[str, dict[str, Any]], None]


def list_leftovers(home: Home, provider: str, engine: DockerCli, key: str, undo: Undo) -> list[Leftover]:
    """Hosts whose making or taking away was interrupted; of containers and volumes that are not known, only the names."""
    found = []
    known: dict[str, Any] = {}
    for phase, what in (("json", ""), ("making", "interrupted create"), ("ending", "interrupted destroy")):
        for host in registry.list_hosts(home, provider, phase):
            facts = registry.find_facts(home, provider, host, phase) or {}
            known[host] = facts.get("volume")
            if what and not store.is_owner_alive(facts.get("owner")):
                act = build_cleanup(home, provider, host, phase, facts, undo)
                name = f"@{host}.{provider}"
                found.append(Leftover(description=what, name=name, remove=act, is_incomplete=phase == "making"))
    mine = ["--filter", f"label=mngr.home={key}", "--format"]
    containers = engine.run_checked("containers could not be listed", "ps", "-a", *mine, "{{.Names}}").split()
    volumes = engine.run_checked("volumes could not be listed", "volume", "ls", *mine, "{{.Name}}").split()
    found += [
        _describe_unknown(engine, "container", name, "rm", "-f", "-v") for name in containers if name not in known
    ]
    found += [_describe_unknown(engine, "volume", n, "volume", "rm") for n in volumes if n not in known.values()]
    return found


def _describe_unknown(engine: DockerCli, what: str, name: str, *words: str) -> Leftover:
    """Its label is this home's, but what is in it nobody can tell."""
    removal = shell.join([*engine.words, *words, name])
    note = f"the {what} {name} was made from this home, which does not know it; if you do not need it: {removal}"
    return Leftover(description=f"unknown {what}", name=name, note=note)
