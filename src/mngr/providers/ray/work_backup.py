"""What outlives a node: the commits of agents and their own files, sent to a keeper elsewhere as they come. Sent by value.

Nothing that is not committed is kept of a work dir; of an agent's own files what its last change left.
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

POLL_INTERVAL = 1.0  # seconds between two looks
MIN_SEND_INTERVAL = 15.0  # seconds at least between two times that an agent's files are sent without a new commit
CHUNK_SIZE = 96 * 1024
MAX_COMMIT_BYTES = 64 << 20  # bytes of one agent's commits since its base
MAX_FILE_BYTES = 16 << 20  # and of its own files
MAX_TOTAL_BYTES = 4 << 30  # that a keeper keeps
COMMITS, FILES, ABOUT = "work.bundle", "agent.tar", "about.json"
STATE_FILES = (
    "agent.json",
    "exit",
    "stopped",
    "status",
)  # files of an agent that tell that something has happened
# HEAD and its branch on two lines, then nothing or a bundle. What git is set to there runs as what the agent runs as.
BUNDLE_SCRIPT = """
cd -- "$work" || exit 1
head=$(git rev-parse -q --verify HEAD) || exit 1
printf '%s\\n%s\\n%s\\n' "$head" "$(git symbolic-ref -q --short HEAD)" "$(git rev-parse --show-object-format)"
[ "$head" = "$base" ] || exec git bundle create -q - HEAD ${base:+"^$base"} 2>/dev/null
"""
TAR_SCRIPT = 'cd -- "$agents" && exec tar -cf - --exclude="$id/raw" --exclude="$id/input" -- "$id"'


class WorkBackup:
    """An actor that keeps what the hosts of one home send it, each host's by its tag, in files of its own node."""

    def __init__(self, directory: str) -> None:
        self._root = directory
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._size = _get_dir_size(directory)

    def put(self, tag: str, agent: str, name: str, data: bytes, *, first: bool) -> bool:
        """A portion of a file; nobody sees it before `done`. False when there is no room."""
        place = self._get_dir(tag, agent)
        path = os.path.join(place, name + ".new")
        if first:
            if self._size > MAX_TOTAL_BYTES:
                return False
            os.makedirs(place, mode=0o700, exist_ok=True)
            self._size -= _get_file_size(path)
        with open(path, "wb" if first else "ab") as file:
            file.write(data)
        self._size += len(data)
        return True

    def done(self, tag: str, agent: str, names: list[str]) -> None:
        """These files have come whole, and belong together."""
        for name in names:
            path = os.path.join(self._get_dir(tag, agent), name)
            before = _get_file_size(path)
            os.replace(path + ".new", path)
            self._size -= before

    def list(self, tag: str) -> list[dict[str, Any]]:
        """What is known of the agents of a host: its `about`, with the sizes of what is kept."""
        found = []
        place = self._get_dir(tag)
        for agent in sorted(os.listdir(place)) if os.path.isdir(place) else ():
            try:
                with open(os.path.join(place, agent, ABOUT), encoding="utf-8") as file:
                    about = json.load(file)
            except (OSError, ValueError):
                continue  # its first files were still on the way
            sizes = {name: _get_file_size(os.path.join(place, agent, name)) for name in (COMMITS, FILES)}
            found.append({**about, "id": agent, "sizes": sizes})
        return found

    def get(self, tag: str, agent: str, name: str, start: int) -> bytes:
        """A portion of a file."""
        try:
            with open(os.path.join(self._get_dir(tag, agent), name), "rb") as file:
                file.seek(start)
                return file.read(CHUNK_SIZE)
        except OSError:
            return b""

    def drop(self, tag: str) -> int:
        """Forget a host; how many others there are."""
        place = self._get_dir(tag)
        self._size -= _get_dir_size(place)
        shutil.rmtree(place, ignore_errors=True)
        return len(os.listdir(self._root))

    def leave(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._root, ignore_errors=True)
        try:
            os.rmdir(os.path.dirname(self._root))
        except OSError:
            pass  # other homes have something there

    def _get_dir(self, tag: str, agent: str = "") -> str:
        if not all(part.replace("-", "").isalnum() for part in (tag, agent or tag)):
            raise ValueError("no name of ours")
        return os.path.join(self._root, tag, agent)


def get_or_create_backup(about: dict[str, Any]) -> Any:
    """The keeper, made where there is none: on the head if that is possible, else anywhere."""
    import ray  # type: ignore[import-not-found, unused-ignore]

    head = {"node:__internal_head__": 0.001}
    has_head = any("node:__internal_head__" in node["Resources"] for node in ray.nodes() if node["Alive"])
    options = {
        "name": about["keeper"], "namespace": "mngr", "lifetime": "detached", "get_if_exists": True, "num_cpus": 0,
        "max_restarts": 0, "resources": head if has_head else None,
    }  # fmt: skip
    return ray.remote(WorkBackup).options(**options).remote(about["kept"])


