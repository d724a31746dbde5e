"""Runs on hosts that a provider creates: prepared once, billed, released, and without loss or leftovers."""

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

from mngr.host import record_store
from mngr.mapreduce.run_dir import RunDir
from tests.conftest import BIN_DIR, MngrProgram, kill_tmux_servers, run_git, wait_for
from tests.providers.docker.test_contract import settings
from tests.providers.docker.test_docker import containers
from tests.support.hosts.boxes import Boxes
from tests.support.hosts.engines import Docker
from tests.support.journal_file import read_json_rows

pytestmark = [pytest.mark.hosts, pytest.mark.sampled(2)]

SETUP = r"""echo run >>~/runs; mkdir -p .venv; printf '#!%s/python\n' "$PWD" >.venv/tool; printf 'bin\0%s' "$PWD" >.venv/binary
printf '%s-2/x %s\n' "$PWD" "$PWD" >.venv/cfg; chmod 444 .venv/cfg; ln -s "$PWD/.venv/tool" .venv/alias"""
SEE = "cat ~/runs .venv/tool .venv/cfg; readlink .venv/alias; pwd -P; cat .venv/binary; echo more >>README.md; git commit -qam x"
MAP = ("map", "--name", "r", "--on", ".box", "--canary", "0")


@pytest.fixture
def boxes(mngr: MngrProgram, tmp_path: Path) -> Iterator[Boxes]:
    """Return an engine whose hosts are directories. mngr uses it as the provider `box`."""
    engine = Boxes(tmp_path / "engine")
    mngr.env.update(engine.env)
    yield engine
    kill_tmux_servers(engine.boxes)


def rows(mngr: MngrProgram, *kinds: str) -> list[dict[str, Any]]:
    return [row for row in read_json_rows(RunDir(str(mngr.repo), "r").journal) if row["type"] in kinds]


def outputs(mngr: MngrProgram, name: str) -> list[str]:
    return [path.read_text() for path in (mngr.repo / ".mngr/runs/r/tasks").glob(f"*/outputs/{name}")]


