"""`mngr map`: an agent for each item; all of it comes home, whatever happens to whom."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mngr.mapreduce.journal import find_writer, read_journal
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.mapreduce.run_state import replay_rows
from mngr.testkit.contract.terminal import PtyTerminal
from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, run_git, wait_for

pytestmark = pytest.mark.agents

COMMIT = "git add -A; git -c user.name=A -c user.email=a@example.invalid commit -qm made"


def steps(*rows: object) -> str:
    return json.dumps(list(rows))


def result(text: str = "done") -> dict[str, object]:
    return {"write": {"path": "$MNGR_OUTPUT_DIR/r.txt", "content": text}}


def rows(mngr: MngrProgram, run: str = "r") -> list[dict[str, Any]]:
    return read_journal(RunDir(str(mngr.repo), run).journal)


def test_a_command_for_each_item(mngr: MngrProgram) -> None:
    line = f'echo "$0" {{number}} | tee made >$MNGR_OUTPUT_DIR/made; {COMMIT}; test "$0" = one'
    found = mngr.run_json(
        "map", "-", "--name", "r", "--", "sh", "-c", line, "{item}", stdin="one\n\ntwo; words\n", code=4
    )
    assert [(row["item"], row["outcome"]) for row in found["tasks"]] == [
        ("one", "done"), ("two; words", "failed"),
    ]  # fmt: skip
    first, second = found["tasks"]
    assert Path(first["outputs"], "made").read_text() == "one 1\n"
    assert Path(second["outputs"], "made").read_text() == "two; words 2\n"
    assert second["reason"] == "it ended: FAILED with exit code 1"
    run = RunDir(str(mngr.repo), "r")
    assert run_git(Path(run.repo), "show", f"{run.ref_name(first['slug'])}:made") == "one 1"
    assert {agent["state"] for agent in mngr.list_agents()} == {"DONE", "FAILED"}
    assert run_git(mngr.repo, "branch", "--format=%(refname:short)").split() == ["main"]
    assert run_git(mngr.repo, "status", "--porcelain") == ""
    assert "there is a run 'r' already" in mngr("map", "x", "--name", "r", "--", "true", code=1).err


def test_who_one_is_may_be_a_matter_of_the_project(mngr: MngrProgram) -> None:
    Path(mngr.env["HOME"], ".gitconfig").unlink()
    run_git(mngr.repo, "config", "user.name", "Ann")
    run_git(mngr.repo, "config", "user.email", "ann@example.invalid")
    line = "date >made; git add made; git commit -qm made"
    (done,) = mngr.run_json("map", "x", "--name", "r", "--", "sh", "-c", line)["tasks"]
    run = RunDir(str(mngr.repo), "r")
    assert (
        run_git(Path(run.repo), "show", "-s", "--format=%s %ae", run.ref_name(done["slug"]))
        == "made ann@example.invalid"
    )


def test_who_leaves_nothing_or_asks_is_reminded_twice_and_closed_as_what_it_is(mngr: MngrProgram) -> None:
    play = steps({"ask": "which one?"}, {"permission": "may I?"}, result(), "wait")
    words = ("map", "x", "--name", "r", "--agent", "player", "-p", "do {item}", "--output", "r.txt")
    found = mngr.run_json(*words, "--", play)
    assert found["tasks"][0]["outcome"] == "done"
    assert [row["why"] for row in rows(mngr) if row["type"] == "remind"] == ["question", "permission"]
    said = [row["text"] for row in mngr.run_json("transcript", "map-r-" + found["tasks"][0]["slug"])["transcript"]]
    assert said[0].startswith("do x\n") and "Reminder 1 of 2" in said[2] and "Reminder 2 of 2" in said[4]
    never = mngr("map", "y", "--name", "s", *words[4:], "--", steps({"reply": "no"}), code=4)
    assert "failed: The file $MNGR_OUTPUT_DIR/r.txt is missing" in never.err
    assert [row["why"] for row in rows(mngr, "s") if row["type"] == "remind"] == ["result", "result"]


def test_uncommitted_work_is_asked_for_and_then_kept_apart(mngr: MngrProgram) -> None:
    play = steps({"write": {"path": "draft.txt", "content": "a thought\n"}}, result(), "wait")
    mngr("map", "x", "--name", "r", "--agent", "player", "-p", "go", "--output", "r.txt", "--", play, code=4)
    (row,) = [row for row in rows(mngr) if row["type"] == "settled"]
    assert "changes that are not committed" in row["reason"]
    diff = RunDir(str(mngr.repo), "r").task_path(row["slug"], "uncommitted.diff")
    assert "+a thought" in Path(diff).read_text()


def test_one_that_hangs_and_one_that_takes_too_long_are_closed(mngr: MngrProgram) -> None:
    words = ("map", "x", "--agent", "player", "-p", "go", "--output", "r.txt")
    hung = mngr(*words, "--name", "r", "--timeout", "1s", "--", steps("hang"), code=4)
    assert ": failed: timeout" in hung.err
    assert mngr.list_agents()[0]["state"] == "STOPPED"


def test_time_that_runs_out_parks_the_rest_and_it_can_go_on(mngr: MngrProgram) -> None:
    words = ("--agent", "player", "-p", "go {item}", "--output", "r.txt", "--max-agents", "1")
    long = {"task": "map-r-a-*", "steps": [{"sleep": 3}, result(), "wait"]}  # longer than the run may take
    play = json.dumps({"steps": [result(), "wait"], "cases": [long]})
    parked = mngr("map", "a", "b", "c", "--name", "r", *words, "--deadline", "0.4s", "--", play, code=5)
    assert "Error: the run is not over" in parked.err and "mngr map --resume r" in parked.err
    state = replay_rows(rows(mngr))
    assert not state.is_finished and {one.state for one in state.tasks.values()} == {"parked", "queued"}
    found = mngr.run_json("map", "--resume", "r", *words)
    assert [row["outcome"] for row in found["tasks"]] == ["done"] * 3
    made = [row["slug"] for row in rows(mngr) if row["type"] == "launch"]
    assert len(made) == len(set(made)) == 3  # who was parked went on and was not made again


def start(mngr: MngrProgram, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [BIN_DIR / "mngr", *words], cwd=mngr.repo, env=mngr.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )  # fmt: skip


@pytest.mark.parametrize("moment", range(50 if IS_FULL_SCALE else 2))
def test_killed_at_any_moment_it_goes_on_and_repeats_nothing(mngr: MngrProgram, moment: int) -> None:
    play = steps({"write": {"path": "made.txt", "content": "x\n"}}, {"commit": "made"}, result(), "wait")
    words = ("--agent", "player", "-p", "go {item}", "--output", "r.txt", "--max-agents", "3")
    run = RunDir(str(mngr.repo), "r")
    process = start(mngr, "map", "a", "b", "c", "d", "--name", "r", *words, "--", play)
    most = 3 + moment * 40 // (50 if IS_FULL_SCALE else 2)
    wait_for(lambda: process.poll() is not None or _lines(run.journal) >= most)
    process.send_signal(signal.SIGSTOP)
    if find_writer(run.journal) is not None:
        assert "goes on in process" in mngr("map", "--resume", "r", code=1).err
        assert find_writer(run.journal) == process.pid
    process.kill()
    process.wait()
    found = mngr.run_json("map", "--resume", "r", *words)
    assert [(row["item"], row["outcome"]) for row in found["tasks"]] == [(item, "done") for item in "abcd"]
    for row in found["tasks"]:
        assert run_git(Path(run.repo), "show", f"{run.ref_name(row['slug'])}:made.txt") == "x"
        said = mngr.run_json("transcript", row["agent"])["transcript"]
        assert [one["text"].split("\n")[0] for one in said if one["role"] == "user"] == [f"go {row['item']}"]
    assert len(mngr.list_agents()) == 4
    settled = [row["slug"] for row in rows(mngr) if row["type"] == "settled"]
    assert len(settled) == len(set(settled)) == 4


def _lines(path: str) -> int:
    try:
        return Path(path).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def test_what_is_wrong_is_said_before_anything_is_made(mngr: MngrProgram) -> None:
    for words, said in (
        ((), "there is no item"),
        (("x",), "who shall do it?"),
        (("x", "--agent", "player"), "what shall player be told?"),
        (("x", "--budget", "much", "--", "true"), "--budget: 'much' is no amount of money"),
        (("x", "--budget=-1", "--", "true"), "--budget: '-1' is no amount of money"),
        (("x", "--budget-per-day", "nan", "--", "true"), "--budget-per-day: 'nan' is no amount of money"),
        (("x", "--max-agents", "0", "--", "true"), "--max-agents must be at least 1"),
        (("x", "--name", "No Good", "--", "true"), "cannot be the name of a run"),
    ):
        assert said in mngr("map", *words, code=2).err
    assert "there is no run" in mngr("map", "--resume", "nothing", code=1).err
    assert not (mngr.repo / ".mngr" / "runs").exists()


def test_so_many_share_a_host(mngr: MngrProgram, example_plugin: Path) -> None:
    mngr.env["PYTHONPATH"] = str(example_plugin)
    words = (
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
    mngr(*words, "--canary", "0", "--", "sh", "-c", "sleep 1; echo {item} >$MNGR_OUTPUT_DIR/x")
    hosts = [row["host"] for row in rows(mngr) if row["type"] == "launched"]
    assert len(hosts) == 5 and max(hosts.count(host) for host in hosts) <= 2 and len(set(hosts)) <= 4
    assert "local" not in hosts


@pytest.mark.parametrize("phase", ["creating", "destroying"])
def test_what_a_crash_left_half_made_or_half_gone_is_made_anew(mngr: MngrProgram, phase: str) -> None:
    name = f"map-r-{make_slug('x', ' 1')}"
    mngr("create", name, "--", "true")
    path = mngr.home / "agents" / mngr.get_agent(name)["id"] / "agent.json"
    owner = {"pid": 1, "start": "none", "boot": "before", "at": 0}
    path.write_text(json.dumps({**json.loads(path.read_text()), "phase": phase, "owner": owner}))
    (task,) = mngr.run_json("map", "x", "--name", "r", "--", "true")["tasks"]
    assert (task["outcome"], task["agent"]) == ("done", name)


def test_one_screen_that_is_drawn_over_itself_and_says_how_to_go_on(mngr: MngrProgram) -> None:
    words = [
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
    words += [
        "--output",
        "宽" * 60 + "\u202e\t\nx",
        "--",
        "sh",
        "-c",
        "test $0 = quick || sleep 1000",
        "{item}",
    ]
    line = 'trap : INT; echo slow | "$@"; echo "exit $?"; sleep 1000'
    mngr("create", "seen", "--transfer", "none", "--", "sh", "-c", line, "sh", *words)

    def screen() -> list[str]:
        return [text for text in mngr.run_tmux("capture-pane", "-p", "-t", "=seen:").splitlines() if text]

    mngr.run_tmux("resize-window", "-t", "=seen:", "-x", "100", "-y", "30")
    wait_for(lambda: any("failed" in text and "宽" in text for text in screen()), timeout=20)
    mngr.run_tmux("resize-window", "-t", "=seen:", "-x", "60", "-y", "15")
    wait_for(lambda: len([text for text in screen() if text != "run r"]) == 6)
    assert sum("1 of 2 settled" in text for text in screen()) == 1
    mngr.run_tmux("send-keys", "-t", "=seen:", "C-c")
    wait_for(lambda: "exit 130" in screen())
    assert "Go on: mngr map --resume r" in " ".join(screen())
    again = PtyTerminal([*words[:4], "--resume", "r"], mngr.repo, mngr.env, rows=15, columns=60)
    with again as terminal:
        terminal.wait_for_text("1 of 2 settled")
        assert "collecting" not in terminal.shown


def test_two_runs_of_one_name_do_not_meet(mngr: MngrProgram, tmp_path: Path) -> None:
    other = tmp_path / "other"
    run_git(tmp_path, "init", "-q", "-b", "main", str(other))
    run_git(other, "commit", "-q", "--allow-empty", "-m", "other")
    words = ("map", "x", "--name", "r", "--", "true")
    mngr.run_json(*words)
    assert f"{mngr.repo}/.mngr/runs/r already" in mngr(*words, cwd=other, code=1).err
    assert not (other / ".mngr/runs/r").exists()
    shutil.rmtree(mngr.repo / ".mngr/runs/r")
    assert "is there still, of an earlier run" in mngr(*words, cwd=other, code=1).err
    mngr("destroy", "-", stdin=mngr("list", "--label", "run=r", "--ids").out)
    assert mngr.run_json(*words, cwd=other)["tasks"][0]["outcome"] == "done"
