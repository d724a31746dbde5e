"""Measures moving work from another host, against git, `cat` and the same shared connection."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.bench.hosts import Away
from tests.bench.measure import Case

COMMITS, BYTES = 1000, 100_000_000


def moving(away: Away, repo: Path, rounds: int = 5) -> list[Case]:
    """Measure a thousand commits and a large file, from an agent on a host and back to it."""
    host = away.farm.names[0]
    away.mngr("create", f"mover@{host}", "--", "sleep", "1000", cwd=repo)
    work = away.farm.home(host) / ".mngr" / "work" / "mover"
    _commit_much(work)
    (work / "large.bin").write_bytes(os.urandom(BYTES))
    start = away.start()
    return [_pull(away, repo, work, rounds), *_files(away, host, work, start, rounds)]


def _commit_much(work: Path) -> None:
    """Create many commits, each with its own new file."""
    size = BYTES // COMMITS
    with subprocess.Popen(
        ["git", "-C", str(work), "fast-import", "--quiet"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        for number in range(COMMITS):
            start = "from refs/heads/mngr/mover^0\n" if number == 0 else ""
            process.stdin.write(
                f"commit refs/heads/mngr/mover\ncommitter Bench <bench@example.invalid> {1700000000 + number} +0000\n"
                f"data 4\nmore\n{start}M 100644 inline d{number % 20}/new{number}.bin\ndata {size}\n".encode()
            )
            process.stdin.write(os.urandom(size) + b"\n")
    if process.returncode:
        raise SystemExit("git fast-import failed")


def _pull(away: Away, repo: Path, work: Path, rounds: int) -> Case:
    """Measure a pull into a fresh clone each time."""
    root, host = away.world.root, away.farm.names[0]
    case = Case(f"pull of {COMMITS} commits, {BYTES // 1_000_000} MB, ssh", times=1.5)
    for number in range(rounds + 1):
        for name in ("plain", "ours"):
            shutil.rmtree(root / name, ignore_errors=True)
            away.world.run("git", "clone", "-q", "--no-hardlinks", str(repo), str(root / name))
        fetch = [
            "git",
            "-c",
            "transfer.fsckObjects=true",
            "fetch",
            "-q",
            f"{host}:{work}",
            "mngr/mover:mngr/mover",
        ]
        floor = away.world.time(*fetch, cwd=root / "plain", env={"GIT_SSH_COMMAND": " ".join(away.ssh())})
        subject = away.mngr("pull", "mover", cwd=root / "ours")
        if number:
            case.add(floor, subject)
    return case


def _files(away: Away, host: str, work: Path, start: float, rounds: int) -> list[Case]:
    """Measure one file, pulled and pushed by name."""
    ssh, local_path = " ".join([*away.ssh(), host]), away.world.root / "large.bin"
    pulled = Case(f"pull of a file, {BYTES // 1_000_000} MB, ssh", times=1.5, more=start + 0.1)
    pulled.alternate(
        lambda: away.world.time("sh", "-c", f"{ssh} cat {work}/large.bin >{local_path}"),
        lambda: away.mngr("pull", "mover:large.bin", str(local_path)),
        rounds,
    )
    pushed = Case(f"push of a file, {BYTES // 1_000_000} MB, ssh", times=1.5, more=start + 0.1)
    pushed.alternate(
        lambda: away.world.time("sh", "-c", f"{ssh} 'cat >{work}/bare.bin' <{local_path}"),
        lambda: away.mngr("push", str(local_path), "mover:back.bin"),
        rounds,
    )
    return [pulled, pushed]
