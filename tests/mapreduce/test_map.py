"""`mngr map`: one agent for each item, and every result is collected."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mngr.mapreduce.journal.journal_file import find_writer, read_journal
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, run_git, wait_for
from tests.support.journal_file import read_json_rows

pytestmark = pytest.mark.agents

COMMIT = "git add -A; git -c user.name=A -c user.email=a@example.invalid commit -qm made"


def steps(*rows: object) -> str:
    return json.dumps(list(rows))


def result(text: str = "done") -> dict[str, object]:
    return {"write": {"path": "$MNGR_OUTPUT_DIR/r.txt", "content": text}}


def rows(mngr: MngrProgram, run: str = "r") -> list[dict[str, Any]]:
    return read_json_rows(RunDir(str(mngr.repo), run).journal)


def test_map_runs_a_command_for_each_item(mngr: MngrProgram) -> None:
    script = f'echo "$0" {{number}} | tee made >$MNGR_OUTPUT_DIR/made; {COMMIT}; test "$0" = one'
    report = mngr.run_json(
        "map", "-", "--name", "r", "--", "sh", "-c", script, "{item}", stdin="one\n\ntwo; words\n", code=4
    )
    assert [(row["item"], row["outcome"]) for row in report["tasks"]] == [
        ("one", "done"), ("two; words", "failed"),
    ]  # fmt: skip
    first, second = report["tasks"]
    assert Path(first["outputs"], "made").read_text() == "one 1\n"
    assert Path(second["outputs"], "made").read_text() == "two; words 2\n"
    assert second["reason"] == "the agent ended: FAILED with exit code 1"
    run = RunDir(str(mngr.repo), "r")
    assert run_git(Path(run.repo), "show", f"{run.ref_name(first['slug'])}:made") == "one 1"
    assert {agent["state"] for agent in mngr.list_agents()} == {"DONE", "FAILED"}
    assert run_git(mngr.repo, "branch", "--format=%(refname:short)").split() == ["main"]
    assert run_git(mngr.repo, "status", "--porcelain") == ""
    assert "the run 'r' exists already" in mngr("map", "x", "--name", "r", "--", "true", code=1).err


def test_agents_commit_with_the_author_of_the_project_settings(mngr: MngrProgram) -> None:
    Path(mngr.env["HOME"], ".gitconfig").unlink()
    run_git(mngr.repo, "config", "user.name", "Ann")
    run_git(mngr.repo, "config", "user.email", "ann@example.invalid")
    script = "date >made; git add made; git commit -qm made"
    (task,) = mngr.run_json("map", "x", "--name", "r", "--", "sh", "-c", script)["tasks"]
    run = RunDir(str(mngr.repo), "r")
    assert (
        run_git(Path(run.repo), "show", "-s", "--format=%s %ae", run.ref_name(task["slug"]))
        == "made ann@example.invalid"
    )


def test_an_agent_that_asks_or_leaves_no_result_gets_two_reminders(mngr: MngrProgram) -> None:
    script = steps({"ask": "which one?"}, {"permission": "may I?"}, result(), "wait")
    command = ("map", "x", "--name", "r", "--agent", "player", "-p", "do {item}", "--output", "r.txt")
    report = mngr.run_json(*command, "--", script)
    assert report["tasks"][0]["outcome"] == "done"
    assert [row["why"] for row in rows(mngr) if row["type"] == "remind"] == ["question", "permission"]
    messages = [row["text"] for row in mngr.run_json("transcript", "map-r-" + report["tasks"][0]["slug"])["transcript"]]
    assert messages[0].startswith("do x\n") and "Reminder 1 of 2" in messages[2] and "Reminder 2 of 2" in messages[4]
    silent_run = mngr("map", "y", "--name", "s", *command[4:], "--", steps({"reply": "no"}), code=4)
    assert "failed: The file $MNGR_OUTPUT_DIR/r.txt is missing" in silent_run.err
    assert [row["why"] for row in rows(mngr, "s") if row["type"] == "remind"] == ["result", "result"]


def test_uncommitted_work_is_reported_and_saved_as_a_diff(mngr: MngrProgram) -> None:
    script = steps({"write": {"path": "draft.txt", "content": "a thought\n"}}, result(), "wait")
    mngr("map", "x", "--name", "r", "--agent", "player", "-p", "go", "--output", "r.txt", "--", script, code=4)
    (row,) = [row for row in rows(mngr) if row["type"] == "settled"]
    assert "uncommitted changes" in row["reason"]
    diff = RunDir(str(mngr.repo), "r").task_path(row["slug"], "uncommitted.diff")
    assert "+a thought" in Path(diff).read_text()


def test_a_task_that_takes_too_long_fails_with_a_timeout(mngr: MngrProgram) -> None:
    command = ("map", "x", "--agent", "player", "-p", "go", "--output", "r.txt")
    hung = mngr(*command, "--name", "r", "--timeout", "1s", "--", steps("hang"), code=4)
    assert ": failed: timeout" in hung.err
    assert mngr.list_agents()[0]["state"] == "STOPPED"


def test_the_deadline_parks_the_rest_and_resume_finishes_it(mngr: MngrProgram) -> None:
    options = ("--agent", "player", "-p", "go {item}", "--output", "r.txt", "--max-agents", "1")
    # This agent takes longer than the run may take.
    slow_case = {"task": "map-r-a-*", "steps": [{"sleep": 3}, result(), "wait"]}
    script = json.dumps({"steps": [result(), "wait"], "cases": [slow_case]})
    parked = mngr("map", "a", "b", "c", "--name", "r", *options, "--deadline", "0.4s", "--", script, code=5)
    assert "Error: the run is not finished" in parked.err and "mngr map --resume r" in parked.err
    state = replay_rows(read_journal(RunDir(str(mngr.repo), "r").journal))
    assert not state.is_finished and {task.state for task in state.tasks.values()} == {"parked", "queued"}
    report = mngr.run_json("map", "--resume", "r", *options)
    assert [row["outcome"] for row in report["tasks"]] == ["done"] * 3
    launched = [row["slug"] for row in rows(mngr) if row["type"] == "launch"]
    assert len(launched) == len(set(launched)) == 3  # the parked agent continued and was not created again


def start(mngr: MngrProgram, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [BIN_DIR / "mngr", *words], cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )  # fmt: skip


@pytest.mark.parametrize("moment", range(50 if IS_FULL_SCALE else 2))
def test_a_run_killed_at_any_moment_resumes_without_repeating_work(mngr: MngrProgram, moment: int) -> None:
    script = steps({"write": {"path": "made.txt", "content": "x\n"}}, {"commit": "made"}, result(), "wait")
    options = ("--agent", "player", "-p", "go {item}", "--output", "r.txt", "--max-agents", "3")
    run = RunDir(str(mngr.repo), "r")
    process = start(mngr, "map", "a", "b", "c", "d", "--name", "r", *options, "--", script)
    line_count = 3 + moment * 40 // (50 if IS_FULL_SCALE else 2)
    wait_for(lambda: process.poll() is not None or _count_lines(run.journal) >= line_count)
    process.send_signal(signal.SIGSTOP)
    if find_writer(run.journal) is not None:
        assert "is still running, in process" in mngr("map", "--resume", "r", code=1).err
        assert find_writer(run.journal) == process.pid
    process.kill()
    process.wait()
    report = mngr.run_json("map", "--resume", "r", *options)
    assert [(row["item"], row["outcome"]) for row in report["tasks"]] == [(item, "done") for item in "abcd"]
    for row in report["tasks"]:
        assert run_git(Path(run.repo), "show", f"{run.ref_name(row['slug'])}:made.txt") == "x"
        transcript = mngr.run_json("transcript", row["agent"])["transcript"]
        assert [message["text"].split("\n")[0] for message in transcript if message["role"] == "user"] == [
            f"go {row['item']}"
        ]
    assert len(mngr.list_agents()) == 4
    settled = [row["slug"] for row in rows(mngr) if row["type"] == "settled"]
    assert len(settled) == len(set(settled)) == 4


def _count_lines(path: str) -> int:
    try:
        return Path(path).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def test_invalid_arguments_are_rejected_before_a_run_is_created(mngr: MngrProgram) -> None:
    for words, message in (
        ((), "mngr map needs at least one item"),
        (("x",), "mngr map needs an agent kind or a command"),
        (("x", "--agent", "player"), "player agents need a prompt"),
        (("x", "--budget", "much", "--", "true"), "--budget: 'much' is not an amount of money"),
        (("x", "--budget=-1", "--", "true"), "--budget: '-1' is not an amount of money"),
        (("x", "--budget-per-day", "nan", "--", "true"), "--budget-per-day: 'nan' is not an amount of money"),
        (("x", "--max-agents", "0", "--", "true"), "--max-agents must be at least 1"),
        (("x", "--name", "No Good", "--", "true"), "a run cannot be called"),
    ):
        assert message in mngr("map", *words, code=2).err
    assert "there is no run" in mngr("map", "--resume", "nothing", code=1).err
    assert not (mngr.repo / ".mngr" / "runs").exists()


def test_at_most_agents_per_host_share_a_host(mngr: MngrProgram, example_plugin: Path) -> None:
    mngr.env["PYTHONPATH"] = str(example_plugin)
    command = (
        "map",
        *"abcde",
        "--name",
        "r",
        "--on",
        ".scratch",
        "--agents-per-host",
        "2",
        "--max-agents",
        "5",
    )
    mngr(*command, "--canary", "0", "--", "sh", "-c", "sleep 1; echo {item} >$MNGR_OUTPUT_DIR/x")
    hosts = [row["host"] for row in rows(mngr) if row["type"] == "launched"]
    assert len(hosts) == 5 and max(hosts.count(host) for host in hosts) <= 2 and len(set(hosts)) <= 4
    assert "local" not in hosts


@pytest.mark.parametrize("phase", ["creating", "destroying"])
def test_an_agent_left_incomplete_by_a_crash_is_created_again(mngr: MngrProgram, phase: str) -> None:
    name = f"map-r-{make_slug('x', ' 1')}"
    mngr("create", name, "--", "true")
    path = mngr.home / "agents" / mngr.get_agent(name)["id"] / "agent.json"
    owner = {"pid": 1, "start": "none", "boot": "before", "at": 0}
    path.write_text(json.dumps({**json.loads(path.read_text()), "phase": phase, "owner": owner}))
    (task,) = mngr.run_json("map", "x", "--name", "r", "--", "true")["tasks"]
    assert (task["outcome"], task["agent"]) == ("done", name)


def test_the_live_screen_is_redrawn_in_place_and_names_the_resume_command(mngr: MngrProgram) -> None:
    command = [
        str(BIN_DIR / "mngr"),
        "--home",
        str(mngr.home),
        "map",
        "quick",
        "-",
        "--name",
        "r",
        "--canary",
        "0",
    ]
    command += [
        "--output",
        "宽" * 60 + "\u202e\t\nx",
        "--",
        "sh",
        "-c",
        "test $0 = quick || sleep 1000",
        "{item}",
    ]
    script = 'trap : INT; echo slow | "$@"; echo "exit $?"; sleep 1000'
    mngr("create", "seen", "--transfer", "none", "--", "sh", "-c", script, "sh", *command)

    def screen() -> list[str]:
        return [text for text in mngr.run_tmux("capture-pane", "-p", "-t", "=seen:").splitlines() if text]

    mngr.run_tmux("resize-window", "-t", "=seen:", "-x", "100", "-y", "30")
    wait_for(lambda: any("failed" in text and "宽" in text for text in screen()), timeout=20)
    mngr.run_tmux("resize-window", "-t", "=seen:", "-x", "60", "-y", "15")
    wait_for(lambda: len([text for text in screen() if text != "run r"]) == 6)
    assert sum("1 of 2 tasks finished" in text for text in screen()) == 1
    mngr.run_tmux("send-keys", "-t", "=seen:", "C-c")
    wait_for(lambda: "exit 130" in screen())
    assert "Continue the run: mngr map --resume r" in " ".join(screen())
    resumed = PtyTerminal([*command[:4], "--resume", "r"], mngr.repo, mngr.env, rows=15, columns=60)
    with resumed as terminal:
        terminal.wait_for_text("1 of 2 tasks finished")
        assert "collecting" not in terminal.shown


def test_two_runs_with_the_same_name_are_rejected(mngr: MngrProgram, tmp_path: Path) -> None:
    other_repo = tmp_path / "other"
    run_git(tmp_path, "init", "-q", "-b", "main", str(other_repo))
    run_git(other_repo, "commit", "-q", "--allow-empty", "-m", "other")
    command = ("map", "x", "--name", "r", "--", "true")
    mngr.run_json(*command)
    assert f"{mngr.repo}/.mngr/runs/r already" in mngr(*command, cwd=other_repo, code=1).err
    assert not (other_repo / ".mngr/runs/r").exists()
    shutil.rmtree(mngr.repo / ".mngr/runs/r")
    assert "of an earlier run 'r' still exists" in mngr(*command, cwd=other_repo, code=1).err
    mngr("destroy", "-", stdin=mngr("list", "--label", "run=r", "--ids").out)
    assert mngr.run_json(*command, cwd=other_repo)["tasks"][0]["outcome"] == "done"
