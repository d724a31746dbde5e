"""Chooses or builds the image of a container. The tag of a built image is a hash of its contents."""

from __future__ import annotations

import os
import re

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Struct
from mngr.host import git
from mngr.providers.docker import snapshots
from mngr.providers.docker.docker_cli import parse_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mngr.base.paths import Home
    from mngr.providers.docker.docker_cli import DockerCli

MAX_BUILD_SECONDS = 3600.0  # the time limit of a pull or a build
# The image for agents when the user chooses none.
DEFAULT_DOCKERFILE = b"""\
FROM debian:stable-slim
RUN apt-get update \\
 && apt-get install -y --no-install-recommends ca-certificates curl git less openssh-client procps python3 rsync tmux \\
 && rm -rf /var/lib/apt/lists/*
"""
_FROM_CONTEXT = re.compile(rb"^\s*(?:COPY|ADD|RUN\s+--mount=)(?!.*--?from=)", re.IGNORECASE | re.MULTILINE)


class Image(Struct):
    """The image of a container. `dockerfile` is None for an image that is pulled by its name."""

    name: str
    dockerfile: bytes | None = None
    path: str | None = None  # of the Dockerfile, if it uses files of its directory
    args: dict[str, str] = {}
    origin: str = ""  # a description for people


def choose_image(options: Mapping[str, object], base: str, home: Home) -> tuple[Image, str | None]:
    """Return the image that the options ask for, and the tar file of a snapshot or None. Nothing is built.

    `base` is the directory for relative paths.
    """
    if len([key for key in ("image", "dockerfile", "snapshot") if options.get(key)]) > 1:
        raise UsageError("a host can have only one of image, dockerfile and snapshot", "leave out the others")
    if options.get("snapshot"):
        name, snapshot_tar = snapshots.load_snapshot(home, str(options["snapshot"]))
        return Image(name=name, origin=f"the snapshot {options['snapshot']}"), snapshot_tar
    return _image_from_options(options, base), None


def _image_from_options(options: Mapping[str, object], base: str) -> Image:
    """Return the image for the options `image`, `dockerfile` and `arg.NAME`, or the default image."""
    args = {key[4:]: str(value) for key, value in sorted(options.items()) if key.startswith("arg.")}
    if options.get("image"):
        if args:
            raise UsageError(
                "arg.NAME works only with a dockerfile, not with an image",
                "leave out arg.NAME, or give a Dockerfile: -b dockerfile=PATH",
            )
        name = str(options["image"])
        return Image(name=name, origin=f"the image {name}")
    if not options.get("dockerfile"):
        return Image(
            name=_build_tag(DEFAULT_DOCKERFILE, args, []),
            dockerfile=DEFAULT_DOCKERFILE,
            args=args,
            origin="mngr's default image",
        )
    path = os.path.join(base, os.path.expanduser(str(options["dockerfile"])))
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise MngrError(
            f"cannot read the Dockerfile {path}: {error.strerror}", f"check the path: ls -l {path}"
        ) from None
    uses_files = _FROM_CONTEXT.search(text) is not None
    files = _list_context_files(os.path.dirname(path)) if uses_files else []
    return Image(
        name=_build_tag(text, args, files), dockerfile=text, path=path if uses_files else None, args=args, origin=path
    )


def ensure_image(engine: DockerCli, image: Image, note: Callable[[str], None]) -> None:
    """Build or pull an image that the engine does not have."""
    if image.dockerfile is None:
        note(f"pulling the image {image.name}")
        words, stdin = ["pull", "-q", image.name], b""
    else:
        note(f"building the image from {image.origin}; this happens only once")
        words = ["build", "-q", "-t", image.name]
        for key, value in image.args.items():
            words += ["--build-arg", f"{key}={value}"]
        # A Dockerfile that uses no files of its directory is sent on standard input.
        words += ["-f", image.path, os.path.dirname(image.path)] if image.path else ["-"]
        stdin = b"" if image.path else image.dockerfile
    result = engine.run(*words, stdin=stdin, timeout=MAX_BUILD_SECONDS)
    if result.code == 0:
        return
    if image.dockerfile is None:
        raise MngrError(
            f"cannot pull the image {image.name}: {parse_error(result.err)}",
            f"check its name, or pull it by hand: {shell.join(engine.words)} pull {image.name}",
        )
    hint = "use an image that is on this machine: -b image=NAME; or connect the engine to a registry"
    if image.dockerfile != DEFAULT_DOCKERFILE:
        context = shell.quote(os.path.dirname(image.path or image.origin))
        hint = f"see the whole output: {shell.join(engine.words)} build -f {shell.quote(image.origin)} {context}"
    raise MngrError(f"cannot build the image from {image.origin}: {parse_error(result.err)}", hint)


def _build_tag(text: bytes, args: dict[str, str], files: list[tuple[str, bytes]]) -> str:
    """Return a tag that is a hash of the Dockerfile, its arguments and its files."""
    import hashlib

    digest = hashlib.sha256(repr((text, args)).encode())
    for name, content in files:
        digest.update(repr((name, hashlib.sha256(content).digest())).encode("utf-8", "surrogateescape"))
    return f"mngr-build:{digest.hexdigest()[:16]}"


def _list_context_files(directory: str) -> list[tuple[str, bytes]]:
    """Return (name with mode, contents) of the files beside a Dockerfile, without the files that git ignores."""
    listed = shell.run([*git.SAFE_GIT, "-C", directory, "ls-files", "-co", "--exclude-standard", "-z"])
    if listed.code == 0:
        names = sorted(set(listed.out.decode("utf-8", "surrogateescape").split("\0")) - {""})
    else:
        names = sorted(
            os.path.relpath(os.path.join(folder, name), directory)
            for folder, _, file_names in os.walk(directory)
            for name in file_names
        )
    rows = []
    for name in names:
        path = os.path.join(directory, name)
        if os.path.islink(path):
            rows.append((f"link {name}", os.fsencode(os.readlink(path))))
        elif os.path.isfile(path):
            with open(path, "rb") as file:
                rows.append((f"{os.stat(path).st_mode & 0o111:o} {name}", file.read()))
    return rows
