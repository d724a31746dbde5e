"""A container's files: the image by the engine's own commit, what is in its volume as a tar file of ours."""

from __future__ import annotations

import json
import os

from mngr.base import shell
from mngr.base.errors import MngrError, NotFound
from mngr.base.paths import SNAPSHOT_EXCLUDES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.base.paths import Home
    from mngr.host.protocol import Host
    from mngr.providers.docker.docker_cli import DockerCli

HOME_TAR = "home.tar"
MAX_COMMIT_SECONDS = 3600.0  # seconds that a commit may take
# Agents have snapshots of their own, and their variables are nobody else's; what is cached for all agents is of use to the next.
_PACK_COMMAND = f"cd ~ && exec tar cf - {' '.join(f'--exclude ./.mngr/{name}' for name in SNAPSHOT_EXCLUDES)} ."
_LABELS = "LABEL mngr.home= mngr.user= mngr.volume= mngr.network="  # it is no host of ours
_HARMLESS_WARNINGS = (b"changed as we read it", b"removed before we read it", b"socket ignored")


def take_snapshot(engine: DockerCli, container: str, host: Host, place: str, tag: str) -> dict[str, Any]:
    """Keep a running host's files; what is to be remembered of it."""
    path = os.path.join(place, HOME_TAR)
    with open(path, "wb") as out:
        process = host.stream(["sh", "-c", _PACK_COMMAND], stdout=out, stderr=shell.PIPE)
        said = process.communicate()[1]
    lines = [line for line in said.splitlines() if line.strip()]
    only_moved = process.returncode == 1 and all(any(word in line for word in _HARMLESS_WARNINGS) for line in lines)
    if process.returncode and not only_moved:
        why = lines[-1].decode("utf-8", "replace") if lines else "the connection ended"
        raise MngrError(f"the home on {host.name} could not be read: {why}", "start it: mngr start @" + host.name)
    words = ("commit", "-c", _LABELS, container, tag)
    engine.run_checked(f"{host.name} could not be kept", *words, timeout=MAX_COMMIT_SECONDS)
    return {"image": tag, "engine": engine.words}


def load_snapshot(home: Home, name: str) -> tuple[str, str]:
    """Image and tar file of a snapshot; raises NotFound when there is no such snapshot of a host."""
    place = os.path.join(home.snapshots, name)
    try:
        with open(os.path.join(place, "meta.json"), encoding="utf-8") as file:
            return str(json.load(file)["host"]["image"]), os.path.join(place, HOME_TAR)
    except (OSError, ValueError, KeyError, TypeError):
        raise NotFound(f"there is no snapshot {name!r} of a host", "see: mngr snapshot list") from None


def restore_home(host: Host, path: str) -> None:
    """Put what was kept into the home of a new host."""
    with open(path, "rb") as kept:
        process = host.stream(["sh", "-c", "cd ~ && exec tar xpf -"], stdin=kept, stderr=shell.PIPE)
        said = process.communicate()[1].decode("utf-8", "replace").strip()
    if process.returncode:
        why = said.splitlines()[-1] if said else "the connection ended"
        raise MngrError(f"the home of {host.name} could not be filled: {why}", "check its limits")
