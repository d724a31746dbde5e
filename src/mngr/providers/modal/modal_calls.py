"""Uses Modal's library to create, find, snapshot and end sandboxes, and to run commands in them."""

from __future__ import annotations

import asyncio
import json
import os
import time

from mngr.base.untrusted_json import get_text
from mngr.providers.bridge.engine_interface import EngineError, UndoableResult
from mngr.providers.modal import run_in_sandbox
from mngr.providers.modal.check_control_plane import (
    LATE_AFTER,
    RETRY_INTERVAL,
    find_connection_error,
    run_if_reachable,
    translate_error,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from typing import Any, TypeVar

    from mngr.providers.bridge.engine_interface import Note, Verb
    from mngr.providers.bridge.messages import TerminalSpec
    from mngr.providers.modal.run_in_sandbox import BufferedCommand, SandboxCommand

    T = TypeVar("T")

MAX_PARALLEL = 32  # sandboxes that are created, saved or ended at the same time
SNAPSHOT_TIMEOUT = 900  # seconds; the time limit of a snapshot
EXIT_IMAGE_TIMEOUT = 120.0  # seconds; for the image of an ended sandbox
BUSY_CHECK_SECONDS = 20.0  # pause between two starts of keep_busy.sh
REQUIRED_PACKAGES = "git tmux procps tar ca-certificates curl less openssh-client rsync".split()


class ModalBridgeEngine:
    """One workspace. Sandboxes are identified by their ids, because a listing can be a minute old."""

    def __init__(self, options: dict[str, object]) -> None:
        self._options = options
        self._silence = ""  # the reason of the last failed connection
        self._silent_until = 0.0  # until then, calls fail at once with this reason
        self._ready: asyncio.Future[Any] | None = None
        self._sdk: Any = None
        self._app: Any = None
        self._sandboxes: dict[str, Any] = {}
        self._images: dict[str, asyncio.Future[Any]] = {}
        self._commands: set[SandboxCommand | BufferedCommand] = set()
        self._left: dict[str, list[str]] = {}  # by sandbox, the marks of lost commands that may still run
        self._pulse: asyncio.Task[None] | None = None
        self._kept: dict[str, float] = {}
        self._room: asyncio.Semaphore
        self.verbs: Mapping[str, Verb] = {
            "create": self.create_sandbox,
            "find_by_name": self.find_sandbox_by_name,
            "get_state": self.get_sandbox_state,
            "snapshot": self.save_snapshot,
            "terminate": self.terminate_sandbox,
            "delete_images": self.delete_images,
            "list": self.list_resources,
        }

    async def exec(self, host: dict[str, object], program: str, terminal: TerminalSpec | None) -> SandboxCommand:
        await self._connect()
        sandbox = get_text(host, "sandbox")
        command = await self._run_explained(sandbox, self._start_command(sandbox, program, terminal))
        self._commands.add(command)
        self._start_watch()
        command._waiting.add_done_callback(lambda _: self._forget_command(sandbox, command))
        if host.get("stay"):
            asyncio.ensure_future(self._keep_alive(host))  # noqa: RUF006
        return command

    async def run_buffered(self, host: dict[str, object], program: str, data: bytes) -> tuple[bytes, bytes, int]:
        await self._connect()
        if host.get("stay"):
            asyncio.ensure_future(self._keep_alive(host))  # noqa: RUF006
        sandbox = get_text(host, "sandbox")
        return await self._run_explained(sandbox, self._run_to_end(sandbox, program, data))

    async def _run_to_end(self, sandbox_id: str, program: str, data: bytes) -> tuple[bytes, bytes, int]:
        command = run_in_sandbox.BufferedCommand(await self._get_free_sandbox(sandbox_id), program, data)
        self._commands.add(command)
        self._start_watch()
        try:
            return await command.run()
        finally:
            self._forget_command(sandbox_id, command)

    async def _start_command(self, sandbox_id: str, program: str, terminal: TerminalSpec | None) -> SandboxCommand:
        sandbox, mark = await self._get_free_sandbox(sandbox_id), run_in_sandbox.new_marker()
        try:
            return await run_if_reachable(run_in_sandbox.start_command(sandbox, mark, program, terminal))
        except BaseException:  # The command may have started.
            self._left.setdefault(sandbox_id, []).append(mark)
            raise

    def _forget_command(self, sandbox_id: str, command: SandboxCommand | BufferedCommand) -> None:
        self._commands.discard(command)
        if not command.has_ended:
            self._left.setdefault(sandbox_id, []).append(command.mark)

    async def _get_free_sandbox(self, sandbox_id: str) -> Any:
        """Return the sandbox after ending its lost commands, because one may hold a lock."""
        sandbox = await self._get_sandbox(sandbox_id)
        for mark in self._left.pop(sandbox_id, []):
            try:
                await run_if_reachable(run_in_sandbox.kill_command(sandbox, mark))
            except EngineError:  # The sandbox has ended with all its commands.
                pass
        return sandbox

    async def _run_explained(self, sandbox_id: str, work: Awaitable[T]) -> T:
        """Return the result of `work`. If the sandbox takes no commands, raise an error that says why."""
        try:
            return await work
        except EngineError as error:
            if error.kind in (
                "not_found",
                "usage",
                "exists",
                "ended",
            ):  # The error of an ended sandbox depends on the version.
                raise await self._explain_end(sandbox_id) from None
            raise

    async def _explain_end(self, sandbox_id: str) -> EngineError:
        """Return an error that says whether a sandbox that takes no commands can be started again."""
        state = await self.get_sandbox_state(None, sandbox_id, wait=5.0)
        if state["state"] == "gone":
            return EngineError("gone", "its sandbox has ended, and its files were not saved")
        if state["state"] == "running":
            return EngineError("unreachable", "its sandbox runs, but does not accept commands")
        return EngineError("stopped", "its sandbox ended by itself")

    def _start_watch(self) -> None:
        if self._pulse is None or self._pulse.done():
            self._pulse = asyncio.ensure_future(self._watch_commands())

    async def _watch_commands(self) -> None:
        """While commands run, check the connection. Fail all commands after two failed checks in a row."""
        missed = 0
        while self._commands:
            await asyncio.sleep(RETRY_INTERVAL)
            reason = await find_connection_error(says=True)
            missed = missed + 1 if reason else 0
            if missed == 2:
                for command in list(self._commands):
                    command.fail(EngineError("unreachable", reason))
                self._commands.clear()

    async def _keep_alive(self, host: dict[str, object]) -> None:
        """Run keep_busy.sh while agents are busy, because Modal counts only a running command as activity."""
        sandbox_id = get_text(host, "sandbox")
        if time.monotonic() - self._kept.get(sandbox_id, -BUSY_CHECK_SECONDS) < BUSY_CHECK_SECONDS:
            return
        self._kept[sandbox_id] = time.monotonic()
        try:
            sandbox = await self._get_sandbox(sandbox_id)
            await sandbox.exec.aio("sh", "-c", host["stay"])
        except Exception:  # Then the sandbox may end.
            pass

    async def _connect(self) -> None:
        """Load the library and find the app once. Raise EngineError if Modal does not answer or rejects the login."""
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._load_library())
        try:
            await asyncio.shield(self._ready)
        except Exception:
            self._ready = None
            raise

    async def _load_library(self) -> None:
        """Import Modal's library and look up the app, after checking that Modal answers."""
        self._room = asyncio.Semaphore(MAX_PARALLEL)
        if time.monotonic() > self._silent_until:
            self._silence = await find_connection_error(says=True)
            self._silent_until = time.monotonic() + LATE_AFTER if self._silence else 0.0
        if self._silence:
            raise EngineError("unreachable", f"Modal cannot be reached: {self._silence}")
        os.environ.setdefault("MODAL_LOGLEVEL", "ERROR")
        os.environ.setdefault("MODAL_MAX_THROTTLE_WAIT", "10")
        try:
            import modal  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise EngineError("missing", str(error)) from error
        self._sdk = modal
        name = str(self._options.get("app") or "mngr")
        words = {"environment_name": self._options["environment"]} if self._options.get("environment") else {}
        self._app = await run_if_reachable(modal.App.lookup.aio(name, create_if_missing=True, **words))

    async def _get_sandbox(self, sandbox_id: str) -> Any:
        """Return the library's object for a sandbox."""
        if sandbox_id not in self._sandboxes:
            self._sandboxes[sandbox_id] = await run_if_reachable(self._sdk.Sandbox.from_id.aio(sandbox_id))
        return self._sandboxes[sandbox_id]

    async def create_sandbox(
        self,
        note: Note,
        origin: dict[str, list[str] | str],
        name: str,
        tags: dict[str, str],
        argv: list[str],
        shape: dict[str, object],
    ) -> dict[str, object]:
        """Create a sandbox of this name, or use the existing one with this tag. Return its id and image."""
        await self._connect()
        image = await self._get_image(note, origin)
        async with self._room:
            try:
                sandbox = await run_if_reachable(
                    self._sdk.Sandbox.create.aio(
                        *argv,
                        app=self._app,
                        image=image,
                        name=name,
                        tags=tags,
                        experimental_options={"enable_exit_snapshot": True},
                        **shape,
                    )
                )
            except EngineError as error:
                if error.kind != "exists":
                    raise
                sandbox = await self._find_by_name(name)
                if sandbox is None:
                    raise EngineError("busy", f"a sandbox called {name} is still ending") from None
                if (await self._read_tags(sandbox)).get("tag") != tags["tag"]:
                    raise EngineError(
                        "other", f"there is already a sandbox called {name} that mngr did not create"
                    ) from None
        self._sandboxes[sandbox.object_id] = sandbox
        return {"sandbox": sandbox.object_id, "alike": image.object_id}

    async def _get_image(self, note: Note, origin: dict[str, list[str] | str]) -> Any:
        """Return the image. The first call builds it, and others wait for the same build."""
        if "id" in origin:
            return await run_if_reachable(self._sdk.Image.from_id.aio(origin["id"]))
        key = json.dumps(origin, sort_keys=True)
        if key not in self._images:
            note("building the image, if Modal does not have it yet")
            self._images[key] = asyncio.ensure_future(self._build_image(origin))
        try:
            return await asyncio.shield(self._images[key])
        except Exception:
            self._images.pop(key, None)
            raise

    async def _build_image(self, origin: dict[str, list[str] | str]) -> Any:
        """Build the image that `origin` describes. Raise EngineError if that fails."""
        image_class = self._sdk.Image
        try:
            if origin.get("dockerfile"):
                image = image_class.from_dockerfile(origin["dockerfile"])
            elif origin.get("image"):
                image = image_class.from_registry(origin["image"])
            else:
                image = image_class.debian_slim().apt_install(*REQUIRED_PACKAGES)
            if origin.get("apt"):
                image = image.apt_install(*origin["apt"])
            if origin.get("pip"):
                image = image.pip_install(*origin["pip"])
            if origin.get("run"):
                image = image.run_commands(*origin["run"])
            return await run_if_reachable(image.build.aio(self._app))
        except OSError as error:
            raise EngineError("usage", str(error)) from error
        except EngineError as error:
            if error.kind in ("busy", "unreachable", "auth"):
                raise
            raise EngineError("other", f"the image could not be built: {error.message}") from error

    async def _find_by_name(self, name: str) -> Any:
        """Return the running sandbox of this name, or None. Unlike a listing, the answer is always current."""
        try:
            app = str(self._options.get("app") or "mngr")
            words = {"environment_name": self._options["environment"]} if self._options.get("environment") else {}
            return await run_if_reachable(self._sdk.Sandbox.from_name.aio(app, name, **words))
        except EngineError as error:
            if error.kind == "not_found":
                return None
            raise

    async def find_sandbox_by_name(self, note: Note, name: str) -> dict[str, object]:
        """Return the id and tags of the running sandbox of this name, or an empty dict."""
        await self._connect()
        sandbox = await self._find_by_name(name)
        return {} if sandbox is None else {"sandbox": sandbox.object_id, "tags": await self._read_tags(sandbox)}

    async def get_sandbox_state(
        self, note: Note | None, sandbox: str, wait: float = EXIT_IMAGE_TIMEOUT
    ) -> dict[str, object]:
        """Return whether a sandbox is `running`, `ended` or `gone`. An ended one has the `image` of its files.

        The image is None if Modal does not provide it within `wait` seconds.
        """
        await self._connect()
        try:
            sandbox_object = await self._get_sandbox(sandbox)
            if await run_if_reachable(sandbox_object.poll.aio()) is None:
                return {"state": "running"}
            image = await self._find_exit_image(sandbox_object, wait)
            if image:  # An interrupted stop may have deleted the image.
                await run_if_reachable(self._sdk.Image.from_id(image).build.aio(self._app))
            return {"state": "ended", "image": image}
        except EngineError as error:
            if error.kind not in ("not_found", "usage"):
                raise
            return {"state": "gone"}

    async def _find_exit_image(self, sandbox: Any, wait: float) -> str | None:
        """Return the image of a sandbox's files at its end, or None after `wait` seconds."""
        try:
            image = await sandbox._experimental_get_exit_snapshot.aio(timeout=wait)
        except Exception as error:
            if type(error).__name__ == "TimeoutError":
                return None
            if type(error).__name__ == "SnapshotCreationError":
                raise EngineError("not_found", str(error)) from error
            raise translate_error(error) from error
        return str(image.object_id)

    async def save_snapshot(self, note: Note, sandbox: str) -> UndoableResult:
        """Save the files of a running sandbox as an image that does not expire."""
        await self._connect()
        async with self._room:
            sandbox_object = await self._get_sandbox(sandbox)
            snapshot_task = asyncio.ensure_future(
                run_if_reachable(sandbox_object.snapshot_filesystem.aio(timeout=SNAPSHOT_TIMEOUT, ttl=None))
            )
            try:
                image = await asyncio.shield(snapshot_task)
            except asyncio.CancelledError:  # Nobody could find the image again, so delete it.
                await self.delete_images(None, [(await snapshot_task).object_id])
                raise

        async def undo() -> None:
            await self.delete_images(None, [image.object_id])

        return UndoableResult({"image": image.object_id}, undo)

    async def terminate_sandbox(
        self, note: Note, name: str, tag: str, sandbox: str | None, spare: str | None = None
    ) -> dict[str, object]:
        """End the sandbox with this id, or with this name and tag. Delete its last image unless it is `spare`."""
        await self._connect()
        async with self._room:
            sandboxes = {}
            named = await self._find_by_name(name)
            if named is not None and (await self._read_tags(named)).get("tag") == tag:
                sandboxes[named.object_id] = named
            if sandbox:
                try:
                    sandboxes[sandbox] = await self._get_sandbox(sandbox)
                except EngineError as error:
                    if error.kind not in ("not_found", "usage"):
                        raise
            for sandbox_id, sandbox_object in sandboxes.items():
                await self._terminate_and_delete_image(sandbox_object, spare)
                self._sandboxes.pop(sandbox_id, None)
        return {}

    async def _terminate_and_delete_image(self, sandbox: Any, spare: str | None) -> None:
        """End a sandbox and delete the image of its files, unless it is `spare`."""
        try:
            await run_if_reachable(sandbox.terminate.aio(wait=True))
        except EngineError as error:
            if error.kind not in ("not_found", "usage", "ended"):
                raise
        try:
            image = await self._find_exit_image(sandbox, EXIT_IMAGE_TIMEOUT)
        except EngineError as error:
            if error.kind not in ("not_found", "usage"):
                raise
            return
        if image is None:
            raise EngineError("busy", "Modal is still saving the files of a sandbox that has ended")
        if image != spare:
            await self.delete_images(None, [image])

    async def delete_images(self, note: Note | None, images: list[str]) -> dict[str, object]:
        """Delete images, if they exist."""
        await self._connect()
        from modal.experimental import image_delete  # type: ignore[import-not-found, unused-ignore]

        for image in images:
            try:
                await run_if_reachable(image_delete.aio(image))
            except EngineError as error:
                if error.kind not in ("not_found", "usage"):
                    raise
        return {}

    async def list_resources(self, note: Note, tags: dict[str, str]) -> dict[str, object]:
        """Return the running sandboxes with these tags. A sandbox that was just created may be missing."""
        await self._connect()
        sandboxes = await run_if_reachable(self._list_sandboxes(tags))
        tags_of_each = await asyncio.gather(*(self._read_tags_limited(sandbox) for sandbox in sandboxes))
        rows = [
            {"sandbox": sandbox.object_id, "tags": own_tags}
            for sandbox, own_tags in zip(sandboxes, tags_of_each)
            if tags.items() <= own_tags.items()
        ]
        return {"sandboxes": rows}

    async def _list_sandboxes(self, tags: dict[str, str]) -> list[Any]:
        return [sandbox async for sandbox in self._sdk.Sandbox.list.aio(app_id=self._app.app_id, tags=tags)]

    async def _read_tags_limited(self, sandbox: Any) -> dict[str, str]:
        async with self._room:
            return await self._read_tags(sandbox)

    async def _read_tags(self, sandbox: Any) -> dict[str, str]:
        """Return the tags of a sandbox, or an empty dict if it has ended."""
        try:
            return dict(await run_if_reachable(sandbox.get_tags.aio()))
        except EngineError as error:
            if error.kind in ("not_found", "usage"):  # The sandbox has ended.
                return {}
            raise

    async def close(self) -> None:
        pass


ENGINE = ModalBridgeEngine
