"""Provides the directory that the first block of the tutorial creates, fresh for every test."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.base.paths import build_socket_path
from mngr.e2e import E2eSession, expect
from tests.conftest import kill_tmux_servers
from tests.support.hosts.sshd import Farm

PLACE = """\
git init -q shop
cd shop
echo 'a shop' > README.md
git add README.md
git commit -qm 'Open the shop'"""


@pytest.fixture(autouse=True)
def shop(e2e: E2eSession) -> Iterator[Path]:
    """A repository with one commit in which the session runs, and an mngr home beside it."""
    e2e.timeout = 30
    home = e2e.env["MNGR_HOME"] = str(e2e.cwd / "home")
    expect(e2e.run(PLACE, comment="create a scratch repository")).to_succeed()
    e2e.cd("shop")
    yield e2e.cwd
    kill_tmux_servers(e2e.root)  # Their sockets are elsewhere and would remain.
    Path(build_socket_path(home, os.getuid())).unlink(missing_ok=True)  # for tests that delete their home


@pytest.fixture
def box(e2e: E2eSession, farm: Farm) -> Path:
    """A host that ssh knows as box; returns its home directory."""
    bin_dir, config = e2e.root / "bin", e2e.root / "ssh_config"
    config.write_text(farm.hosts["h1"].client().replace("Host h1\n", "Host box\n", 1))
    bin_dir.mkdir()
    ssh = bin_dir / "ssh"
    ssh.write_text(f'#!/bin/sh\nPATH=${{PATH#*:}} exec ssh -F "{config}" "$@"\n')
    ssh.chmod(0o755)
    e2e.env["PATH"] = f"{bin_dir}:{e2e.env['PATH']}"
    e2e.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(config)
    return farm.home("h1")


def agents(e2e: E2eSession) -> dict[str, dict[str, Any]]:
    """Return the row of each agent in `mngr list`, by name."""
    result = e2e.run("mngr list --format json")
    expect(result).to_succeed()
    return {agent["name"]: agent for agent in json.loads(result.stdout)["agents"]}


def work(e2e: E2eSession, name: str) -> Path:
    """Return an agent's work dir."""
    return Path(agents(e2e)[name]["work_dir"])


def run_all(e2e: E2eSession, *commands: str) -> None:
    """Run commands that must succeed before the block is tried."""
    for command in commands:
        expect(e2e.run(command)).to_succeed()
