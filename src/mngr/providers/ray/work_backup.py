"""Backs up agents outside their node. It sends their commits and own files to a backup actor.

Ray sends this module to the cluster by value.
The backup holds no uncommitted files of a work dir. An agent's own files are as of its last state change.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    Capture = Callable[[str, int], Coroutine[Any, Any, bytes | None]]

POLL_INTERVAL = 1.0  # seconds; pause between two checks for changes
MIN_SEND_INTERVAL = 15.0  # seconds; between two backups of an agent without a new commit
CHUNK_SIZE = 96 * 1024
MAX_COMMIT_BYTES = 64 << 20  # limit for one agent's commits since its base
MAX_FILE_BYTES = 16 << 20  # limit for one agent's own files
MAX_TOTAL_BYTES = 4 << 30  # limit for one backup actor
COMMITS, FILES, ABOUT = "work.bundle", "agent.tar", "about.json"
STATE_FILES = (
    "agent.json",
    "exit",
    "stopped",
    "status",
)  # a change of one of these files triggers a backup
# Prints HEAD, its branch and the object format, then a bundle if there are commits. git runs as the agent's user.
BUNDLE_SCRIPT = """
cd -- "$work" || exit 1
head=$(git rev-parse -q --verify HEAD) || exit 1
printf '%s\\n%s\\n%s\\n' "$head" "$(git symbolic-ref -q --short HEAD)" "$(git rev-parse --show-object-format)"
[ "$head" = "$base" ] || exec git bundle create -q - HEAD ${base:+"^$base"} 2>/dev/null
"""
TAR_SCRIPT = 'cd -- "$agents" && exec tar -cf - --exclude="$id/raw" --exclude="$id/input" -- "$id"'


class WorkBackup:
    """An actor that stores the backups of one home's hosts, each by its tag, in files on its own node."""

    def __init__(self, directory: str) -> None:
        self._root = directory
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._size = _get_dir_size(directory)

    def write_chunk(self, tag: str, agent: str, name: str, data: bytes, *, first: bool) -> bool:
        """Append a chunk to a new file, which becomes visible with `commit_files`. Return False when the storage is full."""
        directory = self._get_dir(tag, agent)
        path = os.path.join(directory, name + ".new")
        if first:
            if self._size > MAX_TOTAL_BYTES:
                return False
            os.makedirs(directory, mode=0o700, exist_ok=True)
            self._size -= _get_file_size(path)
        with open(path, "wb" if first else "ab") as file:
            file.write(data)
        self._size += len(data)
        return True

    def commit_files(self, tag: str, agent: str, names: list[str]) -> None:
        """Replace these files of an agent by their new versions, which are complete."""
        for name in names:
            path = os.path.join(self._get_dir(tag, agent), name)
            old_size = _get_file_size(path)
            os.replace(path + ".new", path)
            self._size -= old_size

    def list_agents(self, tag: str) -> list[dict[str, object]]:
        """Return the backup of each agent of a host, with the sizes of its files."""
        backups = []
        directory = self._get_dir(tag)
        for agent in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            try:
                with open(os.path.join(directory, agent, ABOUT), encoding="utf-8") as file:
                    about = json.load(file)
            except (OSError, ValueError):
                continue  # Its first backup was not complete.
            sizes = {name: _get_file_size(os.path.join(directory, agent, name)) for name in (COMMITS, FILES)}
            backups.append({**about, "id": agent, "sizes": sizes})
        return backups

    def read_chunk(self, tag: str, agent: str, name: str, start: int) -> bytes:
        """Return a chunk of a file."""
        try:
            with open(os.path.join(self._get_dir(tag, agent), name), "rb") as file:
                file.seek(start)
                return file.read(CHUNK_SIZE)
        except OSError:
            return b""

    def forget_host(self, tag: str) -> int:
        """Delete the backups of a host and return the number of other hosts."""
        directory = self._get_dir(tag)
        self._size -= _get_dir_size(directory)
        shutil.rmtree(directory, ignore_errors=True)
        return len(os.listdir(self._root))

    def forget_all(self) -> None:
        """Delete all backups."""
        shutil.rmtree(self._root, ignore_errors=True)
        try:
            os.rmdir(os.path.dirname(self._root))
        except OSError:
            pass  # Other homes have backups there.

    def _get_dir(self, tag: str, agent: str = "") -> str:
        if not all(part.replace("-", "").isalnum() for part in (tag, agent or tag)):
            raise ValueError("the tag or the id is not valid")
        return os.path.join(self._root, tag, agent)


def get_or_create_backup(name: str, directory: str) -> Any:
    """Return the backup actor. Create it if it does not exist, on the head node if possible."""
    import ray  # type: ignore[import-not-found, unused-ignore]

    head = {"node:__internal_head__": 0.001}
    has_head = any("node:__internal_head__" in node["Resources"] for node in ray.nodes() if node["Alive"])
    options = {
        "name": name,
        "namespace": "mngr",
        "lifetime": "detached",
        "get_if_exists": True,
        "num_cpus": 0,
        "max_restarts": 0,
        "resources": head if has_head else None,
    }
    return ray.remote(WorkBackup).options(**options).remote(directory)


