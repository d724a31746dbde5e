"""Keeps the baseline runs of a tree for a day, so that the next run with nothing changed does not repeat them.

Only the baseline of a run fills this cache. It runs the user's own commit with the user's own settings.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence

from mngr.base.config import Settings
from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import parse_json
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.test_run import CollectedTests, TestFunction, TestRun

_FORMAT = 1  # increased when the same runs would be recorded differently
_MAX_AGE_SECONDS = 86400.0  # after a day, more may have changed than mngr knows
_RUNS_FILE = "runs.json"

ArtifactPath = Callable[[TestFunction, int], str]  # the directory for the artifacts of a test's run with this number


class KnownRuns(Struct):
    """The runs of one test in an earlier baseline."""

    at: float  # when they were saved, in seconds since the epoch
    runs: list[TestRun]


class KnownBaseline(Struct):
    """The tests of an earlier baseline."""

    tests: dict[str, KnownRuns]


class BaselineCache:
    """The runs of one tree in one environment. The cache only saves time: an unreadable entry counts as missing."""

    def __init__(self, directory: str, environment: str, tree: str) -> None:
        """`directory` keeps the project's cached results. `environment` comes from `hash_environment`."""
        key = hashlib.sha256(json.dumps([_FORMAT, environment, tree]).encode()).hexdigest()[:32]
        self._parent = os.path.join(directory, "baselines")
        self._dir = os.path.join(self._parent, key)

    def find(self, tests: Sequence[TestFunction], *, only_if_green: bool = False) -> dict[str, KnownRuns]:
        """Return the earlier runs of these tests, by test. Return nothing for `only_if_green` if one of them failed."""
        oldest = time.time() - _MAX_AGE_SECONDS
        known = self._read()
        found = {
            test.id: known[test.id]
            for test in tests
            if test.id in known and known[test.id].at > oldest and _has_ids_of(known[test.id].runs, test)
        }
        runs = [run for entry in found.values() for run in entry.runs]
        return {} if only_if_green and any(run.outcome not in ("pass", "skip") for run in runs) else found

    def restore_artifacts(self, test: TestFunction, number: int, target: str) -> None:
        """Copy the artifacts of a run to the target, if the run left any."""
        source = self._get_artifact_dir(test, number)
        if os.path.isdir(source) and not os.path.lexists(target):
            shutil.copytree(source, target, symlinks=True)

    def save(
        self,
        tests: Sequence[TestFunction],
        runs_by_test: Mapping[str, Sequence[TestRun]],
        reused: Mapping[str, KnownRuns],
        get_artifact_path: ArtifactPath,
    ) -> None:
        """Save the runs of these tests beside those of others. A full disk is ignored."""
        now = time.time()
        known = self._read()
        with contextlib.suppress(OSError):
            self._delete_old_entries()
            os.makedirs(self._dir, mode=0o700, exist_ok=True)
            for test in tests:
                runs = list(runs_by_test.get(test.id, ()))
                if runs:
                    known[test.id] = KnownRuns(at=reused[test.id].at if test.id in reused else now, runs=runs)
                for number, run in enumerate(runs):
                    if run.artifacts:
                        self._save_artifacts(test, number, get_artifact_path(test, number))
            new_path = os.path.join(self._dir, f"{_RUNS_FILE}.{os.getpid()}")
            with open(new_path, "w", encoding="utf-8") as file:
                file.write(json.dumps(encode(KnownBaseline(tests=known))))
            os.replace(new_path, os.path.join(self._dir, _RUNS_FILE))

    def _read(self) -> dict[str, KnownRuns]:
        try:
            with open(os.path.join(self._dir, _RUNS_FILE), encoding="utf-8") as file:
                return dict(decode(KnownBaseline, parse_json(file.read())).tests)
        except (OSError, ValueError):
            return {}

    def _save_artifacts(self, test: TestFunction, number: int, source: str) -> None:
        target = self._get_artifact_dir(test, number)
        shutil.rmtree(target, ignore_errors=True)
        if os.path.isdir(source):
            shutil.copytree(source, target, symlinks=True)

    def _get_artifact_dir(self, test: TestFunction, number: int) -> str:
        return os.path.join(self._dir, hashlib.sha256(test.id.encode()).hexdigest()[:24], str(number))

    def _delete_old_entries(self) -> None:
        """Delete baselines to which no run has added anything for a day."""
        for entry in os.scandir(self._parent) if os.path.isdir(self._parent) else ():
            if time.time() - entry.stat().st_mtime > _MAX_AGE_SECONDS:
                shutil.rmtree(entry.path, ignore_errors=True)


def hash_environment(plan: RunPlan, collected: CollectedTests, room_key: object, settings: Settings) -> str:
    """Return a hash of what a test's result depends on beside the tree: settings, packages and system programs."""
    project = {name: settings.get(f"project.{name}") for name in ("setup", "carry", "lock", "program")}
    facts = [
        plan.pytest,
        plan.args,
        plan.paths,
        plan.test_timeout,
        room_key,
        project,
        collected.environment,
        _list_program_folders(),
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _list_program_folders() -> list[tuple[str, int]]:
    """Return the folders of PATH, each with the time of its last change: a new or removed program changes it."""
    folders = []
    for folder in os.get_exec_path():
        with contextlib.suppress(OSError):
            folders.append((folder, os.stat(folder).st_mtime_ns))
    return folders


def _has_ids_of(runs: Sequence[TestRun], test: TestFunction) -> bool:
    """True when the runs had the node ids that the test has now, or as many others.

    Names of parameters that come from a set differ in each process.
    """
    return any({*run.ids, *run.missing} == {*test.ids} or len(run.ids) == len(test.ids) for run in runs[:1])
