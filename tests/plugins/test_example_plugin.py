"""The example plugin, installed as a user would install it, and each of its four additions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git, wait_for

pytestmark = pytest.mark.hosts


@pytest.fixture
def plugged(mngr: MngrProgram, example_plugin: Path) -> Iterator[MngrProgram]:
    """mngr with the plugin on its import path."""
    mngr.env["PYTHONPATH"] = str(example_plugin)
    yield mngr
    for link in mngr.home.glob("scratch/*/tmux.socket"):
        subprocess.run(["tmux", "-S", os.readlink(link), "kill-server"], capture_output=True, check=False)
        Path(os.readlink(link)).unlink(missing_ok=True)


def read_log(mngr: MngrProgram) -> list[str]:
    return (mngr.home / "example.log").read_text().splitlines()


def test_a_provider_of_a_plugin_runs_agents_on_its_hosts(plugged: MngrProgram) -> None:
    plugged("create", "foo@box.scratch", "--", "sleep", "1000")
    agent = plugged.get_agent("foo")
    assert (agent["host"], agent["provider"], agent["state"]) == ("box", "scratch", "RUNNING")
    work = plugged.home / "scratch" / "box" / "work" / "foo"
    assert Path(agent["work_dir"]) == work
    assert plugged("exec", "foo", "--", "pwd").out == f"{work}\n"
    assert plugged("exec", "foo@box.scratch", "--", "git", "branch", "--show-current").out == "mngr/foo\n"
    assert plugged("list", "--host", "box", "--format", "{name}@{host}.{provider}").out == "foo@box.scratch\n"
    hosts = plugged.run_json("list", "--hosts")["hosts"]
    assert [(row["host"], row["provider"], row["agents"]) for row in hosts] == [
        ("local", "local", 0),
        ("box", "scratch", 1),
    ]
    plugged("stop", "foo")
    assert plugged.get_agent("foo")["state"] == "STOPPED"
    plugged("start", "foo")
    assert plugged.get_agent("foo")["state"] == "RUNNING"
    plugged("destroy", "--force", "foo")
    assert plugged.list_agents() == []
    assert not work.exists()
    assert run_git(plugged.repo, "worktree", "list").count("\n") == 0


def test_create_without_a_host_name_creates_a_new_host(plugged: MngrProgram) -> None:
    agent = plugged("create", "foo@.scratch", "--format", "json", "--", "sleep", "1000").parse_json()["agents"][0]
    assert agent["host"].startswith("box-")
    assert (plugged.home / "scratch" / agent["host"] / "agents" / agent["id"]).is_dir()


def test_an_agent_name_is_unique_across_all_hosts(plugged: MngrProgram) -> None:
    plugged("create", "foo@box.scratch", "--", "sleep", "1000")
    result = plugged("create", "foo", "--branch", ":other", "--", "sleep", "1000", code=1)
    assert "there is already an agent called 'foo'" in result.err
    result = plugged("create", "foo@crate.scratch", "--branch", ":other", "--", "sleep", "1000", code=1)
    assert "there is already an agent called 'foo'" in result.err
    plugged("create", "foo@box.scratch", "--reuse", "--", "sleep", "1000")
    assert [agent["host"] for agent in plugged.list_agents()] == ["box"]


def test_a_setting_chooses_the_directory_of_scratch_hosts(plugged: MngrProgram, tmp_path: Path) -> None:
    plugged("config", "set", "providers.scratch.root", str(tmp_path / "big"))
    plugged("create", "foo@box.scratch", "--", "true")
    assert plugged.get_agent("foo")["work_dir"] == str(tmp_path / "big" / "box" / "work" / "foo")
    link = tmp_path / "big" / "box" / "tmux.socket"
    subprocess.run(["tmux", "-S", os.readlink(link), "kill-server"], capture_output=True, check=False)


def test_an_agent_kind_of_a_plugin_runs_and_takes_messages(plugged: MngrProgram) -> None:
    plugged("create", "foo", "echo", "--", "good", "morning")
    assert (plugged.get_agent("foo")["kind"], plugged.get_agent("foo")["state"]) == ("echo", "RUNNING")
    wait_for(lambda: "good morning" in plugged("capture", "foo").out)
    sent = plugged.run_json("message", "foo", "-m", "are you there?")["results"][0]
    assert (sent["delivered"], sent["proof"]) == (True, "sent")
    wait_for(lambda: "echo: are you there?" in plugged("capture", "foo").out)
    result = plugged("create", "bar", "echo", code=2)
    assert "an echo needs its first words" in result.err


def test_an_agent_whose_plugin_is_uninstalled_is_shown_as_unknown(plugged: MngrProgram) -> None:
    plugged("create", "foo", "echo", "--", "good", "morning")
    del plugged.env["PYTHONPATH"]
    agent = plugged.get_agent("foo")
    assert (agent["state"], agent["state_reason"]) == ("UNKNOWN", "there is no agent kind 'echo'")


def test_a_command_of_a_plugin_has_options_settings_help_and_json(plugged: MngrProgram) -> None:
    plugged("create", "foo", "--", "sleep", "1000")
    assert plugged("hello").out == "hello foo\n"
    assert plugged("hello", "--greeting", "moin").out == "moin foo\n"
    assert plugged.run_json("hello") == {"v": 1, "greetings": [{"name": "foo", "greeting": "hello"}]}
    assert plugged("hello", env={"MNGR__COMMANDS__HELLO__GREETING": "hi"}).out == "hi foo\n"
    assert "the word to greet with (default: hello)" in plugged("help", "hello").out
    assert plugged("hello", "--greetin", "x", code=2).err.startswith("Error: mngr hello has no option --greetin")


def test_lifecycle_hooks_are_called_in_the_order_of_the_steps(plugged: MngrProgram) -> None:
    plugged("create", "foo", "--", "sleep", "1000")
    lines = read_log(plugged)
    assert lines[0] == "create foo: reserve"
    assert lines[-2:] == ["create foo: commit", "created foo on local.local"]
    plugged("destroy", "--force", "foo")
    assert read_log(plugged)[-1] == "destroyed foo"


def test_plugin_list_shows_the_plugin_and_its_version(plugged: MngrProgram) -> None:
    output = plugged("plugin", "list").out
    assert "example" in output
    assert "mngr_example 0.1.0" in output
