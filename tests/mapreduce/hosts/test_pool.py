"""Runs on hosts that a provider makes: prepared once, paid for, given back, and nothing of them is lost or left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mngr.host import store
from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.run_dir import RunDir
from tests.conftest import BIN_DIR, MngrProgram, kill_tmux_servers, run_git, wait_for
from tests.providers.docker.test_contract import settings
from tests.providers.docker.test_docker import containers
from tests.support.hosts.boxes import Boxes
from tests.support.hosts.engines import Docker

pytestmark = [pytest.mark.hosts, pytest.mark.sampled(2)]

SETUP = r"""echo run >>~/runs; mkdir -p .venv; printf '#!%s/python\n' "$PWD" >.venv/tool; printf 'bin\0%s' "$PWD" >.venv/binary
printf '%s-2/x %s\n' "$PWD" "$PWD" >.venv/cfg; chmod 444 .venv/cfg; ln -s "$PWD/.venv/tool" .venv/alias"""
SEE = "cat ~/runs .venv/tool .venv/cfg; readlink .venv/alias; pwd -P; cat .venv/binary; echo more >>README.md; git commit -qam x"
MAP = ("map", "--name", "r", "--on", ".box", "--canary", "0")


@pytest.fixture
def boxes(mngr: MngrProgram, tmp_path: Path) -> Iterator[Boxes]:
    """An engine of directories, which `mngr` uses as `box`."""
    made = Boxes(tmp_path / "engine")
    mngr.env.update(made.env)
    yield made
    kill_tmux_servers(made.boxes)


def rows(mngr: MngrProgram, *kinds: str) -> list[dict[str, Any]]:
    return [row for row in read_journal(RunDir(str(mngr.repo), "r").journal) if row["type"] in kinds]


def outputs(mngr: MngrProgram, name: str) -> list[str]:
    return [path.read_text() for path in (mngr.repo / ".mngr/runs/r/tasks").glob(f"*/outputs/{name}")]


@contextmanager
def running(mngr: MngrProgram, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run that is killed when somebody has waited for it in vain."""
    with subprocess.Popen([str(BIN_DIR / "mngr"), *words], cwd=mngr.repo, env=mngr.env) as run:
        try:
            yield run
        finally:
            run.kill()


def with_setup(mngr: MngrProgram, setup: str = SETUP) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text(f"[project]\nsetup = '''{setup}'''\n")
    (mngr.repo / ".gitignore").write_text(".venv\n")
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "settings")


def check_prepared(mngr: MngrProgram) -> None:
    """Set-up was run once, and what it made points at the work dir of each."""
    first = [row["type"] for row in rows(mngr, "prepare", "prepared", "launch")][:3]
    assert first == ["prepare", "prepared", "launch"]
    for seen in outputs(mngr, "seen"):
        work, before = seen.splitlines()[4], seen.rpartition("\0")[2]
        assert before != work
        assert seen == f"run\n#!{work}/python\n{before}-2/x {work}\n{work}/.venv/tool\n{work}\nbin\0{before}"
    assert len(outputs(mngr, "seen")) == 3
    assert mngr.list_agents() == [] and mngr.run_json("snapshot", "list")["snapshots"] == []
    assert mngr.run_json("gc")["results"] == []


def test_a_host_is_prepared_once_for_all_and_each_is_given_back(mngr: MngrProgram, boxes: Boxes) -> None:
    with_setup(mngr)
    mngr(*MAP, *"abc", "--", "sh", "-c", f"({SEE}) >$MNGR_OUTPUT_DIR/seen")
    assert boxes.left() == [] and len(boxes.calls("create")) == 4
    bill = mngr.run_json("tmr", "status", "r")["budget"]["hosts"]
    assert (bill["made"], bill["running"]) == (4, 0)
    assert bill["cost_usd"] == pytest.approx(bill["hours"] * 360, rel=0.1)
    assert (
        f"4 hosts, 0 running, {bill['hours']:.2f} host-hours, ${bill['cost_usd']:.2f}" in mngr("tmr", "status", "r").out
    )
    check_prepared(mngr)
    name = rows(mngr, "launch")[0]["agent"]
    mngr("undestroy", name)
    assert "more" in mngr("exec", name, "--", "cat", "README.md").out