class WorkBackupThread(threading.Thread):
    """Looks at the agents of a host, and sends what has changed."""

    def __init__(self, about: dict[str, Any], home: str, capture: Capture) -> None:
        super().__init__(daemon=True)
        self._about = about
        self._agents = os.path.join(home, ".mngr", "agents")
        self._capture = capture
        self._loop = asyncio.get_running_loop()
        self._sent: dict[str, tuple[object, object, float]] = {}  # what each agent's files looked like, and when
        self._heads: dict[str, dict[str, str]] = {}  # where its last bundle ends
        self._stopped = threading.Event()
        self._keeper: Any = None

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def run(self) -> None:
        """Until the actor ends. A keeper that is lost is made again, and told everything."""
        while not self._stopped.wait(POLL_INTERVAL):
            try:
                self.send_changes()
            except Exception:
                self._keeper = None
                self._sent.clear()

    def send_changes(self) -> None:
        """Send whatever has changed."""
        for agent in sorted(_list_names(self._agents)):
            seen = _read_agent(os.path.join(self._agents, agent))
            if seen is None:
                continue
            record, own, git = seen
            before = self._sent.get(agent, (None, None, 0.0))
            if git != before[1] or (own != before[0] and time.monotonic() - before[2] > MIN_SEND_INTERVAL):
                self._send_agent(agent, record)
                self._sent[agent] = (own, git, time.monotonic())

    def _send_agent(self, agent: str, record: dict[str, Any]) -> None:
        """The files first: an agent that remembers a commit shall find it, one that finds more than it remembers can look."""
        import ray  # type: ignore[import-not-found, unused-ignore]

        files = self._capture_output(TAR_SCRIPT, MAX_FILE_BYTES, agents=self._agents, id=agent)
        commits = self._capture_output(
            BUNDLE_SCRIPT, MAX_COMMIT_BYTES, work=record.get("work_dir"), base=record.get("base") or ""
        )
        sent = {}
        if files is not None:
            sent[FILES] = files
        if commits is not None:
            head, branch, form, sent[COMMITS] = commits.split(b"\n", 3)
            last = {"head": head.decode(), "branch": branch.decode("utf-8", "replace"), "form": form.decode()}
            self._heads[agent] = last
        lacks = [word for word, data in (("commits", commits), ("files", files)) if data is None]
        about = {"record": record, "at": time.time(), "lacks": lacks, **self._heads.get(agent, {})}
        sent[ABOUT] = json.dumps(about).encode()
        if all(self._send_file(agent, name, data) for name, data in sent.items()):
            ray.get(self._keeper.done.remote(self._about["tag"], agent, list(sent)), timeout=30)

    def _capture_output(self, program: str, most: int, **words: object) -> bytes | None:
        given = "".join(f"{name}={_quote_word(str(value or ''))}\n" for name, value in words.items())
        return asyncio.run_coroutine_threadsafe(self._capture(given + program, most), self._loop).result()

    def _send_file(self, agent: str, name: str, data: bytes) -> bool:
        """Whether there was room for it."""
        import ray  # type: ignore[import-not-found, unused-ignore]

        if self._keeper is None:
            self._keeper = get_or_create_backup(self._about)
        for at in range(0, max(len(data), 1), CHUNK_SIZE):
            part = data[at : at + CHUNK_SIZE]
            put = self._keeper.put.remote(self._about["tag"], agent, name, part, first=at == 0)
            if not ray.get(put, timeout=30):
                return False
        return True


def _read_agent(place: str) -> tuple[dict[str, Any], object, object] | None:
    """The record of an agent that is whole, what its files look like and its refs; all of it is only the agent's word."""
    try:
        with open(os.path.join(place, "agent.json"), "rb") as file:
            record = json.loads(file.read(1 << 20))
        if record["phase"] != "ready" or not isinstance(record["work_dir"], str):
            return None
        work, branch = record["work_dir"], str(record.get("branch"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    refs = ("logs/HEAD", "HEAD", f"refs/heads/{branch}", "packed-refs")
    own = [_get_file_stamp(os.path.join(place, name)) for name in STATE_FILES]
    return record, own, [_get_file_stamp(os.path.join(work, ".git", name)) for name in refs]


def _get_file_stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def _list_names(place: str) -> list[str]:
    try:
        return [name for name in os.listdir(place) if name.startswith("a-") and name[2:].isalnum()]
    except OSError:
        return []


def _get_dir_size(place: str) -> int:
    return sum(_get_file_size(os.path.join(root, name)) for root, _, names in os.walk(place) for name in names)


def _get_file_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _quote_word(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