class WorkBackupThread(threading.Thread):
    """Checks the agents of a host and sends their changes to the backup actor."""

    def __init__(self, tag: str, backup: tuple[str, str], home: str, capture: Capture) -> None:
        super().__init__(daemon=True)
        self._tag = tag
        self._backup_name, self._backup_dir = backup
        self._agents = os.path.join(home, ".mngr", "agents")
        self._capture = capture
        self._loop = asyncio.get_running_loop()
        self._sent: dict[
            str, tuple[object, object, float]
        ] = {}  # by agent, the file stamps and time of the last backup
        self._heads: dict[str, dict[str, str]] = {}  # by agent, the head of its last bundle
        self._stopped = threading.Event()
        self._backup: Any = None

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()

    def run(self) -> None:
        """Send changes until `stop` is called. A lost backup actor is created again and gets everything."""
        while not self._stopped.wait(POLL_INTERVAL):
            try:
                self.send_changes()
            except Exception:
                self._backup = None
                self._sent.clear()

    def send_changes(self) -> None:
        """Send a backup of every agent that has changed."""
        for agent in sorted(_list_names(self._agents)):
            snapshot = _read_record_and_stamps(os.path.join(self._agents, agent))
            if snapshot is None:
                continue
            record, file_stamps, ref_stamps = snapshot
            last = self._sent.get(agent, (None, None, 0.0))
            if ref_stamps != last[1] or (file_stamps != last[0] and time.monotonic() - last[2] > MIN_SEND_INTERVAL):
                self._send_agent(agent, record)
                self._sent[agent] = (file_stamps, ref_stamps, time.monotonic())

    def _send_agent(self, agent: str, record: dict[str, object]) -> None:
        """Send a backup of an agent.

        It captures the files before the commits, so that the backup contains every commit that the files mention.
        """
        import ray  # type: ignore[import-not-found, unused-ignore]

        files = self._capture_output(TAR_SCRIPT, MAX_FILE_BYTES, agents=self._agents, id=agent)
        commits = self._capture_output(
            BUNDLE_SCRIPT, MAX_COMMIT_BYTES, work=record.get("work_dir"), base=record.get("base") or ""
        )
        parts = {}
        if files is not None:
            parts[FILES] = files
        if commits is not None:
            head, branch, form, parts[COMMITS] = commits.split(b"\n", 3)
            head_facts = {"head": head.decode(), "branch": branch.decode("utf-8", "replace"), "form": form.decode()}
            self._heads[agent] = head_facts
        missing = [word for word, data in (("commits", commits), ("files", files)) if data is None]
        about = {"record": record, "at": time.time(), "lacks": missing, **self._heads.get(agent, {})}
        parts[ABOUT] = json.dumps(about).encode()
        if all(self._send_file(agent, name, data) for name, data in parts.items()):
            ray.get(self._backup.commit_files.remote(self._tag, agent, list(parts)), timeout=30)

    def _capture_output(self, program: str, max_bytes: int, **words: object) -> bytes | None:
        """Run a program on the host and return its output, or None if it fails or writes too much."""
        assignments = "".join(f"{name}={_quote_word(str(value or ''))}\n" for name, value in words.items())
        return asyncio.run_coroutine_threadsafe(self._capture(assignments + program, max_bytes), self._loop).result()

    def _send_file(self, agent: str, name: str, data: bytes) -> bool:
        """Send a file in chunks. Return False when the backup actor's storage is full."""
        import ray  # type: ignore[import-not-found, unused-ignore]

        if self._backup is None:
            self._backup = get_or_create_backup(self._backup_name, self._backup_dir)
        for start in range(0, max(len(data), 1), CHUNK_SIZE):
            chunk = data[start : start + CHUNK_SIZE]
            is_written = self._backup.write_chunk.remote(self._tag, agent, name, chunk, first=start == 0)
            if not ray.get(is_written, timeout=30):
                return False
        return True


def _read_record_and_stamps(agent_dir: str) -> tuple[dict[str, object], object, object] | None:
    """Return an agent's record and the stamps of its files and refs, or None if it is not ready.

    The agent can write to all of these files, so none of them is trusted.
    """
    try:
        with open(os.path.join(agent_dir, "agent.json"), "rb") as file:
            record = json.loads(file.read(1 << 20))
        if record["phase"] != "ready" or not isinstance(record["work_dir"], str):
            return None
        work, branch = record["work_dir"], str(record.get("branch"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    refs = ("logs/HEAD", "HEAD", f"refs/heads/{branch}", "packed-refs")
    file_stamps = [_get_file_stamp(os.path.join(agent_dir, name)) for name in STATE_FILES]
    return record, file_stamps, [_get_file_stamp(os.path.join(work, ".git", name)) for name in refs]


def _get_file_stamp(path: str) -> tuple[int, int] | None:
    """Return the modification time and size of a file, or None."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def _list_names(directory: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if name.startswith("a-") and name[2:].isalnum()]
    except OSError:
        return []


def _get_dir_size(directory: str) -> int:
    return sum(_get_file_size(os.path.join(root, name)) for root, _, names in os.walk(directory) for name in names)


def _get_file_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _quote_word(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