@pytest.mark.full
def test_the_same_in_containers(mngr: MngrProgram, docker_engine: Docker) -> None:
    mngr.env.update({**settings("docker"), **docker_engine.env})
    with_setup(mngr)
    words = ("map", *"abc", "--name", "r", "--on", ".docker", "--canary", "0")
    mngr(*words, "--", "sh", "-c", f"({SEE}) >$MNGR_OUTPUT_DIR/seen")
    assert containers(docker_engine) == [] and docker_engine.run("volume", "ls", "-q").stdout == ""
    assert docker_engine.run("images", "-q", "--filter", "reference=mngr-snapshot").stdout == ""
    check_prepared(mngr)


def test_a_host_that_says_nothing_keeps_nobody_waiting_but_its_own(mngr: MngrProgram, boxes: Boxes) -> None:
    signs, items = boxes.place / "signs", ["own", "b", "c", "d", "e", "f"]
    signs.mkdir()
    wait = 'until test -e "$1/$0"; do sleep 0.05; done; echo x >$MNGR_OUTPUT_DIR/x'
    words = [*MAP, *items, "--agents-per-host", "2", "--max-agents", "4", "--alarm", "2", "--"]
    words += ["sh", "-c", wait, "{item}", str(signs)]
    with running(mngr, *words) as run:
        wait_for(lambda: len(rows(mngr, "prompted")) == 4)
        where = {row["slug"]: row["host"] for row in rows(mngr, "launched")}
        own = next(slug for slug in where if slug.startswith("own"))
        mute = boxes.mute(where[own])
        others = {row["task"]["slug"] for row in rows(mngr, "task")}
        others -= {slug for slug, host in where.items() if host == where[own]}
        for item in items:
            (signs / item).touch()
        try:
            wait_for(lambda: {row["slug"] for row in rows(mngr, "settled")} == others, timeout=60)
        finally:
            mute.unlink()
        assert run.wait(60) == 0
    assert {row["attempt"] for row in rows(mngr, "launch")} == {1}
    assert not rows(mngr, "launch_failed", "window", "alarm") and len(outputs(mngr, "x")) == len(items)


def test_what_was_to_be_fetched_from_a_host_that_was_lost_is_made_again(mngr: MngrProgram, boxes: Boxes) -> None:
    signs = boxes.place / "signs"
    signs.mkdir()
    wait = 'until test -e "$1/$0"; do sleep 0.05; done; echo x >$MNGR_OUTPUT_DIR/x'
    words = [*MAP, "a", "b", "--agents-per-host", "2", "--output", "x", "--", "sh", "-c", wait, "{item}"]
    with running(mngr, *words, str(signs)) as run:
        wait_for(lambda: len(rows(mngr, "prompted")) == 2)
        host = rows(mngr, "host")[0]["host"]
        mute = boxes.mute(host, "upload-pack")
        try:
            (signs / "a").touch()
            wait_for(lambda: rows(mngr, "pull"))
            wait_for(lambda: len(boxes.calls("mute")) == 1)
            boxes.lose(host)
            wait_for(lambda: rows(mngr, "reminded"), timeout=60)
        finally:
            mute.unlink()
            (signs / "b").touch()
        assert run.wait(60) == 0
    assert [row["outcome"] for row in rows(mngr, "settled")] == ["done", "done"]
    assert {row["slug"][0] for row in rows(mngr, "remind") if row["why"] == "its host is gone"} == {"a", "b"}


def test_an_agent_that_seemed_gone_while_its_work_was_fetched_is_looked_for_again(
    mngr: MngrProgram, boxes: Boxes
) -> None:
    sign = boxes.place / "sign"
    words = [*MAP, "a", "--", "sh", "-c", 'until test -e "$0"; do sleep 0.05; done', str(sign)]
    with running(mngr, *words) as run:
        wait_for(lambda: rows(mngr, "prompted"))
        (made,) = boxes.boxes.glob("*/home/.mngr/agents/a-*")
        mute = boxes.mute(rows(mngr, "host")[0]["host"], "upload-pack")
        sign.touch()
        wait_for(lambda: boxes.calls("mute"))
        aside = made.rename(made.parent.parent / "aside")
        looks = len(boxes.calls("exec"))
        try:
            wait_for(lambda: len(boxes.calls("exec")) > looks)
        finally:
            mute.unlink()
        wait_for(lambda: rows(mngr, "pull_failed"))
        aside.rename(made)
        assert run.wait(60) == 0
    assert [row["outcome"] for row in rows(mngr, "settled")] == ["done"]


