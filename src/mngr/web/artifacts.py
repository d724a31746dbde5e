"""Runs of e2e tests as their artifacts have them; whatever lies there is taken for what it is, not for what it says."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from mngr.base.errors import NotFound
from mngr.base.model import Struct

MAX_SHOWN_BYTES = 2_000_000  # bytes of a transcript or a recording that a page shows
STATUS_ORDER = ("failed", "running", "passed")  # in the order in which a person wants to see them
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")


class Recording(Struct):
    """A terminal, as asciicast v2."""

    name: str
    text: str
    is_cut: bool = False


class E2eTest(Struct):
    """One test of a run."""

    slug: str  # its directory
    name: str  # as pytest calls it
    status: str
    doc: str = ""
    file: str = ""
    line: int | None = None
    seconds: float = 0.0
    failure: str = ""
    blocks: list[str] = []
    allowed: list[str] = []
    is_observed: bool = False
    recordings: list[str] = []


class E2eRun(Struct):
    """All tests of one run."""

    name: str
    at: str
    tests: list[E2eTest]


def list_runs(place: str) -> list[str]:
    """The names of all runs, the latest first."""
    try:
        entries = [e for e in os.scandir(place) if e.is_dir(follow_symlinks=False) and _RUN_NAME.fullmatch(e.name)]
    except FileNotFoundError:
        raise NotFound(f"there are no e2e tests' artifacts in {place}", "run some: pytest") from None
    return sorted((e.name for e in entries), reverse=True)


def load_run(place: str, name: str) -> E2eRun:
    """One run; NotFound."""
    where = _resolve_inside(place, name)
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(where).st_mtime))
    tests = [test for slug in sorted(os.listdir(where)) if (test := _load_test(where, slug)) is not None]
    return E2eRun(name=name, at=at, tests=sorted(tests, key=lambda t: (_rank_status(t.status), t.name)))


def load_test(place: str, run: str, slug: str) -> E2eTest:
    """One test; NotFound."""
    found = _load_test(_resolve_inside(place, run), slug)
    if found is None:
        raise NotFound(f"the run {run} has no test {slug!r}")
    return found


def read_transcript(place: str, run: str, slug: str) -> str:
    """What it did and saw; the beginning and the end where that is much."""
    return _read_limited(os.path.join(_resolve_inside(_resolve_inside(place, run), slug), "transcript.txt"))[0]


def read_recordings(place: str, run: str, test: E2eTest) -> Iterator[Recording]:
    """Its terminals."""
    for name in test.recordings:
        text, is_cut = _read_limited(os.path.join(_resolve_inside(_resolve_inside(place, run), test.slug), name))
        yield Recording(name=name.removesuffix(".cast"), text=text, is_cut=is_cut)


def _resolve_inside(place: str, name: str) -> str:
    where = os.path.join(place, name)
    if not _RUN_NAME.fullmatch(name) or os.path.islink(where) or not os.path.isdir(where):
        raise NotFound(f"there is no {name!r} in {place}")
    return where


def _load_test(where: str, slug: str) -> E2eTest | None:
    directory = os.path.join(where, slug)
    if not _RUN_NAME.fullmatch(slug) or os.path.islink(directory) or not os.path.isdir(directory):
        return None
    try:
        with open(os.path.join(directory, "meta.json"), encoding="utf-8", errors="replace") as file:
            meta = json.loads(file.read(MAX_SHOWN_BYTES))
    except (OSError, ValueError, RecursionError):
        meta = {}
    if not isinstance(meta, dict):
        meta = {}
    allowed = meta.get("allowed") if isinstance(meta.get("allowed"), dict) else {}
    assert isinstance(allowed, dict)
    status = meta.get("status")
    line, seconds = meta.get("line"), meta.get("seconds")
    return E2eTest(
        slug=slug,
        name=_text_or_empty(meta.get("test")) or slug,
        status=status if status in STATUS_ORDER else "running",
        doc=_text_or_empty(meta.get("doc")),
        file=_text_or_empty(meta.get("file")),
        line=line if isinstance(line, int) else None,
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        failure=_text_or_empty(meta.get("failure")),
        blocks=_list_texts(meta.get("blocks")),
        allowed=_list_texts(allowed.get("env")) + _list_texts(allowed.get("paths")),
        is_observed=meta.get("observed") is True,
        recordings=sorted(n for n in os.listdir(directory) if n.endswith(".cast") and _RUN_NAME.fullmatch(n)),
    )


def _read_limited(path: str) -> tuple[str, bool]:
    """A file, and whether its middle is left out."""
    try:
        if os.path.islink(path):
            return "", False
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= MAX_SHOWN_BYTES:
                return file.read().decode("utf-8", "replace"), False
            head = file.read(MAX_SHOWN_BYTES // 2)
            file.seek(size - MAX_SHOWN_BYTES // 2)
            tail = file.read(MAX_SHOWN_BYTES // 2)
    except OSError:
        return "", False
    if path.endswith(".cast"):  # whole lines, from its beginning
        return head.decode("utf-8", "replace").rpartition("\n")[0] + "\n", True
    gap = f"\n# [{size - MAX_SHOWN_BYTES} bytes left out here]\n"
    return head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace"), True


def _rank_status(status: str) -> int:
    return STATUS_ORDER.index(status) if status in STATUS_ORDER else len(STATUS_ORDER)


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list_texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
