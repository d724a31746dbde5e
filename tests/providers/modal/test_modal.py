"""Modal sandboxes as hosts, with the real library and a control plane for tests."""

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

from mngr.base import time_format
from mngr.testkit.contract.mngr_program import (
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
    """The control plane that `mngr` uses."""
    mngr.env.update({**settings(), **modal.env})
    return modal


def list_resources(plane: Modal) -> dict[str, Any]:
    """Return the sandboxes and images that the control plane has, without built images."""
    return {key: value for key, value in plane.left().items() if key in NOTHING}


def get_only_sandbox(plane: Modal) -> dict[str, Any]:
    (sandbox,) = plane.left()["sandboxes"].values()
    return dict(sandbox)


def get_host_states(mngr: MngrProgram) -> dict[str, str]:
    rows = mngr.run_json("list", "--hosts")["hosts"]
    return {row["host"]: row["state"] for row in rows if row["provider"] == "modal"}


def test_a_stopped_host_is_one_image_and_a_destroyed_host_leaves_nothing(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    assert get_only_sandbox(plane)["ports"] == 0 and plane.left()["images"] == {}
    (row,) = [row for row in mngr.run_json("list", "--hosts")["hosts"] if row["provider"] == "modal"]
    assert 86000 < time_format.parse_timestamp(row["ends_at"]) - time.time() <= 86400
    images: list[str] = []
    for text in ("one", "two"):
        mngr("exec", "foo", "--", "sh", "-c", f"echo {text} >>file")
        mngr("stop", "@box.modal")
        assert plane.left()["sandboxes"] == {} and list(plane.left()["images"].values()) == [-1]
        images += plane.left()["images"]
        mngr("start", "@box.modal")
    assert len(set(images)) == 2  # the first image was deleted
    assert mngr("exec", "foo", "--", "cat", "file").out == "one\ntwo\n"
    mngr("destroy", "--force", "@box.modal")
    assert list_resources(plane) == NOTHING
    assert mngr("gc").err == "nothing to clean up\n"


def test_mngr_reads_the_facts_of_only_one_host_of_an_image(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@.modal", *RUN)
    name = 'Ann "A\\" B'
    run_git(mngr.repo, "config", "user.name", name)
    result = mngr("create", "bar@other.modal", "player", "-m", "hello")
    assert "bar runs in" in result.out
    (cache_file,) = Path(mngr.env["MNGR_HOME"], "cache").glob("alike-modal-*.json")
    facts = json.loads(Path(mngr.env["MNGR_HOME"], "hosts/modal/other.json").read_text())
    assert facts["env"] == json.loads(cache_file.read_text())["facts"]["env"] and "boot" not in facts
    assert mngr("exec", "bar", "--", "git", "config", "--global", "user.name").out == f"{name}\n"
    assert "hello" in mngr("transcript", "bar").out
    # The creator may be killed before its first command. Then the next command creates the home.
    mngr("exec", "bar", "--", "sh", "-c", "tmux kill-server; rm -rf ~/.mngr")
    assert get_host_states(mngr) == {
        facts["engine"]["tags"]["host"]: "RUNNING",
        mngr.get_agent("foo")["host"]: "RUNNING",
    }
    mngr("create", "baz@other.modal", *RUN)
    assert mngr("exec", "baz", "--", "echo", "there").out == "there\n"


def test_a_sandbox_that_ends_by_itself_keeps_its_files(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("list")
    mngr("exec", "foo", "--", "sh", "-c", "echo precious >file; kill -9 -1", code=255)
    wait_for(lambda: get_host_states(mngr) == {"box": "STOPPED"})
    (agent,) = mngr.run_json("list")["agents"]
    assert (agent["state"], agent["host_state"]) == ("STOPPED", "STOPPED")
    assert "the host box is stopped" in mngr("exec", "foo", "--", "true", code=6).err
    mngr("start", "foo")
    assert mngr("exec", "foo", "--", "cat", "file").out == "precious\n"
    mngr("destroy", "--force", "@box.modal")
    assert list_resources(plane) == NOTHING


def test_a_host_with_an_image_of_its_files_is_stopped_and_not_gone(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo precious >file")
    mngr("stop", "@box.modal")
    mngr("start", "@box.modal")
    plane.fail(exit_fails=1)
    mngr("exec", "foo", "--", "sh", "-c", "kill -9 -1", code=255)
    wait_for(lambda: plane.left()["sandboxes"] == {})
    plane.fail()
    assert get_host_states(mngr) == {"box": "STOPPED"}
    assert mngr("gc").err == "nothing to clean up\n"
    mngr("destroy", "--force", "@box.modal")
    assert list_resources(plane) == NOTHING
    mngr("undestroy", "foo")
    assert mngr("exec", "foo", "--", "cat", "file").out == "precious\n"


def test_a_host_without_an_image_of_its_files_is_gone(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("list")
    plane.fail(exit_fails=1)
    mngr("exec", "foo", "--", "sh", "-c", "kill -9 -1", code=255)
    wait_for(lambda: plane.left()["sandboxes"] == {})
    assert "its files were not saved" in mngr("exec", "foo", "--", "true", code=6).err
    mngr("destroy", "--force", "@box.modal")
    assert list_resources(plane) == NOTHING


def test_the_newest_files_are_restored_after_a_failed_stop(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo old >file")
    plane.fail(end_fails=1)
    assert "cannot be ended now" in mngr("stop", "@box.modal", code=1).err
    plane.fail()
    mngr("exec", "foo", "--", "sh", "-c", "echo new >file; kill -9 -1", code=255)
    wait_for(lambda: get_host_states(mngr) == {"box": "STOPPED"})
    mngr("start", "@box.modal")
    assert mngr("exec", "foo", "--", "cat", "file").out == "new\n"
    mngr("destroy", "--force", "@box.modal")
    assert list_resources(plane) == NOTHING


def test_a_stop_that_was_interrupted_at_its_end_keeps_the_files(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo precious >file")
    facts_file = mngr.home / "hosts/modal/box.json"
    old_facts = facts_file.read_text()
    mngr("stop", "@box.modal")
    facts_file.write_text(old_facts)
    assert get_host_states(mngr) == {"box": "STOPPED"}
    assert mngr("gc").err == "nothing to clean up\n"
    mngr("start", "@box.modal")
    assert mngr("exec", "foo", "--", "cat", "file").out == "precious\n"
    mngr("destroy", "--force", "@box.modal")
    assert list_resources(plane) == NOTHING


@pytest.mark.full
def test_a_sandbox_ends_after_its_timeout(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", "-b", "timeout=12s", *RUN)
    assert get_only_sandbox(plane)["timeout"] == 12
    wait_for(lambda: get_host_states(mngr) == {"box": "STOPPED"}, timeout=30)
    assert "cannot be more than 24h" in mngr("create", "x@.modal", "-b", "timeout=25h", *RUN, code=2).err


@pytest.mark.full
def test_an_idle_sandbox_ends_and_one_with_a_busy_agent_does_not(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "calm@calm.modal", "-b", "idle_timeout=5s", *RUN)
    mngr("create", "busy@busy.modal", "-b", "idle_timeout=5s", "--", "while :; do echo tick; sleep 0.5; done")
    wait_for(lambda: len(plane.left()["sandboxes"]) == 1, timeout=60)
    deadline = time.monotonic() + 25  # wait to see that the busy sandbox does not end
    while time.monotonic() < deadline:
        assert get_only_sandbox(plane)["tags"]["host"] == "busy"
        time.sleep(0.5)
    assert get_host_states(mngr) == {"calm": "STOPPED", "busy": "RUNNING"}


def test_the_network_option_blocks_or_allows_destinations(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@.modal", "--network", "off", *RUN)
    assert get_only_sandbox(plane)["network"] == "BLOCKED"
    assert mngr("exec", "foo", "--", "echo", "reached").out == "reached\n"
    mngr("destroy", "--force", "foo")
    mngr("create", "bar@.modal", "--network", "allow=203.0.113.7,api.example.com", *RUN)
    sandbox = get_only_sandbox(plane)
    assert (sandbox["network"], sandbox["allowed"]) == ("ALLOWLIST", ["203.0.113.7/32", "api.example.com"])
    stderr = mngr("create", "x@.modal", "--network", "allow=api.example.com:8080", *RUN, code=2).err
    assert "where a host name can have only port 443" in stderr
    assert (
        "where an address cannot have a port"
        in mngr("create", "x@.modal", "--network", "allow=203.0.113.7:443", *RUN, code=2).err
    )
    mngr("destroy", "--force", "bar")
    for word in ("OFF", "none", "api.example.com"):
        assert f"--network cannot be '{word}'" in mngr("create", "x@.modal", "--network", word, *RUN, code=2).err
        assert "cannot be" in mngr("create", "x@.modal", "-b", f"network={word}", *RUN, code=2).err
    assert "cannot be ''" in mngr("create", "x@.modal", "-b", "network=", *RUN, code=2).err
    mngr("create", "baz@.modal", "-S", "providers.modal.network=false", *RUN)
    assert get_only_sandbox(plane)["network"] == "BLOCKED"


BAD = [
    "cpus+=2", "cpus=nan", "cpus=-1", "cpus=many", "memory=inf", "memory=-5", "memory=4x", "memory+=4g", "memory=0.5m",
    "timeout=0.5s", "idle_timeout=0.5s", "idle_timeout+=5s",
]  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_invalid_host_options_are_rejected_with_a_hint(mngr: MngrProgram, words: str) -> None:
    stderr = mngr("create", "foo@.modal", "-b", words, *RUN, code=2).err
    assert (
        f"[providers.modal] {words.partition('=')[0].rstrip('+')} must be " in stderr
        or "not a length of time" in stderr
    )
    assert "Hint: " in stderr


def test_a_python_setting_that_is_not_a_path_is_rejected(mngr: MngrProgram) -> None:
    mngr.home.mkdir()
    (mngr.home / "settings.toml").write_text("[providers.modal]\npython = 3.12\n")
    stderr = mngr("create", "foo@.modal", *RUN, code=2).err
    assert "[providers.modal] python cannot be 3.12" in stderr and "Hint: " in stderr


def test_create_waits_when_modal_has_no_capacity(mngr: MngrProgram, plane: Modal) -> None:
    plane.fail(max_sandboxes=1)
    mngr("create", "foo@.modal", *RUN)
    with BackgroundProgram(mngr, "create", "bar@.modal", *RUN) as waiting:
        wait_for(lambda: plane.left()["refused"])
        mngr("destroy", "--force", "foo")
        result = waiting.wait_for_end()
    assert result.code == 0 and "waiting for modal" in result.err
    assert len(plane.left()["sandboxes"]) == 1


def test_an_unreachable_service_is_reported_within_three_seconds(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    mngr("list")
    mngr.env["MODAL_SERVER_URL"] = "http://127.0.0.1:1"
    started = time.monotonic()
    stderr = mngr("create", "bar@.modal", *RUN, code=6).err
    assert "Modal cannot be reached: 127.0.0.1:1 cannot be reached" in stderr
    listing = mngr.run_json("list")
    assert [row["host"] for row in listing["errors"]] == ["box"]
    assert time.monotonic() - started < 6
    mngr.env.update(plane.env)
    mngr.env["MODAL_TOKEN_SECRET"] = "as-wrong"
    assert "modal token new" in mngr("create", "bar@.modal", *RUN, code=1).err
    mngr.env["MNGR__PROVIDERS__MODAL__PYTHON"] = str(BIN_DIR / "python")
    assert "pip install 'modal" in mngr("create", "bar@.modal", *RUN, code=1).err
    # Rejected creates leave no facts. For the unreachable service it is unknown whether a sandbox exists.
    assert len(list((mngr.home / "hosts/modal").glob("*.making"))) == 1


def test_an_image_is_built_once_and_a_failed_build_leaves_nothing(mngr: MngrProgram, plane: Modal) -> None:
    words = ("-b", "run+=echo mine >/etc/mine", "-b", "apt+=jq", *RUN)
    mngr("create", "foo@.modal", *words)
    built = plane.left()["built"]
    mngr("create", "bar@.modal", *words)
    assert plane.left()["built"] == built
    assert mngr("exec", "bar", "--", "cat", "/etc/mine").out == "mine\n"
    stderr = mngr("create", "x@.modal", "-b", "run+=echo no >&2; exit 3", *RUN, code=1).err
    assert "the image could not be built" in stderr and "exited with 3" in stderr
    assert len(plane.left()["sandboxes"]) == 2


@pytest.mark.sampled(6)
def test_a_silent_service_counts_as_unreachable(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        mngr.env["MODAL_SERVER_URL"] = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
        started = time.monotonic()
        assert "Modal cannot be reached: 127.0.0.1:" in mngr("create", "bar@.modal", *RUN, code=6).err
        assert time.monotonic() - started < 20
    mngr.env.update(plane.env)
    with plane.silent():
        assert "does not answer" in mngr("exec", "foo", "--", "true", code=6).err
    wait_for(lambda: mngr("exec", "foo", "--", "echo", "fine", code=None).out == "fine\n")


def test_a_host_can_be_created_from_a_snapshot_without_its_agents(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", "--env", "TOKEN=hunter2", *RUN)
    mngr("exec", "foo", "--", "sh", "-c", "echo ready >/opt/prepared")
    mngr("snapshot", "create", "@box.modal", "warm")
    mngr("create", "bar@.modal", "-b", "snapshot=warm", *RUN)
    assert mngr("exec", "bar", "--", "cat", "/opt/prepared").out == "ready\n"
    assert mngr("exec", "bar", "--", "sh", "-c", "grep -rl hunter2 ~/.mngr || :").out == ""
    assert sorted(agent["name"] for agent in mngr.run_json("list")["agents"]) == ["bar", "foo"]
    mngr("snapshot", "destroy", "warm")
    mngr("destroy", "--force", "foo", "bar")
    mngr("destroy", "--force", *(f"@{host}.modal" for host in get_host_states(mngr)))
    assert list_resources(plane) == NOTHING


def test_gc_reports_an_unknown_sandbox_with_a_removal_command(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    for name in ("json", "seen"):
        (mngr.home / "hosts/modal" / f"box.{name}").unlink(missing_ok=True)
    plane.fail(list_lag=1000)
    assert mngr("gc").err == "nothing to clean up\n"
    plane.fail()
    (sandbox,) = plane.left()["sandboxes"]
    stderr = mngr("gc").err
    assert f"the sandbox {sandbox} was created from this home, but mngr has no record of it" in stderr
    removal = stderr.partition("if you do not need it: ")[2].splitlines()[0]
    argv = [str(python()), *shlex.split(removal)[1:]]
    subprocess.run(argv, env={**os.environ, **plane.env}, check=True)
    assert plane.left()["sandboxes"] == {}


@pytest.mark.parametrize("words", [("stop", "@box.modal"), ("snapshot", "create", "@box.modal", "warm")])
def test_an_image_that_is_finished_after_its_command_was_killed_is_deleted(
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


def test_gc_deletes_the_image_of_an_interrupted_snapshot(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    snapshot_dir = mngr.home / "snapshots/warm"
    meta_file = snapshot_dir.with_name("warm.part") / "meta.json"
    while True:
        with BackgroundProgram(mngr, "snapshot", "create", "@box.modal", "warm") as killed:
            while not meta_file.exists() and killed.process.poll() is None:
                pass
            killed.process.kill()
        if not snapshot_dir.exists():
            break
        mngr("snapshot", "destroy", "warm")  # the command was faster than the kill
    stderr = mngr("snapshot", "create", "@box.modal", "warm", code=1).err
    assert (
        "a snapshot called 'warm' is being created, or its creation was interrupted" in stderr and "mngr gc" in stderr
    )
    assert "warm" in mngr("gc").out
    assert plane.left()["images"] == {}
    assert mngr("gc").err == "nothing to clean up\n"


def test_a_forgotten_host_is_used_again_with_its_original_options(mngr: MngrProgram, plane: Modal) -> None:
    network = "allow=203.0.113.7,api.example.com,another.example.com"
    mngr("create", "foo@box.modal", "-b", "timeout=2h", "--network", network, *RUN)
    sandbox = get_only_sandbox(plane)
    for name in ("json", "seen"):
        (mngr.home / "hosts/modal" / f"box.{name}").unlink(missing_ok=True)
    mngr("create", "bar@box.modal", *RUN)
    mngr("exec", "bar", "--", "sh", "-c", "echo one >file")
    mngr("stop", "@box.modal")
    mngr("start", "@box.modal")
    assert get_only_sandbox(plane) == sandbox
    mngr("exec", "bar", "--", "sh", "-c", "echo two >>file; kill -9 -1", code=255)
    wait_for(lambda: get_host_states(mngr) == {"box": "STOPPED"})
    mngr("start", "@box.modal")
    assert get_only_sandbox(plane) == sandbox
    assert mngr("exec", "bar", "--", "cat", "file").out == "one\ntwo\n"
    mngr("destroy", "--force", "@box.modal")
    assert list_resources(plane) == NOTHING


def test_a_forgotten_host_that_ended_by_itself_can_be_started_again(mngr: MngrProgram, plane: Modal) -> None:
    mngr("create", "foo@box.modal", *RUN)
    (mngr.home / "hosts/modal/box.json").unlink()
    mngr("create", "bar@box.modal", *RUN)
    mngr("exec", "bar", "--", "sh", "-c", "kill -9 -1", code=255)
    wait_for(lambda: get_host_states(mngr) == {"box": "STOPPED"})
    mngr("start", "@box.modal")
    assert get_only_sandbox(plane)["tags"]["host"] == "box"


MOMENTS = 50 if IS_FULL_SCALE else 2


@pytest.mark.parametrize("verb", ["create", "stop", "start", "destroy"])
def test_gc_cleans_up_after_mngr_is_killed_at_any_moment(mngr: MngrProgram, plane: Modal, verb: str) -> None:
    rng = random.Random(f"{SEED} {verb}")
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
            process.wait(rng.uniform(0.05, longest))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.wait()
        mngr("gc")
        host_states = get_host_states(mngr)
        assert set(host_states) <= {"box"} and "UNKNOWN" not in host_states.values()
        if verb in ("stop", "start") and host_states["box"] == "STOPPED":
            mngr("start", "@box.modal")
        if host_states:
            mngr("destroy", "--force", "@box.modal")
        wait_for(lambda: list_resources(plane) == NOTHING, timeout=10)
        assert mngr("gc").err == "nothing to clean up\n"