def test_who_took_too_long_is_not_given_up_because_its_host_does_not_answer_then(
    mngr: MngrProgram, boxes: Boxes
) -> None:
    with running(mngr, *MAP, "a", "--timeout", "2s", "--alarm", "99", "--", "sleep", "1000") as run:
        wait_for(lambda: rows(mngr, "prompted"))
        (boxes.place / "away").touch()
        wait_for(lambda: len(rows(mngr, "pull_failed")) > 1, timeout=30)
        (boxes.place / "away").unlink()
        assert run.wait(60) == 4
    assert len(rows(mngr, "pull_failed")) < 5 and "timeout" in str(rows(mngr, "settled")[0]["reason"])


def test_a_host_of_the_run_that_somebody_stops_is_started_again(mngr: MngrProgram, boxes: Boxes) -> None:
    sign = boxes.place / "sign"
    with running(mngr, *MAP, "a", "--", "sh", "-c", f"until test -e {sign}; do sleep 0.05; done") as run:
        wait_for(lambda: rows(mngr, "prompted"))
        host = rows(mngr, "host")[0]["host"]
        (boxes.boxes / host / "stopped").touch()
        kill_tmux_servers(boxes.boxes / host)
        wait_for(lambda: rows(mngr, "reminded"), timeout=60)
        sign.touch()
        assert run.wait(60) == 0
    assert {row["attempt"] for row in rows(mngr, "launch")} == {1}


def test_when_time_is_out_all_are_stopped_but_who_cannot_be(mngr: MngrProgram, boxes: Boxes) -> None:
    with running(mngr, *MAP, "a", "b", "--deadline", "4s", "--", "sleep", "1000") as run:
        wait_for(lambda: len(rows(mngr, "prompted")) == 2)
        where = {row["slug"][0]: row["host"] for row in rows(mngr, "launched")}
        mute = boxes.mute(where["a"], "stop.sh SOCKET")
        try:
            wait_for(lambda: boxes.calls("mute"), timeout=30)
        finally:
            mute.unlink()
        assert run.wait(90) == 5
    assert rows(mngr, "ended")[0]["how"] == "parked"
    assert any("may work on" in row["text"] for row in rows(mngr, "alert"))
    assert {agent["state"] for agent in mngr.list_agents() if agent["host"] == where["b"]} == {"STOPPED"}


def test_what_was_killed_while_it_fetched_knows_why_it_did(mngr: MngrProgram, boxes: Boxes) -> None:
    sign = boxes.place / "sign"
    line = f"until test -e {sign}; do sleep 0.05; done; exit 3"
    with running(mngr, *MAP, "a", "b", "--agents-per-host", "2", "--", "sh", "-c", line):
        wait_for(lambda: len(rows(mngr, "prompted")) == 2)
        mute = boxes.mute(rows(mngr, "host")[0]["host"], "upload-pack")
        sign.touch()
        wait_for(lambda: len(rows(mngr, "pull")) == 2 and boxes.calls("mute"))
    mute.unlink()
    mngr("map", "--resume", "r", code=4)  # where it was, without a word of that
    assert [row["outcome"] for row in rows(mngr, "settled")] == ["failed"] * 2
    assert len(boxes.calls("create")) == 1 and boxes.left() == []


def test_hosts_that_were_being_made_when_it_was_killed_are_taken_away_by_who_goes_on(
    mngr: MngrProgram, boxes: Boxes
) -> None:
    (boxes.place / "slow").touch()
    with running(mngr, *MAP, "a", "b", "--", "true"):
        wait_for(lambda: len(boxes.left()) == 2)
    half = boxes.left()
    (boxes.place / "slow").unlink()
    mngr("map", "--resume", "r", "--keep-hosts")
    assert len(boxes.left()) == 2 and not set(half) & set(boxes.left())
    assert "2 agents and 2 hosts" in mngr("tmr", "clean", "r").out and boxes.left() == []


