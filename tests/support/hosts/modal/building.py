"""Builds images from recipes. Steps that need a network are logged, but not run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shlex
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped, unused-ignore]
from grpclib import Status  # type: ignore[import-not-found, unused-ignore]
from modal_proto import api_pb2 as api  # type: ignore[import-not-found, unused-ignore]

from tests.support.hosts.modal.box import SEARCH, Box
from tests.support.hosts.modal.hub import RESULT, Hub, Image, new_id
from tests.support.hosts.modal.process import Process
from tests.support.hosts.modal.rpc import fail

_OUTSIDE = re.compile(r"\b(apt-get|apt|pip3?|uv|npm|curl|wget|git clone|debconf-set-selections)\b")


class Building:
    """The part of the control plane that builds images."""

    hub: Hub

    async def EnvironmentGetOrCreate(self, request: Any) -> Any:
        settings = api.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api.EnvironmentMetadata(name=request.deployment_name or "main", settings=settings)
        return api.EnvironmentGetOrCreateResponse(environment_id="en-loopback", metadata=metadata)

    async def ImageGetOrCreate(self, request: Any) -> Any:
        recipe = hashlib.sha256(request.image.SerializeToString(deterministic=True)).hexdigest()
        image_id = self.hub.recipes.get(recipe)
        image = self.hub.images.get(image_id or "")
        if image is None or image_id is None or (image.result and image.result.status != 1):
            image_id = self.hub.recipes[recipe] = new_id("im")
            image = self.hub.images[image_id] = Image([])
            image.recipe = request.image
            self.hub.tell()
        if image.result is None:  # the client must join the build
            return api.ImageGetOrCreateResponse(image_id=image_id)
        return api.ImageGetOrCreateResponse(image_id=image_id, result=image.result, metadata=_about())

    async def ImageJoinStreaming(self, request: Any) -> AsyncIterator[Any]:
        image = self.hub.image(request.image_id)
        sent = int(request.last_entry_id or 0)
        task = asyncio.create_task(self._build(image))
        while True:
            done = task.done()
            for line in image.log[sent:]:
                sent += 1
                logs = api.TaskLogs(data=line, file_descriptor=api.FILE_DESCRIPTOR_STDOUT)
                yield api.ImageJoinStreamingResponse(entry_id=str(sent), task_logs=[logs])
            if done:
                break
            await asyncio.sleep(0.02)
        yield api.ImageJoinStreamingResponse(result=image.result, metadata=_about(), eof=True)

    async def ImageFromId(self, request: Any) -> Any:
        self.hub.image(request.image_id)
        return api.ImageFromIdResponse(image_id=request.image_id, metadata=_about())

    async def ImageDelete(self, request: Any) -> Any:
        self.hub.image(request.image_id)
        del self.hub.images[request.image_id]
        self.hub.tell()
        return Empty()

    async def _build(self, image: Image) -> None:
        async with image.lock:
            if image.result is None:
                try:
                    problem = await self._follow(image)
                except Exception as error:
                    problem = repr(error)
                status = RESULT.GENERIC_STATUS_FAILURE if problem else RESULT.GENERIC_STATUS_SUCCESS
                image.result = RESULT(status=status, exception=problem)

    async def _follow(self, image: Image) -> str:
        """Run the steps of a recipe, and return what went wrong, or an empty string."""
        bases = {base.docker_tag: base.image_id for base in image.recipe.base_images}
        box: Box | None = None
        try:
            for number, line in enumerate(image.recipe.dockerfile_commands):
                instruction, _, arguments = line.strip().partition(" ")
                instruction, arguments = instruction.upper(), arguments.strip()
                image.log.append(f"Step {number}: {line}\n")
                if instruction != "RUN":
                    self._set(image, instruction, arguments, bases)
                elif _OUTSIDE.search(arguments):
                    image.log.append("  [loopback] not run\n")
                else:
                    if box is None:
                        box = Box(self.hub.state, new_id("build", 8), image.layers)
                        await box.start(["sleep", "infinity"], {"PATH": SEARCH, "HOME": "/root"}, "/")
                    process = Process(box.enter(["/bin/sh", "-c", arguments], image.env, image.workdir))
                    async for data in process.read(1, 0):
                        image.log.append(data.decode(errors="replace"))
                    if code := await process.wait():
                        return f"{line!r} exited with {code}"
            if box is not None:
                image.layers = await box.snapshot(new_id("la", 8))
            return ""
        finally:
            if box is not None:
                box.kill()
                await box.process.wait()
                await box.discard()

    def _set(self, image: Image, instruction: str, arguments: str, bases: dict[str, str]) -> None:
        if instruction == "FROM" and arguments in bases:
            base = self.hub.image(bases[arguments])
            image.layers, image.env = list(base.layers), dict(base.env)
            image.workdir, image.cmd = base.workdir, base.cmd
        elif instruction == "ENV":
            pairs = shlex.split(arguments)
            has_names = "=" in pairs[0]
            image.env |= dict(pair.split("=", 1) for pair in pairs) if has_names else {pairs[0]: " ".join(pairs[1:])}
        elif instruction == "WORKDIR":
            image.workdir = arguments
        elif instruction == "CMD":
            image.cmd = json.loads(arguments) if arguments.startswith("[") else ["/bin/sh", "-c", arguments]
        elif instruction == "COPY":
            fail(Status.UNIMPLEMENTED, "COPY is not modelled here")


def _about() -> Any:
    return api.ImageMetadata(image_builder_version="2025.06", python_version_info="3.11")
