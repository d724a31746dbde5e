"""The state of the service: apps, images and sandboxes, when they end, and which requests fail."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import secrets
import string
import time
from pathlib import Path
from typing import Any

from grpclib import Status  # type: ignore[import-not-found, unused-ignore]
from modal_proto import api_pb2 as api  # type: ignore[import-not-found, unused-ignore]

from tests.support.hosts.modal.box import SEARCH, Box
from tests.support.hosts.modal.process import Process
from tests.support.hosts.modal.rpc import fail, token

RESULT = api.GenericResult
ALPHABET = string.digits + string.ascii_letters


def new_id(prefix: str, length: int = 22) -> str:
    return f"{prefix}-" + "".join(secrets.choice(ALPHABET) for _ in range(length))


class Image:
    """Layers and settings. The first client that asks builds a recipe, and others wait."""

    def __init__(self, layers: list[str], env: dict[str, str] | None = None, workdir: str = "/") -> None:
        self.layers = layers
        self.env = dict(env or {})
        self.workdir = workdir
        self.cmd = ["sleep", "infinity"]
        self.result: Any = None
        self.recipe: Any = None
        self.lock = asyncio.Lock()
        self.log: list[str] = []
        self.kind = "built"
        self.ttl: int | None = None


class Sandbox:
    """One sandbox of a user."""

    def __init__(self, id: str, app_id: str, definition: Any, tags: dict[str, str], box: Box) -> None:
        self.id = id
        self.task_id = new_id("ta") + ("" if len(id) == 25 else "V")
        self.app_id = app_id
        self.name = definition.name
        self.definition = definition
        self.tags = tags
        self.box = box
        self.cwd = "/"
        self.created_at = time.time()
        self.active = time.monotonic()
        self.execs: dict[str, Process] = {}
        self.result: Any = None
        self.reason: Any = None
        self.exit_image: str | None = None
        self.done = asyncio.Event()
        self.watcher: asyncio.Task[None] | None = None

    def about(self) -> dict[str, Any]:
        """Return what tests check about the sandbox."""
        network = self.definition.network_access
        kind = api.NetworkAccess.NetworkAccessType.Name(network.network_access_type)
        return {
            "tags": self.tags,
            "network": "BLOCKED" if self.definition.block_network else kind,
            "allowed": [*network.allowed_cidrs, *getattr(network, "allowed_domains", ())],
            "ports": len(self.definition.open_ports.ports),
            "timeout": self.definition.timeout_secs,
        }

    @property
    def wants_exit_snapshot(self) -> bool:
        options = getattr(self.definition, "experimental_options_v2", {})
        return bool(options.get("enable_exit_snapshot", "").lower() == "true")


class Hub:
    """The whole state. Tests request faults in `faults.json`, and find what exists in `left.json`."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.key = secrets.token_bytes(32)
        self.url = ""
        self.apps: dict[str, tuple[str, str]] = {}
        self.images: dict[str, Image] = {}
        self.recipes: dict[str, str] = {}
        self.secrets: dict[str, dict[str, str]] = {}
        self.sandboxes: dict[str, Sandbox] = {}
        self.tasks: dict[str, Sandbox] = {}
        self.refused = 0  # requests rejected because of max_sandboxes
        self.snapshots = 0  # snapshots that were requested
        self.made = 0  # images made from sandboxes
        self._resetting: asyncio.Future[None] | None = None
        self._creates: collections.deque[float] = collections.deque()
        self.tell()

    def fault(self, name: str) -> float:
        """Return the value of a fault that a test requested; see Modal.fail."""
        return float(self._faults().get(name, 0))

    def _faults(self) -> dict[str, Any]:
        try:
            faults: dict[str, Any] = json.loads((self.state / "faults.json").read_text())
        except FileNotFoundError:
            return {}
        return faults

    def tell(self) -> None:
        """Write `left.json`, which tests read."""
        running = {item.id: item.about() for item in self.sandboxes.values() if item.result is None}
        saved = {name: item.ttl for name, item in self.images.items() if item.kind != "built"}
        new_path = self.state / "left.json.new"
        counts = {"built": len(self.recipes), "refused": self.refused}
        counts |= {"snapshots": self.snapshots, "made": self.made}
        new_path.write_text(json.dumps({"sandboxes": running, "images": saved, **counts}))
        os.replace(new_path, self.state / "left.json")

    def sandbox(self, sandbox_id: str) -> Sandbox:
        return self.sandboxes.get(sandbox_id) or fail(Status.NOT_FOUND, f"Sandbox with ID {sandbox_id} not found")

    def image(self, image_id: str) -> Image:
        return self.images.get(image_id) or fail(Status.NOT_FOUND, f"Image {image_id} not found")

    def access(self, sandbox: Sandbox) -> Any:
        """Return how to reach the command router of a sandbox."""
        jwt = token(self.key, task_id=sandbox.task_id, exp=time.time() + 900)
        return api.CommandRouterAccess(url=self._faults().get("router", self.url), jwt=jwt)

    def add_image(self, image: Image, kind: str, ttl: int | None = None) -> str:
        """Add an image that was made from a sandbox."""
        image_id = new_id("im")
        image.kind, image.ttl = kind, ttl
        image.result = RESULT(status=RESULT.GENERIC_STATUS_SUCCESS)
        self.images[image_id] = image
        self.made += 1
        self.tell()
        return image_id

    def variables(self, secret_ids: Any, sources: Any = ()) -> dict[str, str]:
        """Return the variables that secrets set."""
        variables: dict[str, str] = {}
        for secret_id in [*secret_ids, *(source.secret_id for source in sources if source.secret_id)]:
            variables |= self.secrets.get(secret_id) or fail(Status.NOT_FOUND, f"secret {secret_id} not found")
        for source in sources:
            variables |= dict(source.env.contents)
        return variables

    def refuse(self) -> None:
        """Reject a request when too many come at a time, with a retry delay, or when too many sandboxes run."""
        now, rate = time.monotonic(), int(self.fault("create_rate"))
        while self._creates and now - self._creates[0] > 1:
            self._creates.popleft()
        if rate and len(self._creates) >= rate:
            retry_policy = api.RPCRetryPolicy(retry_after_secs=1 - (now - self._creates[0]))
            fail(Status.RESOURCE_EXHAUSTED, "Sandbox create rate limit exceeded", retry_policy)
        limit = int(self.fault("max_sandboxes"))
        if limit and sum(sandbox.result is None for sandbox in self.sandboxes.values()) >= limit:
            self.refused += 1
            self.tell()
            fail(Status.RESOURCE_EXHAUSTED, f"workspace limit of {limit} running containers reached")
        self._creates.append(now)

    async def create(self, app_id: str, definition: Any, tags: Any, variables: dict[str, str], v2: bool) -> Sandbox:
        """Create a sandbox. It runs when this returns."""
        if app_id not in self.apps:
            fail(Status.NOT_FOUND, f"App {app_id} not found")
        if definition.name and self.named(self.apps[app_id][0], definition.name):
            fail(Status.ALREADY_EXISTS, f"Sandbox with name {definition.name} already exists")
        image = self.image(definition.image_id)
        self.refuse()
        await asyncio.sleep(self.fault("boot_delay"))
        sandbox_id = new_id("sb", 26 if v2 else 22)  # the library distinguishes the versions by the length
        box = Box(self.state, sandbox_id, image.layers)
        sandbox = Sandbox(sandbox_id, app_id, definition, {tag.tag_name: tag.tag_value for tag in tags}, box)
        sandbox.cwd = definition.workdir or image.workdir
        env = {"PATH": SEARCH, "HOME": "/root", "LANG": "C.UTF-8", **image.env, **variables}
        env |= {"MODAL_SANDBOX_ID": sandbox.id, "MODAL_TASK_ID": sandbox.task_id}
        await box.start(list(definition.entrypoint_args) or image.cmd, env, sandbox.cwd)
        self.sandboxes[sandbox.id] = self.tasks[sandbox.task_id] = sandbox
        sandbox.watcher = asyncio.create_task(self._watch(sandbox))
        self.tell()
        return sandbox

    def named(self, app: str, name: str, ended: bool = False) -> Sandbox | None:
        """Return the newest sandbox with a name."""
        for sandbox in sorted(self.sandboxes.values(), key=lambda sandbox: -sandbox.created_at):
            if (
                sandbox.name == name
                and self.apps.get(sandbox.app_id, ("",))[0] == app
                and (ended or not sandbox.result)
            ):
                return sandbox
        return None

    async def _watch(self, sandbox: Sandbox) -> None:
        """End a sandbox with its entry point, at its timeout or when it is idle, and save its files if requested."""
        definition = sandbox.definition
        deadline = time.monotonic() + definition.timeout_secs if definition.timeout_secs else None
        ended = asyncio.create_task(sandbox.box.process.wait())
        while not ended.done():
            await asyncio.wait([ended], timeout=0.2)
            now = time.monotonic()
            if any(process.code is None for process in sandbox.execs.values()):
                sandbox.active = now
            if deadline and now > deadline:
                sandbox.reason = sandbox.reason or RESULT.GENERIC_STATUS_TIMEOUT
            elif definition.idle_timeout_secs and now - sandbox.active > definition.idle_timeout_secs:
                sandbox.reason = sandbox.reason or RESULT.GENERIC_STATUS_IDLE_TIMEOUT
            if sandbox.reason:
                sandbox.box.kill()
        code = ended.result()
        if sandbox.wants_exit_snapshot and not self.fault("exit_fails"):
            layers = await sandbox.box.snapshot(new_id("la", 8))
            sandbox.exit_image = self.add_image(Image(layers, sandbox.box.env, sandbox.cwd), "exit snapshot")
        exit_status = RESULT.GENERIC_STATUS_SUCCESS if code == 0 else RESULT.GENERIC_STATUS_FAILURE
        sandbox.result = RESULT(status=sandbox.reason or exit_status, exitcode=code if code >= 0 else 128 - code)
        self.tell()
        sandbox.done.set()
        await sandbox.box.discard()

    def reset(self) -> None:
        """End all sandboxes and delete the images that were made from sandboxes."""
        self._resetting = asyncio.ensure_future(self._reset())

    async def _reset(self) -> None:
        await asyncio.gather(*(self.terminate(sandbox) for sandbox in self.sandboxes.values()))
        self.sandboxes.clear()
        self.tasks.clear()
        for name in [name for name, image in self.images.items() if image.kind != "built"]:
            del self.images[name]
        (self.state / "faults.json").unlink(missing_ok=True)
        self.tell()
        (self.state / "reset").touch()

    async def terminate(self, sandbox: Sandbox) -> None:
        """End a sandbox now."""
        if sandbox.result is None:
            sandbox.reason = RESULT.GENERIC_STATUS_TERMINATED
            sandbox.box.kill()
            await sandbox.done.wait()