def test_where_there_is_no_room_for_a_lost_host_its_agents_wait(mngr: MngrProgram, boxes: Boxes) -> None:
    sign = boxes.place / "sign"
    with running(mngr, *MAP, "a", "--", "sh", "-c", f"until test -e {sign}; do sleep 0.05; done") as run:
        wait_for(lambda: rows(mngr, "prompted"))
        (boxes.place / "full").write_text("0")
        made = len(boxes.calls("create"))
        boxes.lose(rows(mngr, "host")[0]["host"])
        wait_for(lambda: len(boxes.calls("create")) > made + 1, timeout=30)
        (boxes.place / "full").unlink()
        wait_for(lambda: rows(mngr, "reminded"), timeout=60)
        sign.touch()
        assert run.wait(60) == 0
    assert {row["attempt"] for row in rows(mngr, "launch")} == {1} and not rows(mngr, "launch_failed")


def test_what_a_lost_connection_left_half_made_keeps_no_host(mngr: MngrProgram, boxes: Boxes) -> None:
    sign = boxes.place / "sign"
    words = [*MAP, "a", "--", "sh", "-c", 'until test -e "$0"; do sleep 0.05; done', str(sign)]
    with running(mngr, *words) as run:
        wait_for(lambda: rows(mngr, "prompted"))
        (made,) = boxes.boxes.glob("*/home/.mngr/agents/a-*")
        record = json.loads((made / "agent.json").read_text())
        start = Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[19]
        owner = {"pid": run.pid, "start": start, "boot": store.read_boot_id(), "at": 0}
        half = {**record, "id": "a-0123456789ab", "name": "half", "phase": "creating", "owner": owner}
        (made.parent / half["id"] / "outputs").mkdir(parents=True)
        (made.parent / half["id"] / "agent.json").write_text(json.dumps({**half, "work_dir": "/nowhere"}) + "\n")
        (made.parent / "a-ba9876543210" / "outputs").mkdir(parents=True)  # not even that was written
        sign.touch()
        assert run.wait(60) == 0
    assert not rows(mngr, "release_failed") and boxes.left() == []


def test_where_there_is_no_room_a_run_waits_and_counts_no_attempt(mngr: MngrProgram, boxes: Boxes) -> None:
    (boxes.place / "full").write_text("1")
    said = mngr(*MAP, "a", "b", "--max-agents", "2", "--", "sh", "-c", "echo x >$MNGR_OUTPUT_DIR/x").err
    assert "no launches: box has no room: all boxes are taken" in said
    assert rows(mngr, "busy") and not rows(mngr, "launch_failed") and len(outputs(mngr, "x")) == 2
    assert {row["attempt"] for row in rows(mngr, "launch")} == {1} and boxes.left() == []


def test_why_it_waits_stands_in_status_and_after_a_kill_it_goes_on_with_the_same_hosts(
    mngr: MngrProgram, boxes: Boxes
) -> None:
    (boxes.place / "full").write_text("1")
    words = [*MAP, "a", "b", "--keep-hosts", "--agents-per-host", "1", "--", "sh", "-c"]
    run = subprocess.Popen(
        [str(BIN_DIR / "mngr"), *words, 'until test -e "$0"; do sleep 0.1; done', str(boxes.place / "sign")],
        cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: rows(mngr, "prompted") and rows(mngr, "busy") and rows(mngr, "alert"))
        # It waits for nothing while it tries again.
        wait_for(lambda: "all boxes are taken" in str(mngr.run_json("tmr", "status", "r")["waits"]))
        said = "no launches: box has no room: all boxes are taken"
        wait_for(lambda: said in mngr("tmr", "status", "r").out)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    (boxes.place / "sign").touch()
    mngr("map", "--resume", "r", "--on", ".box", "--agents-per-host", "1", "--keep-hosts")
    assert len({row["host"] for row in rows(mngr, "launched")}) == 1 and len(set(boxes.calls("create"))) > 1
    assert len(rows(mngr, "host")) == 1 and len(boxes.left()) == 1 and len(mngr.list_agents()) == 2
    clean = mngr("tmr", "clean", "r").out
    assert "2 agents and 1 hosts" in clean and boxes.left() == []
    assert mngr.run_json("tmr", "status", "r")["budget"]["hosts"]["running"] == 0


