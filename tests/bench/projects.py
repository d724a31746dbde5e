"""`python -m tests.bench projects`: takes projects of the package index from unpacking to a baseline, without editing.

It needs a package index and takes about half an hour. `MNGR_BENCH_SDISTS` names a folder that keeps the downloads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.bench.world import BIN, World

LIST = Path(__file__).with_name("projects.txt")
AT_ONCE = 3
TIMEOUT = 1800.0
GOAL = 0.9  # of the projects reach a baseline
HEAD = f"{'project':26} {'build tool':12} {'init':>6} {'tests':>6} {'dry run':>8}  result"


@dataclass(frozen=True)
class ProjectResult:
    """How far a project came."""

    name: str
    build_tool: str = ""
    init_seconds: float = 0.0
    tests: int | None = None
    run_seconds: float = 0.0
    has_baseline: bool = False
    text: str = ""  # the baseline, or the cause of the failure

    def show(self) -> str:
        """Return one line of the table."""
        tests = "" if self.tests is None else self.tests
        return f"{self.name:26} {self.build_tool:12} {self.init_seconds:5.0f}s {tests:>6} {self.run_seconds:7.0f}s  {self.text}"


def projects(world: World) -> Iterator[str]:
    """Try every project of the list, or those that MNGR_BENCH_PROJECTS names, and yield the table."""
    lines = [line.strip() for line in LIST.read_text().splitlines()]
    requirements = [line for line in lines if line and not line.startswith("#")]
    chosen = os.environ.get("MNGR_BENCH_PROJECTS", "").split()
    requirements = [*chosen, *([] if chosen else requirements)]
    yield HEAD
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = []
        for result in pool.map(lambda requirement: _try_project(world, requirement), requirements):
            results.append(result)
            yield result.show()
    count = sum(result.has_baseline for result in results)
    verdict = "PASS" if count >= GOAL * len(results) else "OVER"
    yield f"{count} of {len(results)} projects reach a baseline without editing; the goal is 90 % {verdict}"


def _try_project(world: World, requirement: str) -> ProjectResult:
    """Download, unpack and commit a project, then run `mngr init` and `mngr tmr run --dry-run` in it."""
    root = Path(tempfile.mkdtemp(prefix="mngr-project-"))
    env = {**os.environ, **world.env, "HOME": os.environ["HOME"], "MNGR_HOME": str(root / "home")}
    try:
        repo = _unpack(requirement, root)
        result = ProjectResult(name=repo.name, build_tool=_find_build_tool(repo))
        for line in ("git init -q -b main .", "git add -A", "git commit -q -m first"):
            subprocess.run(line.split(), cwd=repo, env={**env, "HOME": world.env["HOME"]}, check=True)
        began = time.monotonic()
        init = _run_mngr(repo, env, "init", "--json")
        seconds = time.monotonic() - began
        if init.returncode:
            return ProjectResult(result.name, result.build_tool, seconds, text=f"init: {_find_cause(init)}")
        tests = json.loads(init.stdout)["tests"]
        began = time.monotonic()
        run = _run_mngr(repo, env, "tmr", "run", "--dry-run", "--yes")
        has_baseline = run.returncode == 0
        text = _find_baseline(run) if has_baseline else f"tmr run: {_find_cause(run)}"
        return ProjectResult(
            result.name, result.build_tool, seconds, tests, time.monotonic() - began, has_baseline, text
        )
    except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
        return ProjectResult(requirement, text=f"{type(error).__name__}: {str(error)[:200]}")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _unpack(requirement: str, root: Path) -> Path:
    """Download a source distribution, unless it is there, and return the unpacked folder."""
    folder = Path(os.environ.get("MNGR_BENCH_SDISTS") or root / "sdists") / requirement  # other threads download, too
    if not list(folder.glob("*.tar.gz")):
        options = ["download", "--quiet", "--no-binary", ":all:", "--no-deps", "--dest", str(folder), requirement]
        subprocess.run(["python3", "-m", "pip", *options], check=True, capture_output=True, timeout=TIMEOUT)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(root / "source", filter="data")
    return next((root / "source").iterdir())


def _find_build_tool(repo: Path) -> str:
    try:
        build_system = tomllib.loads((repo / "pyproject.toml").read_text()).get("build-system", {})
    except (OSError, tomllib.TOMLDecodeError):
        return "setup.py"
    return str(build_system.get("build-backend", "setuptools")).partition(".")[0]


def _run_mngr(repo: Path, env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "mngr"), *args], cwd=repo, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


def _find_baseline(run: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in run.stderr.splitlines() if "untouched" in line or "baseline" in line]
    return lines[-1].strip() if lines else run.stdout.strip().splitlines()[-1]


def _find_cause(run: subprocess.CompletedProcess[str]) -> str:
    """Return the error and the last line of the runner's output in it."""
    lines = [line.strip() for line in run.stderr.splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if line.startswith(("Error:", '{"error"'))), 0)
    end = next((number for number, line in enumerate(lines) if line.startswith("Hint:")), len(lines))
    return " | ".join([*lines[start : start + 1], *lines[max(start + 1, end - 2) : end]])[:400]