@contextmanager
def start_run(mngr: MngrProgram, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run, and kill it at the end of the block if it is still running."""
    with subprocess.Popen([str(BIN_DIR / "mngr"), *words], cwd=mngr.repo, env=mngr.env) as run:
        try:
            yield run
        finally:
            run.kill()


def commit_setup(mngr: MngrProgram, setup: str = SETUP) -> None:
    """Commit project settings with a set-up command."""
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text(f"[project]\nsetup = '''{setup}'''\n")
    (mngr.repo / ".gitignore").write_text(".venv\n")
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "settings")
    mngr("trust", "--yes")


def check_prepared(mngr: MngrProgram) -> None:
    """Check that set-up ran once and that its files point at the work dir of each agent."""
    first_kinds = [row["type"] for row in rows(mngr, "prepare", "prepared", "launch")][:3]
    assert first_kinds == ["prepare", "prepared", "launch"]
    for output in outputs(mngr, "seen"):
        work_dir, prepared_dir = output.splitlines()[4], output.rpartition("\0")[2]
        assert prepared_dir != work_dir
        assert (
            output
            == f"run\n#!{work_dir}/python\n{prepared_dir}-2/x {work_dir}\n{work_dir}/.venv/tool\n{work_dir}\nbin\0{prepared_dir}"
        )
    assert len(outputs(mngr, "seen")) == 3
    assert mngr.list_agents() == [] and mngr.run_json("snapshot", "list")["snapshots"] == []
    assert mngr.run_json("gc")["results"] == []


def test_set_up_runs_once_for_all_hosts_and_every_host_is_released(mngr: MngrProgram, boxes: Boxes) -> None:
    commit_setup(mngr)
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
def test_set_up_runs_once_for_all_containers_and_every_container_is_released(
    mngr: MngrProgram, docker_engine: Docker
) -> None:
    mngr.env.update({**settings("docker"), **docker_engine.env})
    commit_setup(mngr)
    words = ("map", *"abc", "--name", "r", "--on", ".docker", "--canary", "0")
    mngr(*words, "--", "sh", "-c", f"({SEE}) >$MNGR_OUTPUT_DIR/seen")
    assert containers(docker_engine) == [] and docker_engine.run("volume", "ls", "-q").stdout == ""
    assert docker_engine.run("images", "-q", "--filter", "reference=mngr-snapshot").stdout == ""
    check_prepared(mngr)


def test_a_silent_host_delays_only_its_own_tasks(mngr: MngrProgram, boxes: Boxes) -> None:
    signs, items = boxes.place / "signs", ["own", "b", "c", "d", "e", "f"]
    signs.mkdir()
    script = 'until test -e "$1/$0"; do sleep 0.05; done; echo x >$MNGR_OUTPUT_DIR/x'
    command = [*MAP, *items, "--agents-per-host", "2", "--max-agents", "4", "--alarm", "2", "--"]
    command += ["sh", "-c", script, "{item}", str(signs)]
    with start_run(mngr, *command) as run:
        wait_for(lambda: len(rows(mngr, "prompted")) == 4)
        host_by_slug = {row["slug"]: row["host"] for row in rows(mngr, "launched")}
        silent_slug = next(slug for slug in host_by_slug if slug.startswith("own"))
        mute = boxes.mute(host_by_slug[silent_slug])
        others = {row["task"]["slug"] for row in rows(mngr, "task")}
        others -= {slug for slug, host in host_by_slug.items() if host == host_by_slug[silent_slug]}
        for item in items:
            (signs / item).touch()
        try:
            wait_for(lambda: {row["slug"] for row in rows(mngr, "settled")} == others, timeout=60)
        finally:
            mute.unlink()
        assert run.wait(60) == 0
    assert {row["attempt"] for row in rows(mngr, "launch")} == {1}
    assert not rows(mngr, "launch_failed", "window", "alarm") and len(outputs(mngr, "x")) == len(items)


def test_a_host_lost_during_a_pull_is_rebuilt_and_its_tasks_finish(mngr: MngrProgram, boxes: Boxes) -> None:
    signs = boxes.place / "signs"
    signs.mkdir()
    script = 'until test -e "$1/$0"; do sleep 0.05; done; echo x >$MNGR_OUTPUT_DIR/x'
    command = [*MAP, "a", "b", "--agents-per-host", "2", "--output", "x", "--", "sh", "-c", script, "{item}"]
    with start_run(mngr, *command, str(signs)) as run:
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


def test_an_agent_that_is_missing_during_a_pull_is_collected_when_it_is_back(mngr: MngrProgram, boxes: Boxes) -> None:
    go_file = boxes.place / "sign"
    command = [*MAP, "a", "--", "sh", "-c", 'until test -e "$0"; do sleep 0.05; done', str(go_file)]
    with start_run(mngr, *command) as run:
        wait_for(lambda: rows(mngr, "prompted"))
        (agent_dir,) = boxes.boxes.glob("*/home/.mngr/agents/a-*")
        mute = boxes.mute(rows(mngr, "host")[0]["host"], "upload-pack")
        go_file.touch()
        wait_for(lambda: boxes.calls("mute"))
        exec_count = len(boxes.calls("exec"))  # before the move, because mngr may look at the host right after it
        moved_dir = agent_dir.rename(agent_dir.parent.parent / "aside")
        try:
            wait_for(lambda: len(boxes.calls("exec")) > exec_count, timeout=60)
        finally:
            mute.unlink()
        wait_for(lambda: rows(mngr, "pull_failed"))
        moved_dir.rename(agent_dir)
        assert run.wait(60) == 0
    assert [row["outcome"] for row in rows(mngr, "settled")] == ["done"]


def test_a_timed_out_task_is_collected_after_its_host_answers_again(mngr: MngrProgram, boxes: Boxes) -> None:
    with start_run(mngr, *MAP, "a", "--timeout", "2s", "--alarm", "99", "--", "sleep", "1000") as run:
        wait_for(lambda: rows(mngr, "prompted"))
        (boxes.place / "away").touch()
        wait_for(lambda: len(rows(mngr, "pull_failed")) > 1, timeout=30)
        (boxes.place / "away").unlink()
        assert run.wait(60) == 4
    assert len(rows(mngr, "pull_failed")) < 5 and "timeout" in str(rows(mngr, "settled")[0]["reason"])


def test_a_stopped_host_of_a_run_is_started_again(mngr: MngrProgram, boxes: Boxes) -> None:
    go_file = boxes.place / "sign"
    with start_run(mngr, *MAP, "a", "--", "sh", "-c", f"until test -e {go_file}; do sleep 0.05; done") as run:
        wait_for(lambda: rows(mngr, "prompted"))
        host = rows(mngr, "host")[0]["host"]
        (boxes.boxes / host / "stopped").touch()
        kill_tmux_servers(boxes.boxes / host)
        wait_for(lambda: rows(mngr, "reminded"), timeout=60)
        go_file.touch()
        assert run.wait(60) == 0
    assert {row["attempt"] for row in rows(mngr, "launch")} == {1}


def test_the_deadline_stops_all_agents_and_reports_one_that_cannot_be_stopped(mngr: MngrProgram, boxes: Boxes) -> None:
    with start_run(mngr, *MAP, "a", "b", "--deadline", "4s", "--", "sleep", "1000") as run:
        wait_for(lambda: len(rows(mngr, "prompted")) == 2)
        host_by_item = {row["slug"][0]: row["host"] for row in rows(mngr, "launched")}
        mute = boxes.mute(host_by_item["a"], "stop.sh SOCKET")
        try:
            wait_for(lambda: boxes.calls("mute"), timeout=30)
        finally:
            mute.unlink()
        assert run.wait(90) == 5
    assert rows(mngr, "ended")[0]["outcome"] == "parked"
    assert any("may still be working" in row["text"] for row in rows(mngr, "alert"))
    assert {agent["state"] for agent in mngr.list_agents() if agent["host"] == host_by_item["b"]} == {"STOPPED"}


def test_a_run_killed_during_a_pull_resumes_with_the_same_failure(mngr: MngrProgram, boxes: Boxes) -> None:
    go_file = boxes.place / "sign"
    script = f"until test -e {go_file}; do sleep 0.05; done; exit 3"
    with start_run(mngr, *MAP, "a", "b", "--agents-per-host", "2", "--", "sh", "-c", script):
        wait_for(lambda: len(rows(mngr, "prompted")) == 2)
        mute = boxes.mute(rows(mngr, "host")[0]["host"], "upload-pack")
        go_file.touch()
        wait_for(lambda: len(rows(mngr, "pull")) == 2 and boxes.calls("mute"))
    mute.unlink()
    mngr("map", "--resume", "r", code=4)  # resume without repeating the options
    assert [row["outcome"] for row in rows(mngr, "settled")] == ["failed"] * 2
    assert len(boxes.calls("create")) == 1 and boxes.left() == []


def test_resume_removes_hosts_that_a_killed_run_had_not_finished_creating(mngr: MngrProgram, boxes: Boxes) -> None:
    (boxes.place / "slow").touch()
    with start_run(mngr, *MAP, "a", "b", "--", "true"):
        wait_for(lambda: len(boxes.left()) == 2)
    incomplete = boxes.left()
    (boxes.place / "slow").unlink()
    mngr("map", "--resume", "r", "--keep-hosts")
    assert len(boxes.left()) == 2 and not set(incomplete) & set(boxes.left())
    assert "2 agents and 2 hosts" in mngr("tmr", "clean", "r").out and boxes.left() == []


def test_agents_of_a_lost_host_wait_until_the_provider_has_room(mngr: MngrProgram, boxes: Boxes) -> None:
    go_file = boxes.place / "sign"
    with start_run(mngr, *MAP, "a", "--", "sh", "-c", f"until test -e {go_file}; do sleep 0.05; done") as run:
        wait_for(lambda: rows(mngr, "prompted"))
        (boxes.place / "full").write_text("0")
        created = len(boxes.calls("create"))
        boxes.lose(rows(mngr, "host")[0]["host"])
        wait_for(lambda: len(boxes.calls("create")) > created + 1, timeout=30)
        (boxes.place / "full").unlink()
        wait_for(lambda: rows(mngr, "reminded"), timeout=60)
        go_file.touch()
        assert run.wait(60) == 0
    assert {row["attempt"] for row in rows(mngr, "launch")} == {1} and not rows(mngr, "launch_failed")


def test_an_incomplete_agent_does_not_prevent_the_release_of_its_host(mngr: MngrProgram, boxes: Boxes) -> None:
    go_file = boxes.place / "sign"
    command = [*MAP, "a", "--", "sh", "-c", 'until test -e "$0"; do sleep 0.05; done', str(go_file)]
    with start_run(mngr, *command) as run:
        wait_for(lambda: rows(mngr, "prompted"))
        (agent_dir,) = boxes.boxes.glob("*/home/.mngr/agents/a-*")
        record = json.loads((agent_dir / "agent.json").read_text())
        start = Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[19]
        owner = {"pid": run.pid, "start": start, "boot": record_store.read_boot_id(), "at": 0}
        incomplete = {**record, "id": "a-0123456789ab", "name": "half", "phase": "creating", "owner": owner}
        (agent_dir.parent / incomplete["id"] / "outputs").mkdir(parents=True)
        (agent_dir.parent / incomplete["id"] / "agent.json").write_text(
            json.dumps({**incomplete, "work_dir": "/nowhere"}) + "\n"
        )
        (agent_dir.parent / "a-ba9876543210" / "outputs").mkdir(parents=True)  # this agent has not even a record
        go_file.touch()
        assert run.wait(60) == 0
    assert not rows(mngr, "release_failed") and boxes.left() == []


def test_a_full_provider_makes_the_run_wait_without_counting_an_attempt(mngr: MngrProgram, boxes: Boxes) -> None:
    (boxes.place / "full").write_text("1")
    stderr = mngr(*MAP, "a", "b", "--max-agents", "2", "--", "sh", "-c", "echo x >$MNGR_OUTPUT_DIR/x").err
    assert "no new agents: box has no capacity now: all boxes are taken" in stderr
    assert rows(mngr, "busy") and not rows(mngr, "launch_failed") and len(outputs(mngr, "x")) == 2
    assert {row["attempt"] for row in rows(mngr, "launch")} == {1} and boxes.left() == []


def test_status_shows_why_a_run_waits_and_resume_uses_the_same_hosts(mngr: MngrProgram, boxes: Boxes) -> None:
    (boxes.place / "full").write_text("1")
    command = [*MAP, "a", "b", "--keep-hosts", "--agents-per-host", "1", "--", "sh", "-c"]
    run = subprocess.Popen(
        [str(BIN_DIR / "mngr"), *command, 'until test -e "$0"; do sleep 0.1; done', str(boxes.place / "sign")],
        cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: rows(mngr, "prompted") and rows(mngr, "busy") and rows(mngr, "alert"))
        # The reason disappears while the run tries again.
        wait_for(lambda: "all boxes are taken" in str(mngr.run_json("tmr", "status", "r")["waits"]))
        message = "no new agents: box has no capacity now: all boxes are taken"
        wait_for(lambda: message in mngr("tmr", "status", "r").out)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    (boxes.place / "sign").touch()
    mngr("map", "--resume", "r", "--on", ".box", "--agents-per-host", "1", "--keep-hosts")
    assert len({row["host"] for row in rows(mngr, "launched")}) == 1 and len(set(boxes.calls("create"))) > 1
    assert len(rows(mngr, "host")) == 1 and len(boxes.left()) == 1 and len(mngr.list_agents()) == 2
    output = mngr("tmr", "clean", "r").out
    assert "2 agents and 1 host" in output and boxes.left() == []
    assert mngr.run_json("tmr", "status", "r")["budget"]["hosts"]["running"] == 0


def test_a_kept_host_is_billed_until_it_is_destroyed(mngr: MngrProgram, boxes: Boxes) -> None:
    mngr(*MAP, "a", "--keep-hosts", "--", "true")
    assert mngr.run_json("tmr", "status", "r")["budget"]["hosts"]["running"] == 1
    (host,) = (row["host"] for row in rows(mngr, "host"))
    mngr("destroy", "--force", f"@{host}.box")
    first, second = (mngr.run_json("tmr", "status", "r")["budget"]["hosts"] for _ in range(2))
    assert first == second and first["running"] == 0 and first["cost_usd"] > 0


@pytest.mark.parametrize("at", ["create", "snapshot"])
def test_an_interrupted_preparation_is_repeated_and_leaves_no_host(mngr: MngrProgram, boxes: Boxes, at: str) -> None:
    """Kill the run while the engine works for it."""
    program = boxes.place / "box.sh"
    text = program.read_text()
    program.write_text(
        text.replace(f"\n{at})", f"\n{at}) touch $root/begun; while [ -e $root/hold ]; do sleep 0.05; done;")
    )
    (boxes.place / "hold").touch()
    command = [*MAP, *"abc", "--", "sh", "-c", "echo x >$MNGR_OUTPUT_DIR/x"]
    run = subprocess.Popen(
        [str(BIN_DIR / "mngr"), *command],
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
        os.utime(path, (0, 0))  # gc ignores files that are younger than a minute
    mngr("gc")
    assert boxes.left() == []


def test_a_run_with_an_exhausted_budget_stops_its_hosts_and_can_be_resumed(mngr: MngrProgram, boxes: Boxes) -> None:
    script = 'if test -e "$0"; then sleep 2; else sleep 1000; fi; echo x >$MNGR_OUTPUT_DIR/x'
    command = (*MAP, "a", "--budget", "0.3", "--", "sh", "-c", script, str(boxes.place / "sign"))
    stderr = mngr(*command, code=5).err
    assert "some tasks are parked" in stderr and "mngr map --resume r --budget" in stderr
    assert rows(mngr, "ended")[0]["why"] == "the budget of $0.30 is spent"
    (box,) = boxes.boxes.iterdir()
    assert (box / "stopped").exists()
    bill = mngr.run_json("tmr", "status", "r")["budget"]["hosts"]
    assert bill["running"] == 0 and bill["cost_usd"] >= 0.3
    (boxes.place / "sign").touch()
    mngr("map", "--resume", "r", "--on", ".box", "--budget", "100")
    assert outputs(mngr, "x") == ["x\n"] and boxes.left() == [] and rows(mngr, "host_started")


def test_a_host_with_an_agent_outside_the_run_is_not_released(mngr: MngrProgram, boxes: Boxes) -> None:
    script = 'echo x >$MNGR_OUTPUT_DIR/x; until test -e "$0"; do sleep 0.1; done'
    run = subprocess.Popen(
        [str(BIN_DIR / "mngr"), *MAP, "a", "--", "sh", "-c", script, str(boxes.place / "sign")],
        cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: rows(mngr, "prompted"))
    (host,) = boxes.left()
    mngr("create", f"mine@{host}.box", "--", "sleep", "1000")
    (boxes.place / "sign").touch()
    wait_for(lambda: rows(mngr, "release_failed"))
    assert (
        f"mngr did not destroy the host {host}, because mine also runs there"
        in rows(mngr, "release_failed")[0]["error"]
    )
    assert [agent["name"] for agent in mngr.list_agents()] == ["mine"] and boxes.left() == [host]
    run.kill()
    run.communicate()