def test_a_host_that_was_kept_costs_until_it_is_destroyed(mngr: MngrProgram, boxes: Boxes) -> None:
    mngr(*MAP, "a", "--keep-hosts", "--", "true")
    assert mngr.run_json("tmr", "status", "r")["budget"]["hosts"]["running"] == 1
    (host,) = (row["host"] for row in rows(mngr, "host"))
    mngr("destroy", "--force", f"@{host}.box")
    first, second = (mngr.run_json("tmr", "status", "r")["budget"]["hosts"] for _ in range(2))
    assert first == second and first["running"] == 0 and first["cost_usd"] > 0


@pytest.mark.parametrize("at", ["create", "snapshot"])
def test_a_preparation_that_was_cut_off_is_done_again_and_leaves_nothing(
    mngr: MngrProgram, boxes: Boxes, at: str
) -> None:
    """Killed while the engine is at work for it."""
    program = boxes.place / "box.sh"
    text = program.read_text()
    program.write_text(
        text.replace(f"\n{at})", f"\n{at}) touch $root/begun; while [ -e $root/hold ]; do sleep 0.05; done;")
    )
    (boxes.place / "hold").touch()
    words = [*MAP, *"abc", "--", "sh", "-c", "echo x >$MNGR_OUTPUT_DIR/x"]
    run = subprocess.Popen(
        [str(BIN_DIR / "mngr"), *words],
        cwd=mngr.repo,
        env=mngr.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for((boxes.place / "begun").exists)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    (boxes.place / "hold").unlink()
    mngr("map", "--resume", "r", "--on", ".box", "--canary", "0")
    assert len(outputs(mngr, "x")) == 3 and len(rows(mngr, "prepare")) == 2
    for path in (mngr.home / "hosts/box").glob("*.json"):
        os.utime(path, (0, 0))  # what is younger than a minute may be somebody's
    mngr("gc")
    assert boxes.left() == []


def test_a_run_whose_money_is_spent_stops_its_hosts_and_can_go_on(mngr: MngrProgram, boxes: Boxes) -> None:
    line = 'if test -e "$0"; then sleep 2; else sleep 1000; fi; echo x >$MNGR_OUTPUT_DIR/x'
    words = (*MAP, "a", "--budget", "0.3", "--", "sh", "-c", line, str(boxes.place / "sign"))
    said = mngr(*words, code=5).err
    assert "some of it is parked" in said and "mngr map --resume r --budget MORE" in said
    assert rows(mngr, "ended")[0]["why"] == "the budget of $0.30 is spent"
    (box,) = boxes.boxes.iterdir()
    assert (box / "stopped").exists()
    bill = mngr.run_json("tmr", "status", "r")["budget"]["hosts"]
    assert bill["running"] == 0 and bill["cost_usd"] >= 0.3
    (boxes.place / "sign").touch()
    mngr("map", "--resume", "r", "--on", ".box", "--budget", "100")
    assert outputs(mngr, "x") == ["x\n"] and boxes.left() == [] and rows(mngr, "woken")


def test_a_host_that_somebody_else_uses_too_stays(mngr: MngrProgram, boxes: Boxes) -> None:
    line = 'echo x >$MNGR_OUTPUT_DIR/x; until test -e "$0"; do sleep 0.1; done'
    run = subprocess.Popen(
        [str(BIN_DIR / "mngr"), *MAP, "a", "--", "sh", "-c", line, str(boxes.place / "sign")],
        cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: rows(mngr, "prompted"))
    (host,) = boxes.left()
    mngr("create", f"mine@{host}.box", "--", "sleep", "1000")
    (boxes.place / "sign").touch()
    wait_for(lambda: rows(mngr, "release_failed"))
    assert f"{host} stays, for mine is on it too" in rows(mngr, "release_failed")[0]["error"]
    assert [agent["name"] for agent in mngr.list_agents()] == ["mine"] and boxes.left() == [host]
    run.kill()
    run.communicate()
