"""Runs on hosts that a provider makes: prepared once, paid for, given back, and nothing of them is lost or left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.rundir import RunDir
from tests.cli.test_docker import containers
from tests.conftest import Mngr, git
from tests.contract.test_docker import settings
from tests.hosts.engines import Docker

SETUP = r"""echo run >>~/runs; mkdir -p .venv; printf '#!%s/python\n' "$PWD" >.venv/tool; printf 'bin\0%s' "$PWD" >.venv/binary
printf '%s-2/x %s\n' "$PWD" "$PWD" >.venv/cfg; chmod 444 .venv/cfg; ln -s "$PWD/.venv/tool" .venv/alias"""
SEE = "cat ~/runs .venv/tool .venv/cfg; readlink .venv/alias; pwd -P; cat .venv/binary; echo more >>README.md; git commit -qam x"


@pytest.fixture
def docker(mngr: Mngr, docker_engine: Docker) -> Docker:
    mngr.env.update(
        {**settings("docker"), **docker_engine.env, "MNGR__PROVIDERS__DOCKER__COST_PER_HOUR": "360"}
    )
    return docker_engine


def rows(mngr: Mngr, *kinds: str) -> list[dict[str, Any]]:
    return [row for row in read_journal(RunDir(str(mngr.repo), "r").journal) if row["type"] in kinds]


def outputs(mngr: Mngr, name: str) -> list[str]:
    return [path.read_text() for path in (mngr.repo / ".mngr/runs/r/tasks").glob(f"*/outputs/{name}")]


def test_a_host_is_prepared_once_for_all_and_each_is_given_back(
    mngr: Mngr, docker: Docker, tmp_path: Path
) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text(f"[project]\nsetup = '''{SETUP}'''\n")
    (mngr.repo / ".gitignore").write_text(".venv\n")
    git(mngr.repo, "add", "-A")
    git(mngr.repo, "commit", "-q", "-m", "settings")
    line = f"({SEE}) >$MNGR_OUTPUT_DIR/seen"
    mngr("map", *"abc", "--name", "r", "--on", ".docker", "--canary", "0", "--", "sh", "-c", line)
    assert [row["type"] for row in rows(mngr, "prepare", "prepared", "launch")][:3] == [
        "prepare",
        "prepared",
        "launch",
    ]
    for seen in outputs(mngr, "seen"):
        work = seen.splitlines()[4]
        before = seen.rpartition("\0")[2]
        assert before != work
        assert seen == (
            f"run\n#!{work}/python\n{before}-2/x {work}\n{work}/.venv/tool\n{work}\nbin\0{before}"
        )
    assert len(outputs(mngr, "seen")) == 3
    assert containers(docker) == [] and docker.run("volume", "ls", "-q").stdout == ""
    assert docker.run("images", "-q", "--filter", "reference=mngr-snapshot").stdout == ""
    assert mngr.json("snapshot", "list")["snapshots"] == [] and mngr.json("gc")["results"] == []
    budget = mngr.json("tmr", "status", "r")["budget"]["hosts"]
    assert (budget["made"], budget["running"]) == (3, 0) and budget["cost_usd"] == pytest.approx(
        budget["hours"] * 360, rel=0.01
    )
    name = rows(mngr, "launch")[0]["agent"]
    mngr("undestroy", name)
    assert "more" in mngr("exec", name, "--", "cat", "README.md").out
