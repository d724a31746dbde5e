"""Finds cached files that no command used for a month: set-ups, packages, clones and facts about images."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from mngr.agents import saved_directory
from mngr.agents.archive.gc.cleanup_items import (
    MAX_CACHE_SECONDS,
    MIN_AGE_SECONDS,
    CleanupTask,
    HostSurvey,
    make_removal_task,
)
from mngr.agents.context import Context
from mngr.base.errors import MngrError, TimedOut
from mngr.base.lock import Lock
from mngr.host import host_store


def _list_unused_setups(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for cached set-up results that are long unused or half written."""
    folder = os.path.join(ctx.home.cache, "setup")
    tasks = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        key, _, process = name.partition(".")
        if not os.path.isdir(path) or time.time() - os.stat(path).st_mtime < (
            MIN_AGE_SECONDS if process else MAX_CACHE_SECONDS
        ):
            continue
        if process.isdigit() and os.path.exists(f"/proc/{process}"):
            continue
        lock = os.path.join(folder, key.partition("-")[0] + ".lock")  # the name of untrusted content follows the "-"
        tasks.append(CleanupTask(category="unused set-up", name=key, run=_make_locked_removal(ctx, lock, path)))
    return tasks


def _list_unused_packages(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for package caches that are long unused, and for what an interrupted set-up left there."""
    folder = os.path.join(ctx.home.cache, "packages")
    tasks = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        is_leftover = "." in name  # A set-up runs for an hour at most.
        if time.time() - os.lstat(path).st_mtime > (86400.0 if is_leftover else MAX_CACHE_SECONDS):
            tasks.append(make_removal_task("unused packages", name, ctx, path))
    return tasks


def _make_locked_removal(ctx: Context, lock: str, path: str) -> Callable[[], None]:
    """Return a function that deletes the path, and fails if another process holds the lock."""

    def act() -> None:
        try:
            with Lock(lock, timeout=0.0):
                ctx.local_host.run(["rm", "-rf", "--", path])
        except TimedOut:
            raise MngrError(f"another command is using {path}", "run this again later: mngr gc") from None

    return act


def _list_unused_repos(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for cached clones of repositories that are long unused and that no agent needs."""
    folder = os.path.join(ctx.home.cache, "repos")
    old_names = [
        name
        for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())
        if name.endswith(".git") and time.time() - os.stat(os.path.join(folder, name)).st_mtime > MAX_CACHE_SECONDS
    ]
    if not old_names or survey.errors:  # An agent on an unreachable host may need it.
        return []
    used_paths = {agent.record.source for _, agents in survey.agents_by_host for agent in agents if agent.record}
    for directory in (ctx.home.trash, ctx.home.snapshots):
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            try:
                saved = saved_directory.load_saved_state(os.path.join(directory, name))
            except ValueError:
                return []
            if saved.record is not None:
                used_paths.add(saved.record.source)
    paths = [os.path.join(folder, name) for name in old_names]
    return [
        CleanupTask(
            category="unused repository",
            name=os.path.basename(path),
            run=_make_locked_removal(ctx, path + ".lock", path),
        )
        for path in paths
        if path not in used_paths
    ]


def _list_old_image_facts(ctx: Context, survey: HostSurvey) -> list[CleanupTask]:
    """Return tasks for old cached facts about images. A host of the image is asked again when needed."""
    folder = ctx.home.cache
    return [
        make_removal_task("cached image facts", name, ctx, os.path.join(folder, name))
        for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())
        if name.startswith(host_store.IMAGE_CACHE_PREFIX)
        and time.time() - os.stat(os.path.join(folder, name)).st_mtime > MAX_CACHE_SECONDS
    ]


FINDERS = (_list_unused_setups, _list_unused_packages, _list_unused_repos, _list_old_image_facts)
