"""Modal, by its own library: sandboxes are made, found, kept as images and ended; commands go in by its exec."""

from __future__ import annotations

import asyncio
import json
import os
import time

from mngr.providers.bridge.protocol import EngineError, UndoableResult
from mngr.providers.modal import sandbox_command
from mngr.providers.modal.reachability import (
    LATE_AFTER,
    RETRY_INTERVAL,
    find_connection_error,
    run_if_reachable,
    translate_error,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any, TypeVar

    from mngr.providers.bridge.protocol import Note
    from mngr.providers.modal.sandbox_command import BufferedCommand, SandboxCommand

    T = TypeVar("T")

MAX_PARALLEL = 32  # sandboxes that are made, kept or ended at a time
SNAPSHOT_TIMEOUT = 900  # seconds that a snapshot may take
EXIT_IMAGE_TIMEOUT = 120.0  # seconds until the files of a sandbox that has ended must be there
BUSY_CHECK_SECONDS = 20.0  # seconds for which a look whether agents are busy is good
REQUIRED_PACKAGES = "git tmux procps tar ca-certificates curl less openssh-client rsync".split()


class ModalBridgeEngine:
    """One workspace. Sandboxes are known by their ids: what a listing says can be a minute old."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._silence = ""  # why nobody answered
        self._silent_until = 0.0  # who asks until then need not wait for the same
        self._ready: asyncio.Future[Any] | None = None
        self._sdk: Any = None
        self._app: Any = None
        self._sandboxes: dict[str, Any] = {}
        self._images: dict[str, asyncio.Future[Any]] = {}
        self._commands: set[SandboxCommand | BufferedCommand] = set()
        self._left: dict[str, list[str]] = {}  # by sandbox, the marks of commands that may run on unheard
        self._pulse: asyncio.Task[None] | None = None
        self._kept: dict[str, float] = {}
        self._room: asyncio.Semaphore

    async def exec(self, host: dict[str, Any], program: str, terminal: list[Any] | None) -> SandboxCommand:
        await self._connect()
        sandbox = host["sandbox"]
        command = await self._run_explained(sandbox, self._start_command(sandbox, program, terminal))
        self._commands.add(command)
        self._start_watch()
        command._waiting.add_done_callback(lambda _: self._forget_command(sandbox, command))
        if host.get("stay"):
            asyncio.ensure_future(self._keep_alive(host))  # noqa: RUF006
        return command

    async def whole(self, host: dict[str, Any], program: str, data: bytes) -> tuple[bytes, bytes, int]:
        await self._connect()
        if host.get("stay"):
            asyncio.ensure_future(self._keep_alive(host))  # noqa: RUF006
        return await self._run_explained(host["sandbox"], self._run_buffered(host["sandbox"], program, data))

    async def _run_buffered(self, sandbox_id: str, program: str, data: bytes) -> tuple[bytes, bytes, int]:
        command = sandbox_command.BufferedCommand(await self._get_free_sandbox(sandbox_id), program, data)
        self._commands.add(command)
        self._start_watch()
        try:
            return await command.run()
        finally:
            self._forget_command(sandbox_id, command)

    async def _start_command(self, sandbox_id: str, program: str, terminal: list[Any] | None) -> SandboxCommand:
        sandbox, mark = await self._get_free_sandbox(sandbox_id), sandbox_command.new_marker()
        try:
            return await run_if_reachable(sandbox_command.start_command(sandbox, mark, program, terminal))
        except BaseException:  # it may have been begun
            self._left.setdefault(sandbox_id, []).append(mark)
            raise

    def _forget_command(self, sandbox_id: str, command: SandboxCommand | BufferedCommand) -> None:
        self._commands.discard(command)
        if not command.has_ended:
            self._left.setdefault(sandbox_id, []).append(command.mark)

    async def _get_free_sandbox(self, sandbox_id: str) -> Any:
        """The sandbox, without the commands that were lost there: one may hold a lock."""
        sandbox = await self._get_sandbox(sandbox_id)
        for mark in self._left.pop(sandbox_id, []):
            try:
                await run_if_reachable(sandbox_command.kill_command(sandbox, mark))
            except EngineError:  # the sandbox has ended, and all in it
                pass
        return sandbox

    async def _run_explained(self, sandbox_id: str, work: Awaitable[T]) -> T:
        """What it gives; for a sandbox that takes no commands, whether it can be had again."""
        try:
            return await work
        except EngineError as error:
            if error.kind in ("not_found", "usage", "exists", "ended"):  # after the end, by version
                raise await self._explain_end(sandbox_id) from None
            raise

    async def _explain_end(self, sandbox_id: str) -> EngineError:
        """Whether a sandbox that takes no commands can be had again."""
        state = await self.do_state(None, sandbox_id, wait=5.0)
        if state["state"] == "gone":
            return EngineError("gone", "its sandbox has ended and its files were not kept")
        if state["state"] == "running":
            return EngineError("unreachable", "its sandbox runs, but takes no commands")
        return EngineError("stopped", "its sandbox ended by itself")

    def _start_watch(self) -> None:
        if self._pulse is None or self._pulse.done():
            self._pulse = asyncio.ensure_future(self._watch_commands())

    async def _watch_commands(self) -> None:
        """While commands run: when nobody answers twice in a row, they are lost."""
        missed = 0
        while self._commands:
            await asyncio.sleep(RETRY_INTERVAL)
            why = await find_connection_error(says=True)
            missed = missed + 1 if why else 0
            if missed == 2:
                for command in list(self._commands):
                    command.fail(EngineError("unreachable", why))
                self._commands.clear()

    async def _keep_alive(self, host: dict[str, Any]) -> None:
        """To Modal, only a command counts as work: one runs for as long as agents are busy."""
        sandbox_id = host["sandbox"]
        if time.monotonic() - self._kept.get(sandbox_id, -BUSY_CHECK_SECONDS) < BUSY_CHECK_SECONDS:
            return
        self._kept[sandbox_id] = time.monotonic()
        try:
            sandbox = await self._get_sandbox(sandbox_id)
            await sandbox.exec.aio("sh", "-c", host["stay"])
        except Exception:  # it ends, then
            pass

    async def _connect(self) -> None:
        """The library and the app, once; Refused when the service does not answer or does not know us."""
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._load_library())
        try:
            await asyncio.shield(self._ready)
        except Exception:
            self._ready = None
            raise

    async def _load_library(self) -> None:
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
        if sandbox_id not in self._sandboxes:
            self._sandboxes[sandbox_id] = await run_if_reachable(self._sdk.Sandbox.from_id.aio(sandbox_id))
        return self._sandboxes[sandbox_id]

    async def do_create(
        self,
        note: Note,
        origin: dict[str, Any],
        name: str,
        tags: dict[str, str],
        argv: list[str],
        shape: dict[str, Any],
    ) -> dict[str, Any]:
        """A sandbox of that name, or the one that has it."""
        await self._connect()
        image = await self._get_image(note, origin)
        async with self._room:
            try:
                made = await run_if_reachable(
                    self._sdk.Sandbox.create.aio(
                        *argv, app=self._app, image=image, name=name, tags=tags,
                        experimental_options={"enable_exit_snapshot": True}, **shape,
                    )
                )  # fmt: skip
            except EngineError as error:
                if error.kind != "exists":
                    raise
                made = await self._find_by_name(name)
                if made is None:
                    raise EngineError("busy", f"a sandbox called {name} is just ending") from None
                if (await self._read_tags(made)).get("tag") != tags["tag"]:
                    raise EngineError("other", f"there is a sandbox called {name} that is not ours") from None
        self._sandboxes[made.object_id] = made
        return {"sandbox": made.object_id, "alike": image.object_id}

    async def _get_image(self, note: Note, origin: dict[str, Any]) -> Any:
        """The image, which is built by whoever needs it first."""
        if "id" in origin:
            return await run_if_reachable(self._sdk.Image.from_id.aio(origin["id"]))
        key = json.dumps(origin, sort_keys=True)
        if key not in self._images:
            note("building the image, unless Modal has it")
            self._images[key] = asyncio.ensure_future(self._build_image(origin))
        try:
            return await asyncio.shield(self._images[key])
        except Exception:
            self._images.pop(key, None)
            raise

    async def _build_image(self, origin: dict[str, Any]) -> Any:
        kind = self._sdk.Image
        try:
            if origin.get("dockerfile"):
                image = kind.from_dockerfile(origin["dockerfile"])
            elif origin.get("image"):
                image = kind.from_registry(origin["image"])
            else:
                image = kind.debian_slim().apt_install(*REQUIRED_PACKAGES)
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
        """The sandbox of that name that runs; this is not a listing, and so it does not lag."""
        try:
            app = str(self._options.get("app") or "mngr")
            words = {"environment_name": self._options["environment"]} if self._options.get("environment") else {}
            return await run_if_reachable(self._sdk.Sandbox.from_name.aio(app, name, **words))
        except EngineError as error:
            if error.kind == "not_found":
                return None
            raise

    async def do_named(self, note: Note, name: str) -> dict[str, Any]:
        """The sandbox of that name and its tags, if it runs."""
        await self._connect()
        found = await self._find_by_name(name)
        return {} if found is None else {"sandbox": found.object_id, "tags": await self._read_tags(found)}

    async def do_state(self, note: Note | None, sandbox: str, wait: float = EXIT_IMAGE_TIMEOUT) -> dict[str, Any]:
        """running, ended with the `image` of its files (not yet, perhaps, when it may not wait), or gone."""
        await self._connect()
        try:
            one = await self._get_sandbox(sandbox)
            if await run_if_reachable(one.poll.aio()) is None:
                return {"state": "running"}
            image = await self._find_exit_image(one, wait)
            if image:  # a stop that was cut off may have deleted it
                await run_if_reachable(self._sdk.Image.from_id(image).build.aio(self._app))
            return {"state": "ended", "image": image}
        except EngineError as error:
            if error.kind not in ("not_found", "usage"):
                raise
            return {"state": "gone"}

    async def _find_exit_image(self, sandbox: Any, wait: float) -> str | None:
        """The image of the files that a sandbox had when it ended; None when it is not there in time."""
        try:
            image = await sandbox._experimental_get_exit_snapshot.aio(timeout=wait)
        except Exception as error:
            if type(error).__name__ == "TimeoutError":
                return None
            if type(error).__name__ == "SnapshotCreationError":
                raise EngineError("not_found", str(error)) from error
            raise translate_error(error) from error
        return str(image.object_id)

    async def do_snapshot(self, note: Note, sandbox: str) -> UndoableResult:
        """The image of the files of one that runs; it does not expire."""
        await self._connect()
        async with self._room:
            one = await self._get_sandbox(sandbox)
            making = asyncio.ensure_future(
                run_if_reachable(one.snapshot_filesystem.aio(timeout=SNAPSHOT_TIMEOUT, ttl=None))
            )
            try:
                image = await asyncio.shield(making)
            except asyncio.CancelledError:  # an image that nobody waits for could never be found again
                await self.do_delete(None, [(await making).object_id])
                raise

        async def undo() -> None:
            await self.do_delete(None, [image.object_id])

        return UndoableResult({"image": image.object_id}, undo)

    async def do_end(
        self, note: Note, name: str, tag: str, sandbox: str | None, spare: str | None = None
    ) -> dict[str, Any]:
        """None of that id, or of that name and tag, runs; what it left when it ended is deleted, but for one image."""
        await self._connect()
        async with self._room:
            found = {}
            named = await self._find_by_name(name)
            if named is not None and (await self._read_tags(named)).get("tag") == tag:
                found[named.object_id] = named
            if sandbox:
                try:
                    found[sandbox] = await self._get_sandbox(sandbox)
                except EngineError as error:
                    if error.kind not in ("not_found", "usage"):
                        raise
            for sandbox_id, one in found.items():
                await self._terminate(one, spare)
                self._sandboxes.pop(sandbox_id, None)
        return {}

    async def _terminate(self, one: Any, spare: str | None) -> None:
        try:
            await run_if_reachable(one.terminate.aio(wait=True))
        except EngineError as error:
            if error.kind not in ("not_found", "usage", "ended"):
                raise
        try:
            image = await self._find_exit_image(one, EXIT_IMAGE_TIMEOUT)
        except EngineError as error:
            if error.kind not in ("not_found", "usage"):
                raise
            return
        if image is None:
            raise EngineError("busy", "Modal still keeps the files of a sandbox that has ended")
        if image != spare:
            await self.do_delete(None, [image])

    async def do_delete(self, note: Note | None, images: list[str]) -> dict[str, Any]:
        """These images are not there."""
        await self._connect()
        from modal.experimental import image_delete  # type: ignore[import-not-found, unused-ignore]

        for image in images:
            try:
                await run_if_reachable(image_delete.aio(image))
            except EngineError as error:
                if error.kind not in ("not_found", "usage"):
                    raise
        return {}

    async def do_find(self, note: Note, tags: dict[str, str]) -> dict[str, Any]:
        """What runs and has these tags; one that was just made may not be among them."""
        await self._connect()
        listed = await run_if_reachable(self._list_sandboxes(tags))
        found = await asyncio.gather(*(self._read_tags_limited(one) for one in listed))
        rows = [{"sandbox": one.object_id, "tags": had} for one, had in zip(listed, found)]
        return {"sandboxes": [row for row in rows if tags.items() <= row["tags"].items()]}

    async def _list_sandboxes(self, tags: dict[str, str]) -> list[Any]:
        return [one async for one in self._sdk.Sandbox.list.aio(app_id=self._app.app_id, tags=tags)]

    async def _read_tags_limited(self, one: Any) -> dict[str, str]:
        async with self._room:
            return await self._read_tags(one)

    async def _read_tags(self, one: Any) -> dict[str, str]:
        try:
            return dict(await run_if_reachable(one.get_tags.aio()))
        except EngineError as error:
            if error.kind in ("not_found", "usage"):  # it has ended
                return {}
            raise

    async def close(self) -> None:
        pass


ENGINE = ModalBridgeEngine
