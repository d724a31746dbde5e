"""What is ssh's own: keys, shells, shared connections, pools, and hosts that do not answer."""

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
from mngr.providers.ssh.provider import SshProvider, SshWire
from mngr.testkit.contract.program import BackgroundProgram
from tests.conftest import MngrProgram, wait_for
from tests.support.hosts.machines import Machine
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts


@pytest.fixture
def away(mngr: MngrProgram, farm: Farm) -> Iterator[MngrProgram]:
    """The program with three hosts in its ssh configuration."""
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    yield mngr


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "fish"])
def test_every_login_shell_hands_on_the_program_unchanged(shell: str, tmp_path: Path) -> None:
    odd = [
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
    program = "printf '%s|' " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in odd)
    wire = SshWire("nowhere", {})
    Path(wire._control).parent.mkdir(mode=0o700, exist_ok=True)
    control = Path(wire._control)
    control.touch()  # as if there were a connection
    try:
        line = wire.build_argv(program)[-1]
    finally:
        control.unlink()
    done = subprocess.run([shell, "-c", line], capture_output=True, check=True, cwd=tmp_path)
    assert done.stdout.decode() == "".join(word + "|" for word in odd)


def test_a_host_whose_key_is_not_known_is_refused(mngr: MngrProgram, farm: Farm, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text("")
    lines = [
        f"  UserKnownHostsFile {known}" if "UserKnownHostsFile" in line else line
        for line in farm.config.read_text().splitlines()
    ]
    config = tmp_path / "ssh_config"
    config.write_text("\n".join(lines) + "\n")
    ran = mngr("create", "foo@h1", "--", "cat", code=6, env={"MNGR__PROVIDERS__SSH__CONFIG": str(config)})
    assert "host key is not known" in ran.err and "ssh h1" in ran.err
    assert known.read_text() == ""
    assert not mngr.home.exists()


def test_the_users_keys_stay_here_unless_asked(farm: Farm, tmp_path: Path) -> None:
    agent = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    values = dict(part.strip().split("=", 1) for part in agent.split(";") if "=" in part)
    pid = int(values["SSH_AGENT_PID"])
    ask = ["sh", "-c", 'test -z "${SSH_AUTH_SOCK-}" && echo none || echo there']
    os.environ["SSH_AUTH_SOCK"] = values["SSH_AUTH_SOCK"]
    try:
        home = Home(str(tmp_path))
        options = {"config": str(farm.config)}
        assert SshProvider("ssh", home, options).open("h1").run(ask).text == "none"
        asked = {**options, "forward_agent": True}
        assert SshProvider("ssh", home, asked).open("h1").run(ask).text == "there"
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


def test_a_pool_gives_the_least_loaded_host(away: MngrProgram) -> None:
    away.env["MNGR__PROVIDERS__FARM__KIND"] = "ssh"
    away.env["MNGR__PROVIDERS__FARM__CONFIG"] = away.env["MNGR__PROVIDERS__SSH__CONFIG"]
    away.env["MNGR__PROVIDERS__FARM__HOSTS"] = '["h1", "h2", "h3", "dead-one.invalid"]'
    for name in ("a", "b", "c"):
        away("create", f"{name}@.farm", "--", "sleep", "1000")
    agents = away.run_json("list")["agents"]
    assert sorted(agent["host"] for agent in agents) == ["h1", "h2", "h3"]
    assert {agent["provider"] for agent in agents} == {"farm"}
    ran = away("create", "d@h9.farm", "--", "cat", code=1)
    assert "no host 'h9'" in ran.err and "h1, h2, h3" in ran.err
    away("create", "e@h2", "--", "sleep", "1000")  # in one pool only, so that is meant
    assert away.get_agent("e")["provider"] == "farm"


def test_without_a_pool_a_host_must_be_named(away: MngrProgram) -> None:
    ran = away("create", "foo@.ssh", "--", "cat", code=1)
    assert "pool" in ran.err and "NAME@HOST" in ran.err


def test_a_host_that_is_cut_off_is_an_error_row_and_its_agents_are_unknown(away: MngrProgram, farm: Farm) -> None:
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
    ran = away("create", "foo@h2", "--", "cat", code=None)
    assert ran.code == 6, ran.err  # whether the name is free only h1 can tell
    farm.mend("h1")
    assert {agent["name"]: agent["state"] for agent in away.run_json("list")["agents"]} == {
        "foo": "RUNNING",
        "bar": "RUNNING",
    }


def test_a_dead_host_costs_its_deadline_once_and_nobody_else(away: MngrProgram, farm: Farm) -> None:
    away.env["MNGR__PROVIDERS__SSH__CONNECT_TIMEOUT"] = "2"
    away("create", "foo@h1", "--", "sleep", "1000")
    for name in ("dead", "gone-1.invalid", "gone-2.invalid"):
        facts = {"v": 1, "home": "/nowhere/.mngr", "uid": 0}
        (away.home / "hosts" / "ssh" / f"{name}.json").write_text(json.dumps(facts))
    began = time.monotonic()
    rows = away.run_json("list")
    assert time.monotonic() - began < 6
    assert [agent["name"] for agent in rows["agents"]] == ["foo"]
    assert sorted(error["host"] for error in rows["errors"]) == ["dead", "gone-1.invalid", "gone-2.invalid"]


def test_a_machine_that_crashes_and_comes_back(mngr: MngrProgram, machine: Machine) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(machine.config)
    mngr.env["MNGR__PROVIDERS__SSH__ALIVE"] = "1"
    mngr("create", "foo@m1", "--", "sh", "-c", "echo here >>log; exec sleep 1000")
    mngr("list")
    machine.crash()
    rows = mngr.run_json("list")
    assert [agent["state"] for agent in rows["agents"]] == ["UNKNOWN"] and len(rows["errors"]) == 1
    machine.restart()
    agent = wait_for(lambda: (found := mngr.get_agent("foo"))["state"] != "UNKNOWN" and found)
    assert (agent["state"], agent["state_reason"]) == ("FAILED", "lost")
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    assert mngr("exec", "foo", "--", "cat", "log").out == "here\nhere\n"


def test_a_cut_wire_ends_a_command_within_its_limit(mngr: MngrProgram, machine: Machine) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(machine.config)
    mngr.env["MNGR__PROVIDERS__SSH__ALIVE"] = "1"
    mngr("create", "foo@m1", "--", "sleep", "1000")
    machine.partition()
    began = time.monotonic()
    ran = mngr("exec", "foo", "--", "true", code=6)
    assert time.monotonic() - began < 10
    assert "m1" in ran.err
    machine.heal()
    mngr("exec", "foo", "--", "true")


def test_the_first_message_goes_with_all_the_rest_and_an_interrupt_then_leaves_the_agent(
    away: MngrProgram,
) -> None:
    away("create", "foo@h1", "player", "-m", "hello")
    assert "hello" in away("transcript", "foo").out
    deaf = '{"lose_enters": 1000, "steps": []}'
    with BackgroundProgram(away, "create", "bar@h1", "player", "-m", "nobody hears it", "--", deaf) as making:
        wait_for(lambda: "nobody hears it" in away("capture", "bar", code=None).out)
        making.process.send_signal(signal.SIGINT)
        assert making.process.wait(30) == 130
    assert away.get_agent("bar")["state"] == "WAITING"
    ran = away("create", "w@h1", "player", "--count", "6", "-m", "to all")
    assert ran.out.count("runs in") == 6
    assert all("to all" in away("transcript", f"w-{number}").out for number in range(1, 7))
