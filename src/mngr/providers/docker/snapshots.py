"""Snapshots of a container: an image for its file system, and a tar file for the home in its volume."""

from __future__ import annotations

import json
import os

from mngr.base import shell
from mngr.base.errors import MngrError, NotFound
from mngr.base.paths import SNAPSHOT_EXCLUDES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.paths import Home
    from mngr.host.protocol import Host
    from mngr.providers.docker.docker_cli import DockerCli

HOME_TAR = "home.tar"
MAX_COMMIT_SECONDS = 3600.0  # the time limit of a commit
# Agents have their own snapshots, and their variables are private. The caches are included for later agents.
_PACK_COMMAND = f"cd ~ && exec tar cf - {' '.join(f'--exclude ./.mngr/{name}' for name in SNAPSHOT_EXCLUDES)} ."
_LABELS = "LABEL mngr.home= mngr.user= mngr.volume= mngr.network="  # an image must not look like a host
_HARMLESS_WARNINGS = (b"changed as we read it", b"removed before we read it", b"socket ignored")


def take_snapshot(engine: DockerCli, container: str, host: Host, directory: str, tag: str) -> dict[str, object]:
    """Save the files of a running host and return the facts about the snapshot."""
    path = os.path.join(directory, HOME_TAR)
    with open(path, "wb") as out:
        process = host.stream(["sh", "-c", _PACK_COMMAND], stdout=out, stderr=shell.PIPE)
        stderr = process.communicate()[1]
    lines = [line for line in stderr.splitlines() if line.strip()]
    has_only_harmless_warnings = process.returncode == 1 and all(
        any(word in line for word in _HARMLESS_WARNINGS) for line in lines
    )
    if process.returncode and not has_only_harmless_warnings:
        why = lines[-1].decode("utf-8", "replace") if lines else "the connection ended"
        raise MngrError(
            f"cannot read the home directory on {host.name}: {why}", f"check the host: mngr doctor @{host.name}"
        )
    arguments = ("commit", "-c", _LABELS, container, tag)
    engine.run_checked(f"the snapshot of {host.name} could not be created", *arguments, timeout=MAX_COMMIT_SECONDS)
    return {"image": tag, "engine": engine.words}


def load_snapshot(home: Home, name: str) -> tuple[str, str]:
    """Return the image and the tar file of a snapshot. Raise NotFound if it does not exist."""
    directory = os.path.join(home.snapshots, name)
    try:
        with open(os.path.join(directory, "meta.json"), encoding="utf-8") as file:
            return str(json.load(file)["host"]["image"]), os.path.join(directory, HOME_TAR)
    except (OSError, ValueError, KeyError, TypeError):
        raise NotFound(f"there is no host snapshot {name!r}", "list the snapshots: mngr snapshot list") from None


def restore_home(host: Host, path: str) -> None:
    """Unpack the tar file of a snapshot into the home of a new host."""
    with open(path, "rb") as archive:
        process = host.stream(["sh", "-c", "cd ~ && exec tar xpf -"], stdin=archive, stderr=shell.PIPE)
        stderr = process.communicate()[1].decode("utf-8", "replace").strip()
    if process.returncode:
        why = stderr.splitlines()[-1] if stderr else "the connection ended"
        raise MngrError(
            f"mngr could not copy the snapshot to {host.name}: {why}",
            "check the disk space for containers: docker system df",
        )
