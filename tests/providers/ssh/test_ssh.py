"""Behaviour that only ssh has: keys, shells, shared connections, pools, and hosts that do not answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.providers.ssh.provider import SshProvider, SshTransport
from mngr.testkit.contract.mngr_program import BackgroundProgram
from tests.conftest import MngrProgram, wait_for
from tests.support.hosts.machines import Machine
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts


@pytest.fixture
def away(mngr: MngrProgram, farm: Farm) -> Iterator[MngrProgram]:
    """mngr with three hosts in its ssh configuration."""
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    yield mngr


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "fish"])
def test_every_login_shell_passes_the_program_unchanged(shell: str, tmp_path: Path) -> None:
    words = [
        "a b",
        "it's",
        'say "hi"',
        "back\\slash\\\\",
        "$HOME `id` $(id)",
        "!!",
        "x\ny",
        "%s %d",
        "ü",
        "\x1b",
        "",
    ]
    program = "printf '%s|' " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    transport = SshTransport("nowhere", {})
    Path(transport._control).parent.mkdir(mode=0o700, exist_ok=True)
    control = Path(transport._control)
    control.touch()  # looks like an open connection
    try:
        line = transport.build_argv(program)[-1]
    finally:
        control.unlink()
    result = subprocess.run([shell, "-c", line], capture_output=True, check=True, cwd=tmp_path)
    assert result.stdout.decode() == "".join(word + "|" for word in words)


def test_a_host_with_an_unknown_key_is_rejected(mngr: MngrProgram, farm: Farm, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text("")
    lines = [
        f"  UserKnownHostsFile {known}" if "UserKnownHostsFile" in line else line
        for line in farm.config.read_text().splitlines()
    ]
    config = tmp_path / "ssh_config"
    config.write_text("\n".join(lines) + "\n")
    result = mngr("create", "foo@h1", "--", "cat", code=6, env={"MNGR__PROVIDERS__SSH__CONFIG": str(config)})
    assert "host key is unknown" in result.err and "ssh h1" in result.err
    assert known.read_text() == ""
    assert not mngr.home.exists()


def test_the_ssh_agent_is_forwarded_only_on_request(farm: Farm, tmp_path: Path) -> None:
    agent = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    values = dict(part.strip().split("=", 1) for part in agent.split(";") if "=" in part)
    pid = int(values["SSH_AGENT_PID"])
    check_agent = ["sh", "-c", 'test -z "${SSH_AUTH_SOCK-}" && echo none || echo there']
    os.environ["SSH_AUTH_SOCK"] = values["SSH_AUTH_SOCK"]
    try:
        home = Home(str(tmp_path))
        options = {"config": str(farm.config)}
        assert SshProvider("ssh", home, options).open("h1").run(check_agent).text == "none"
        forwarding = {**options, "forward_agent": True}
        assert SshProvider("ssh", home, forwarding).open("h1").run(check_agent).text == "there"
    finally:
        del os.environ["SSH_AUTH_SOCK"]
        os.kill(pid, 15)


def test_one_connection_serves_all_commands(away: MngrProgram, farm: Farm) -> None:
    away("create", "foo@h1", "--", "cat")
    logins = farm.hosts["h1"].log.read_text().count("Accepted publickey")
    for _ in range(3):
        assert away("exec", "foo", "--", "echo", "there").out == "there\n"
        assert away.get_agent("foo")["state"] == "RUNNING"
    assert farm.hosts["h1"].log.read_text().count("Accepted publickey") == logins


def test_a_pool_chooses_the_least_loaded_host(away: MngrProgram) -> None:
    away.env["MNGR__PROVIDERS__FARM__KIND"] = "ssh"
    away.env["MNGR__PROVIDERS__FARM__CONFIG"] = away.env["MNGR__PROVIDERS__SSH__CONFIG"]
    away.env["MNGR__PROVIDERS__FARM__HOSTS"] = '["h1", "h2", "h3", "dead-one.invalid"]'
    for name in ("a", "b", "c"):
        away("create", f"{name}@.farm", "--", "sleep", "1000")
    agents = away.run_json("list")["agents"]
    assert sorted(agent["host"] for agent in agents) == ["h1", "h2", "h3"]
    assert {agent["provider"] for agent in agents} == {"farm"}
    result = away("create", "d@h9.farm", "--", "cat", code=1)
    assert "no host 'h9'" in result.err and "h1, h2, h3" in result.err
    away("create", "e@h2", "--", "sleep", "1000")  # only one pool has h2, so its provider is used
    assert away.get_agent("e")["provider"] == "farm"


def test_without_a_pool_a_host_must_be_named(away: MngrProgram) -> None:
    result = away("create", "foo@.ssh", "--", "cat", code=1)
    assert "has no list of hosts" in result.err and "NAME@HOST" in result.err


def test_an_unreachable_host_is_listed_as_error_and_its_agents_as_unknown(away: MngrProgram, farm: Farm) -> None:
    away("create", "foo@h1", "--", "sleep", "1000")
    away("create", "bar@h2", "--", "sleep", "1000")
    away("list")
    farm.cut("h1")
    rows = away.run_json("list")
    states = {agent["name"]: agent["state"] for agent in rows["agents"]}
    assert states == {"foo": "UNKNOWN", "bar": "RUNNING"}
    foo = next(agent for agent in rows["agents"] if agent["name"] == "foo")
    assert "does not answer" in foo["state_reason"] and "ago" in foo["state_reason"]
    assert [(error["host"], error["provider"]) for error in rows["errors"]] == [("h1", "ssh")]
    for words in (
        ["exec", "foo", "--", "true"],
        ["stop", "foo"],
        ["message", "foo", "-m", "x"],
        ["capture", "foo"],
    ):
        assert "h1" in away(*words, code=6).err
    result = away("create", "foo@h2", "--", "cat", code=None)
    assert result.code == 6, result.err  # only h1 knows whether the name is free
    farm.mend("h1")
    assert {agent["name"]: agent["state"] for agent in away.run_json("list")["agents"]} == {
        "foo": "RUNNING",
        "bar": "RUNNING",
    }


def test_dead_hosts_delay_list_only_by_one_connect_timeout(away: MngrProgram, farm: Farm) -> None:
    away.env["MNGR__PROVIDERS__SSH__CONNECT_TIMEOUT"] = "2"
    away("create", "foo@h1", "--", "sleep", "1000")
    for name in ("dead", "gone-1.invalid", "gone-2.invalid"):
        facts = {"v": 1, "home": "/nowhere/.mngr", "uid": 0}
        (away.home / "hosts" / "ssh" / f"{name}.json").write_text(json.dumps(facts))
    started = time.monotonic()
    rows = away.run_json("list")
    assert time.monotonic() - started < 6
    assert [agent["name"] for agent in rows["agents"]] == ["foo"]
    assert sorted(error["host"] for error in rows["errors"]) == ["dead", "gone-1.invalid", "gone-2.invalid"]


def test_an_agent_is_lost_when_its_machine_crashes_and_can_be_started_again(
    mngr: MngrProgram, machine: Machine
) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(machine.config)
    mngr.env["MNGR__PROVIDERS__SSH__ALIVE"] = "1"
    mngr("create", "foo@m1", "--", "sh", "-c", "echo here >>log; exec sleep 1000")
    mngr("list")
    machine.crash()
    rows = mngr.run_json("list")
    assert [agent["state"] for agent in rows["agents"]] == ["UNKNOWN"] and len(rows["errors"]) == 1
    machine.restart()
    agent = wait_for(lambda: (view := mngr.get_agent("foo"))["state"] != "UNKNOWN" and view)
    assert (agent["state"], agent["state_reason"]) == ("FAILED", "lost")
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    assert mngr("exec", "foo", "--", "cat", "log").out == "here\nhere\n"


def test_a_network_partition_ends_a_command_within_seconds(mngr: MngrProgram, machine: Machine) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(machine.config)
    mngr.env["MNGR__PROVIDERS__SSH__ALIVE"] = "1"
    mngr("create", "foo@m1", "--", "sleep", "1000")
    machine.partition()
    started = time.monotonic()
    result = mngr("exec", "foo", "--", "true", code=6)
    assert time.monotonic() - started < 10
    assert "m1" in result.err
    machine.heal()
    mngr("exec", "foo", "--", "true")


def test_create_delivers_the_first_message_and_an_interrupt_keeps_the_agent(
    away: MngrProgram,
) -> None:
    away("create", "foo@h1", "player", "-m", "hello")
    assert "hello" in away("transcript", "foo").out
    losing_enters = '{"lose_enters": 1000, "steps": []}'
    with BackgroundProgram(away, "create", "bar@h1", "player", "-m", "nobody hears it", "--", losing_enters) as create:
        wait_for(lambda: "nobody hears it" in away("capture", "bar", code=None).out)
        create.process.send_signal(signal.SIGINT)
        assert create.process.wait(30) == 130
    assert away.get_agent("bar")["state"] == "WAITING"
    result = away("create", "w@h1", "player", "--count", "6", "-m", "to all")
    assert result.out.count("runs in") == 6
    assert all("to all" in away("transcript", f"w-{number}").out for number in range(1, 7))
