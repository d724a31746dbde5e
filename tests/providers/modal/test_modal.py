"""Sandboxes of Modal as hosts: what is their own. The library is the real one, the control plane is ours."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from mngr.base import clock
from mngr.testkit.contract.program import (
    BIN_DIR,
    IS_FULL_SCALE,
    BackgroundProgram,
    MngrProgram,
    run_git,
    wait_for,
)
from tests.conftest import SEED
from tests.providers.modal.test_contract import settings
from tests.support.hosts.modal.server import Modal, python

pytestmark = pytest.mark.sampled(5)

RUN = ("--", "sleep", "1000")
NOTHING: dict[str, Any] = {"sandboxes": {}, "images": {}}


@pytest.fixture
def plane(mngr: MngrProgram, modal: Modal) -> Modal:
    """The control plane, which `mngr` uses."""
    mngr.env.update({**settings(), **modal.env})
    return modal


def left(plane: Modal) -> dict[str, Any]:
    """What the control plane itself says there is, but for images that were built."""
    return {key: value for key, value in plane.left().items() if key in NOTHING}


def the_sandbox(plane: Modal) -> dict[str, Any]:
    (found,) = plane.left()["sandboxes"].values()
    return dict(found)


def states(mngr: MngrProgram) -> dict[str, str]:
    rows = mngr.run_json("list", "--hosts")["hosts"]
    return {row["host"]: row["state"] for row in rows if row["provider"] == "modal"}


def test_a_stopped_host_is_one_image_that_stays_and_a_destroyed_one_is_nothing(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    assert the_sandbox(plane)["ports"] == 0 and plane.left()["images"] == {}
    (row,) = [row for row in mngr.run_json("list", "--hosts")["hosts"] if row["provider"] == "modal"]
    assert 86000 < clock.parse_timestamp(row["ends_at"]) - time.time() <= 86400
    kept: list[str] = []
    for text in ("one", "two"):
        mngr("exec", "foo", "--", "sh", "-c", f"echo {text} >>file")
        mngr("stop", "@box.modal")
        assert plane.left()["sandboxes"] == {} and list(plane.left()["images"].values()) == [-1]
        kept += plane.left()["images"]
        mngr("start", "@box.modal")
    assert len(set(kept)) == 2  # and the first is gone
    assert mngr("exec", "foo", "--", "cat", "file").out == "one\ntwo\n"
    mngr("destroy", "--force", "@box.modal")
    assert left(plane) == NOTHING
    assert mngr("gc").err == "nothing to clean up\n"


def test_of_hosts_with_the_same_files_one_is_asked_what_it_is_like(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@.modal", *RUN)
    name = 'Ann "A\\" B'
    run_git(mngr.repo, "config", "user.name", name)
    ran = mngr("create", "bar@other.modal", "player", "-m", "hello")
    assert "bar runs in" in ran.out
    (known,) = Path(mngr.env["MNGR_HOME"], "cache").glob("alike-modal-*.json")
    facts = json.loads(Path(mngr.env["MNGR_HOME"], "hosts/modal/other.json").read_text())
    assert facts["env"] == json.loads(known.read_text())["facts"]["env"] and "boot" not in facts
    assert mngr("exec", "bar", "--", "git", "config", "--global", "user.name").out == f"{name}\n"
    assert "hello" in mngr("transcript", "bar").out
    # Whoever made it may have been cut off before its first command; then the next one makes its home.
    mngr("exec", "bar", "--", "sh", "-c", "tmux kill-server; rm -rf ~/.mngr")
    assert states(mngr) == {
        facts["engine"]["tags"]["host"]: "RUNNING",
        mngr.get_agent("foo")["host"]: "RUNNING",
    }
    mngr("create", "baz@other.modal", *RUN)
    assert mngr("exec", "baz", "--", "echo", "there").out == "there\n"


def test_a_sandbox_that_ends_by_itself_keeps_its_files(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("list")
    mngr("exec", "foo", "--", "sh", "-c", "echo precious >file; kill -9 -1", code=255)
    wait_for(lambda: states(mngr) == {"box": "STOPPED"})
    (agent,) = mngr.run_json("list")["agents"]
    assert (agent["state"], agent["host_state"]) == ("STOPPED", "STOPPED")
    assert "the host box is stopped" in mngr("exec", "foo", "--", "true", code=6).err
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "file").out == "precious\n"
    mngr("destroy", "--force", "@box.modal")
    assert left(plane) == NOTHING


def test_a_host_that_was_stopped_once_is_never_gone(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo precious >file")
    mngr("stop", "@box.modal")
    mngr("start", "@box.modal")
    plane.fail(exit_fails=1)
    mngr("exec", "foo", "--", "sh", "-c", "kill -9 -1", code=255)
    wait_for(lambda: plane.left()["sandboxes"] == {})
    plane.fail()
    assert states(mngr) == {"box": "STOPPED"}
    assert mngr("gc").err == "nothing to clean up\n"
    mngr("destroy", "--force", "@box.modal")
    assert left(plane) == NOTHING
    mngr("undestroy", "foo")
    assert mngr("exec", "foo", "--", "cat", "file").out == "precious\n"


def test_a_host_whose_files_were_never_kept_is_gone(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("list")
    plane.fail(exit_fails=1)
    mngr("exec", "foo", "--", "sh", "-c", "kill -9 -1", code=255)
    wait_for(lambda: plane.left()["sandboxes"] == {})
    assert "its files were not kept" in mngr("exec", "foo", "--", "true", code=6).err
    mngr("destroy", "--force", "@box.modal")
    assert left(plane) == NOTHING


def test_the_newest_files_win_when_a_stop_could_not_end_the_sandbox(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo old >file")
    plane.fail(end_fails=1)
    assert "cannot be ended now" in mngr("stop", "@box.modal", code=1).err
    plane.fail()
    mngr("exec", "foo", "--", "sh", "-c", "echo new >file; kill -9 -1", code=255)
    wait_for(lambda: states(mngr) == {"box": "STOPPED"})
    mngr("start", "@box.modal")
    assert mngr("exec", "foo", "--", "cat", "file").out == "new\n"
    mngr("destroy", "--force", "@box.modal")
    assert left(plane) == NOTHING


def test_a_stop_that_was_cut_off_at_its_end_has_kept_the_files(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo precious >file")
    known = mngr.home / "hosts/modal/box.json"
    before = known.read_text()
    mngr("stop", "@box.modal")
    known.write_text(before)
    assert states(mngr) == {"box": "STOPPED"}
    assert mngr("gc").err == "nothing to clean up\n"
    mngr("start", "@box.modal")
    assert mngr("exec", "foo", "--", "cat", "file").out == "precious\n"
    mngr("destroy", "--force", "@box.modal")
    assert left(plane) == NOTHING


@pytest.mark.full
def test_a_sandbox_lives_as_long_as_it_may(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", "-b", "timeout=12s", *RUN)
    assert the_sandbox(plane)["timeout"] == 12
    wait_for(lambda: states(mngr) == {"box": "STOPPED"}, timeout=30)
    assert "cannot be more than 24h" in mngr("create", "x@.modal", "-b", "timeout=25h", *RUN, code=2).err


@pytest.mark.full
def test_an_idle_sandbox_ends_and_one_with_a_busy_agent_does_not(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "calm@calm.modal", "-b", "idle_timeout=5s", *RUN)
    mngr("create", "busy@busy.modal", "-b", "idle_timeout=5s", "--", "while :; do echo tick; sleep 0.5; done")
    wait_for(lambda: len(plane.left()["sandboxes"]) == 1, timeout=60)
    deadline = time.monotonic() + 25  # what must not happen can only be waited for
    while time.monotonic() < deadline:
        assert the_sandbox(plane)["tags"]["host"] == "busy"
        time.sleep(0.5)
    assert states(mngr) == {"calm": "STOPPED", "busy": "RUNNING"}


def test_the_network_is_closed_or_open_to_what_is_named(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@.modal", "--network", "off", *RUN)
    assert the_sandbox(plane)["network"] == "BLOCKED"
    assert mngr("exec", "foo", "--", "echo", "reached").out == "reached\n"
    mngr("destroy", "--force", "foo")
    mngr("create", "bar@.modal", "--network", "allow=203.0.113.7,api.example.com", *RUN)
    made = the_sandbox(plane)
    assert (made["network"], made["allowed"]) == ("ALLOWLIST", ["203.0.113.7/32", "api.example.com"])
    refused = mngr("create", "x@.modal", "--network", "allow=api.example.com:8080", *RUN, code=2).err
    assert "names there are for port 443" in refused
    assert "for every port" in mngr("create", "x@.modal", "--network", "allow=203.0.113.7:443", *RUN, code=2).err
    mngr("destroy", "--force", "bar")
    for word in ("OFF", "none", "api.example.com"):
        assert f"--network cannot be '{word}'" in mngr("create", "x@.modal", "--network", word, *RUN, code=2).err
        assert "cannot be" in mngr("create", "x@.modal", "-b", f"network={word}", *RUN, code=2).err
    assert "cannot be ''" in mngr("create", "x@.modal", "-b", "network=", *RUN, code=2).err
    mngr("create", "baz@.modal", "-S", "providers.modal.network=false", *RUN)
    assert the_sandbox(plane)["network"] == "BLOCKED"


BAD = [
    "cpus+=2", "cpus=nan", "cpus=-1", "cpus=many", "memory=inf", "memory=-5", "memory=4x", "memory+=4g", "memory=0.5m",
    "timeout=0.5s", "idle_timeout=0.5s", "idle_timeout+=5s",
]  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_what_no_host_can_have_is_refused(mngr: MngrProgram, words: str) -> None:
    said = mngr("create", "foo@.modal", "-b", words, *RUN, code=2).err
    assert f"{words.partition('=')[0].rstrip('+')} cannot be " in said or "not a length of time" in said
    assert "Hint: " in said


def test_a_python_that_is_no_path_is_refused(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "settings.toml").write_text("[providers.modal]\npython = 3.12\n")
    said = mngr("create", "foo@.modal", *RUN, code=2).err
    assert "[providers.modal] python cannot be 3.12" in said and "Hint: " in said


def test_no_room_is_waited_for(mngr: MngrProgram, plane: Modal) -> None:
    plane.fail(max_sandboxes=1)
    mngr("create", "foo@.modal", *RUN)
    with BackgroundProgram(mngr, "create", "bar@.modal", *RUN) as waiting:
        wait_for(lambda: plane.left()["refused"])
        mngr("destroy", "--force", "foo")
        ended = waiting.wait_for_end()
    assert ended.code == 0 and "waiting for modal" in ended.err
    assert len(plane.left()["sandboxes"]) == 1


def test_who_does_not_answer_is_said_so_in_three_seconds(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("list")
    mngr.env["MODAL_SERVER_URL"] = "http://127.0.0.1:1"
    began = time.monotonic()
    refused = mngr("create", "bar@.modal", *RUN, code=6).err
    assert "Modal cannot be reached: 127.0.0.1:1 cannot be reached" in refused
    shown = mngr.run_json("list")
    assert [row["host"] for row in shown["errors"]] == ["box"]
    assert time.monotonic() - began < 6
    mngr.env.update(plane.env)
    mngr.env["MODAL_TOKEN_SECRET"] = "as-wrong"
    assert "modal token new" in mngr("create", "bar@.modal", *RUN, code=1).err
    mngr.env["MNGR__PROVIDERS__MODAL__PYTHON"] = str(BIN_DIR / "python")
    assert "pip install 'modal" in mngr("create", "bar@.modal", *RUN, code=1).err
    # Of those that were never taken nothing is noted; nobody knows of the one that could not be reached.
    assert len(list((mngr.home / "hosts/modal").glob("*.making"))) == 1


def test_an_image_is_built_once_and_one_that_cannot_be_built_leaves_nothing(mngr: MngrProgram, plane: Modal) -> None:
    words = ("-b", "run+=echo mine >/etc/mine", "-b", "apt+=jq", *RUN)
    mngr("create", "foo@.modal", *words)
    built = plane.left()["built"]
    mngr("create", "bar@.modal", *words)
    assert plane.left()["built"] == built
    assert mngr("exec", "bar", "--", "cat", "/etc/mine").out == "mine\n"
    refused = mngr("create", "x@.modal", "-b", "run+=echo no >&2; exit 3", *RUN, code=1).err
    assert "the image could not be built" in refused and "exited with 3" in refused
    assert len(plane.left()["sandboxes"]) == 2


@pytest.mark.sampled(6)
def test_who_takes_connections_and_says_nothing_does_not_answer(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mngr.env["MODAL_SERVER_URL"] = f"http://127.0.0.1:{mute.getsockname()[1]}"
        began = time.monotonic()
        assert "Modal cannot be reached: 127.0.0.1:" in mngr("create", "bar@.modal", *RUN, code=6).err
        assert time.monotonic() - began < 20
    mngr.env.update(plane.env)
    with plane.silent():
        assert "does not answer" in mngr("exec", "foo", "--", "true", code=6).err
    wait_for(lambda: mngr("exec", "foo", "--", "echo", "fine", code=None).out == "fine\n")


def test_hosts_are_made_from_one_that_was_prepared(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", "--env", "TOKEN=hunter2", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo ready >/opt/prepared")
    mngr("snapshot", "create", "@box.modal", "warm")
    mngr("create", "bar@.modal", "-b", "snapshot=warm", *RUN)
    assert mngr("exec", "bar", "--", "cat", "/opt/prepared").out == "ready\n"
    assert mngr("exec", "bar", "--", "sh", "-c", "grep -rl hunter2 ~/.mngr || :").out == ""
    assert sorted(a["name"] for a in mngr.run_json("list")["agents"]) == ["bar", "foo"]
    mngr("snapshot", "destroy", "warm")
    mngr("destroy", "--force", "foo", "bar")
    mngr("destroy", "--force", *(f"@{host}.modal" for host in states(mngr)))
    assert left(plane) == NOTHING


def test_what_nobody_knows_is_named_when_it_is_listed(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    for name in ("json", "seen"):
        (mngr.home / "hosts/modal" / f"box.{name}").unlink(missing_ok=True)
    plane.fail(list_lag=1000)
    assert mngr("gc").err == "nothing to clean up\n"
    plane.fail()
    (sandbox,) = plane.left()["sandboxes"]
    said = mngr("gc").err
    assert f"the sandbox {sandbox} was made from this home, which does not know it" in said
    removal = said.partition("if you do not need it: ")[2].splitlines()[0]
    argv = [str(python()), *shlex.split(removal)[1:]]
    subprocess.run(argv, env={**os.environ, **plane.env}, check=True)
    assert plane.left()["sandboxes"] == {}


@pytest.mark.parametrize("words", [("stop", "@box.modal"), ("snapshot", "create", "@box.modal", "warm")])
def test_an_image_that_comes_after_its_command_was_killed_is_deleted(
    mngr: MngrProgram, plane: Modal, words: tuple[str, ...]
) -> None:
    mngr("create", "foo@box.modal", *RUN)
    plane.fail(snapshot_delay=2)
    before = plane.left()
    with BackgroundProgram(mngr, *words) as killed:
        wait_for(lambda: plane.left()["snapshots"] > before["snapshots"])
        killed.process.kill()
    wait_for(lambda: plane.left()["made"] > before["made"])
    wait_for(lambda: plane.left()["images"] == {})


def test_the_image_of_a_snapshot_that_was_cut_off_is_deleted(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    place = mngr.home / "snapshots/warm"
    told = place.with_name("warm.part") / "meta.json"
    while True:
        with BackgroundProgram(mngr, "snapshot", "create", "@box.modal", "warm") as killed:
            while not told.exists() and killed.process.poll() is None:
                pass
            killed.process.kill()
        if not place.exists():
            break
        mngr("snapshot", "destroy", "warm")  # it was quicker
    refused = mngr("snapshot", "create", "@box.modal", "warm", code=1).err
    assert "a snapshot called 'warm' was cut off" in refused and "mngr gc" in refused
    assert "warm" in mngr("gc").out
    assert plane.left()["images"] == {}
    assert mngr("gc").err == "nothing to clean up\n"


def test_a_host_of_ours_that_was_forgotten_and_joined_is_as_it_was_made(mngr: MngrProgram, plane: Modal) -> None:
    network = "allow=203.0.113.7,api.example.com,another.example.com"
    mngr("create", "foo@box.modal", "-b", "timeout=2h", "--network", network, *RUN)
    made = the_sandbox(plane)
    for name in ("json", "seen"):
        (mngr.home / "hosts/modal" / f"box.{name}").unlink(missing_ok=True)
    mngr("create", "bar@box.modal", *RUN)
    mngr("exec", "bar", "--", "sh", "-c", "echo one >file")
    mngr("stop", "@box.modal")
    mngr("start", "@box.modal")
    assert the_sandbox(plane) == made
    mngr("exec", "bar", "--", "sh", "-c", "echo two >>file; kill -9 -1", code=255)
    wait_for(lambda: states(mngr) == {"box": "STOPPED"})
    mngr("start", "@box.modal")
    assert the_sandbox(plane) == made
    assert mngr("exec", "bar", "--", "cat", "file").out == "one\ntwo\n"
    mngr("destroy", "--force", "@box.modal")
    assert left(plane) == NOTHING


def test_a_host_of_ours_that_was_joined_and_ends_by_itself_is_started(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    (mngr.home / "hosts/modal/box.json").unlink()
    mngr("create", "bar@box.modal", *RUN)
    mngr("exec", "bar", "--", "sh", "-c", "kill -9 -1", code=255)
    wait_for(lambda: states(mngr) == {"box": "STOPPED"})
    mngr("start", "@box.modal")
    assert the_sandbox(plane)["tags"]["host"] == "box"


MOMENTS = 50 if IS_FULL_SCALE else 2


@pytest.mark.parametrize("verb", ["create", "stop", "start", "destroy"])
def test_nothing_is_left_wherever_mngr_is_killed(mngr: MngrProgram, plane: Modal, verb: str) -> None:
    chance = random.Random(f"{SEED} {verb}")
    print("seed", SEED)
    words = {
        "create": ("create", "foo@box.modal", *RUN), "stop": ("stop", "@box.modal"), "start": ("start", "@box.modal"),
        "destroy": ("destroy", "--force", "@box.modal"),
    }[verb]  # fmt: skip
    longest = 3.0 if verb == "create" else 1.0
    for _ in range(max(1, MOMENTS // 4)):
        if verb != "create":
            mngr("create", "foo@box.modal", *RUN)
        if verb == "start":
            mngr("stop", "@box.modal")
        process = subprocess.Popen(
            [BIN_DIR / "mngr", *words],
            cwd=mngr.repo,
            env=mngr.env,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            process.wait(chance.uniform(0.05, longest))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.wait()
        mngr("gc")
        known = states(mngr)
        assert set(known) <= {"box"} and "UNKNOWN" not in known.values()
        if verb in ("stop", "start") and known["box"] == "STOPPED":
            mngr("start", "@box.modal")
        if known:
            mngr("destroy", "--force", "@box.modal")
        wait_for(lambda: left(plane) == NOTHING, timeout=10)
        assert mngr("gc").err == "nothing to clean up\n"
