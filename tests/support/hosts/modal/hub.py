"""What the service knows: apps, images and sandboxes, when these end, and what it refuses."""

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
    """Layers and settings. A recipe is built by whoever asks first; others wait."""

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
    """One machine of a user's."""

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
        """What a test may want to know of it."""
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
    """All of it. What a test wants to go wrong stands in `faults.json`; what there is, in `left.json`."""

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
        self.refused = 0  # for want of room
        self.snapshots = 0  # that were asked for
        self.made = 0  # images of machines
        self._resetting: asyncio.Future[None] | None = None
        self._creates: collections.deque[float] = collections.deque()
        self.tell()

    def fault(self, name: str) -> float:
        """How much of a fault is wanted now; see Modal.fail."""
        return float(self._faults().get(name, 0))

    def _faults(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.state / "faults.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def tell(self) -> None:
        """Write down what there is, for tests that ask."""
        live = {one.id: one.about() for one in self.sandboxes.values() if one.result is None}
        kept = {name: one.ttl for name, one in self.images.items() if one.kind != "built"}
        fresh = self.state / "left.json.new"
        counts = {"built": len(self.recipes), "refused": self.refused}
        counts |= {"snapshots": self.snapshots, "made": self.made}
        fresh.write_text(json.dumps({"sandboxes": live, "images": kept, **counts}))
        os.replace(fresh, self.state / "left.json")

    def sandbox(self, sandbox_id: str) -> Sandbox:
        return self.sandboxes.get(sandbox_id) or fail(Status.NOT_FOUND, f"Sandbox with ID {sandbox_id} not found")

    def image(self, image_id: str) -> Image:
        return self.images.get(image_id) or fail(Status.NOT_FOUND, f"Image {image_id} not found")

    def access(self, sandbox: Sandbox) -> Any:
        """How to reach its command router."""
        good = token(self.key, task_id=sandbox.task_id, exp=time.time() + 900)
        return api.CommandRouterAccess(url=self._faults().get("router", self.url), jwt=good)

    def add_image(self, image: Image, kind: str, ttl: int | None = None) -> str:
        """Keep one that was made from a machine."""
        image_id = new_id("im")
        image.kind, image.ttl = kind, ttl
        image.result = RESULT(status=RESULT.GENERIC_STATUS_SUCCESS)
        self.images[image_id] = image
        self.made += 1
        self.tell()
        return image_id

    def variables(self, secret_ids: Any, sources: Any = ()) -> dict[str, str]:
        """What secrets set."""
        found: dict[str, str] = {}
        for one in [*secret_ids, *(source.secret_id for source in sources if source.secret_id)]:
            found |= self.secrets.get(one) or fail(Status.NOT_FOUND, f"secret {one} not found")
        for source in sources:
            found |= dict(source.env.contents)
        return found

    def refuse(self) -> None:
        """Too many at a time, with word of when to come back; or too many at all."""
        now, rate = time.monotonic(), int(self.fault("create_rate"))
        while self._creates and now - self._creates[0] > 1:
            self._creates.popleft()
        if rate and len(self._creates) >= rate:
            after = api.RPCRetryPolicy(retry_after_secs=1 - (now - self._creates[0]))
            fail(Status.RESOURCE_EXHAUSTED, "Sandbox create rate limit exceeded", after)
        most = int(self.fault("max_sandboxes"))
        if most and sum(one.result is None for one in self.sandboxes.values()) >= most:
            self.refused += 1
            self.tell()
            fail(Status.RESOURCE_EXHAUSTED, f"workspace limit of {most} running containers reached")
        self._creates.append(now)

    async def create(self, app_id: str, definition: Any, tags: Any, given: dict[str, str], v2: bool) -> Sandbox:
        """A new sandbox; it runs when this returns."""
        if app_id not in self.apps:
            fail(Status.NOT_FOUND, f"App {app_id} not found")
        if definition.name and self.named(self.apps[app_id][0], definition.name):
            fail(Status.ALREADY_EXISTS, f"Sandbox with name {definition.name} already exists")
        image = self.image(definition.image_id)
        self.refuse()
        await asyncio.sleep(self.fault("boot_delay"))
        sandbox_id = new_id("sb", 26 if v2 else 22)  # by which the library tells the one from the other
        box = Box(self.state, sandbox_id, image.layers)
        made = Sandbox(sandbox_id, app_id, definition, {one.tag_name: one.tag_value for one in tags}, box)
        made.cwd = definition.workdir or image.workdir
        env = {"PATH": SEARCH, "HOME": "/root", "LANG": "C.UTF-8", **image.env, **given}
        env |= {"MODAL_SANDBOX_ID": made.id, "MODAL_TASK_ID": made.task_id}
        await box.start(list(definition.entrypoint_args) or image.cmd, env, made.cwd)
        self.sandboxes[made.id] = self.tasks[made.task_id] = made
        made.watcher = asyncio.create_task(self._watch(made))
        self.tell()
        return made

    def named(self, app: str, name: str, ended: bool = False) -> Sandbox | None:
        """The newest of that name."""
        for one in sorted(self.sandboxes.values(), key=lambda one: -one.created_at):
            if one.name == name and self.apps.get(one.app_id, ("",))[0] == app and (ended or not one.result):
                return one
        return None

    async def _watch(self, one: Sandbox) -> None:
        """End it with its entry point, at its time, or when it is idle; keep its files if that was asked for."""
        definition = one.definition
        deadline = time.monotonic() + definition.timeout_secs if definition.timeout_secs else None
        ended = asyncio.create_task(one.box.process.wait())
        while not ended.done():
            await asyncio.wait([ended], timeout=0.2)
            now = time.monotonic()
            if any(process.code is None for process in one.execs.values()):
                one.active = now
            if deadline and now > deadline:
                one.reason = one.reason or RESULT.GENERIC_STATUS_TIMEOUT
            elif definition.idle_timeout_secs and now - one.active > definition.idle_timeout_secs:
                one.reason = one.reason or RESULT.GENERIC_STATUS_IDLE_TIMEOUT
            if one.reason:
                one.box.kill()
        code = ended.result()
        if one.wants_exit_snapshot and not self.fault("exit_fails"):
            layers = await one.box.snapshot(new_id("la", 8))
            one.exit_image = self.add_image(Image(layers, one.box.env, one.cwd), "exit snapshot")
        good = RESULT.GENERIC_STATUS_SUCCESS if code == 0 else RESULT.GENERIC_STATUS_FAILURE
        one.result = RESULT(status=one.reason or good, exitcode=code if code >= 0 else 128 - code)
        self.tell()
        one.done.set()
        await one.box.discard()

    def reset(self) -> None:
        """End all sandboxes and forget the images that were made of some."""
        self._resetting = asyncio.ensure_future(self._reset())

    async def _reset(self) -> None:
        await asyncio.gather(*(self.terminate(one) for one in self.sandboxes.values()))
        self.sandboxes.clear()
        self.tasks.clear()
        for name in [name for name, image in self.images.items() if image.kind != "built"]:
            del self.images[name]
        (self.state / "faults.json").unlink(missing_ok=True)
        self.tell()
        (self.state / "reset").touch()

    async def terminate(self, one: Sandbox) -> None:
        """End it now."""
        if one.result is None:
            one.reason = RESULT.GENERIC_STATUS_TERMINATED
            one.box.kill()
            await one.done.wait()
