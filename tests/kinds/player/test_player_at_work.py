"""The player at work on a task, and with every fault it knows: real agents, in tmux."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mngr.kinds.player import faults, scenario
from mngr.tmr.verify.claim import AgentClaim, read_claim
from tests.conftest import MngrProgram, run_git, wait_for

pytestmark = pytest.mark.agents

TEST = """\
from shop import total


def test_total():
    \"\"\"Prices add up.\"\"\"
    assert total([1, 2]) == 3
    if True:
        assert (
            total([])
            == 0
        )
"""
TASK = "tests/test_shop.py::test_total"
MIRROR = ("--transfer", "mirror")


def job(**more: Any) -> str:
    row = {"job": "repair", "test": TASK, "command": ["sh", "-c", 'grep -q "sum(" shop.py'], **more}
    return f"Please repair this.\n```mngr-job\n{json.dumps({'test': 'quoted'})}\n```\n```mngr-job\n{json.dumps(row)}\n```\n"


@pytest.fixture
def shop(mngr: MngrProgram) -> MngrProgram:
    (mngr.repo / "shop.py").write_text("def total(prices):\n    return max(prices)\n")
    (mngr.repo / "tests").mkdir()
    (mngr.repo / "tests" / "test_shop.py").write_text(TEST)
    run_git(mngr.repo, "add", ".")
    run_git(mngr.repo, "commit", "-q", "-m", "shop")
    return mngr


def play(mngr: MngrProgram, name: str, steps: Any, *words: str, message: str | None = None) -> Any:
    """Have an agent play, and wait until its turn is over; the agent."""
    mngr("create", name, "player", *MIRROR, *words, "--", json.dumps(steps))
    mngr("message", name, "-m", message or job(), "--wait")
    return mngr.get_agent(name)


def tools(mngr: MngrProgram, name: str) -> list[tuple[str, str]]:
    rows = mngr.run_json("transcript", name)["transcript"]
    return [(row["tool"], row["output"]) for row in rows if row["role"] == "tool"]


def outputs(mngr: MngrProgram, name: str) -> Path:
    return mngr.get_agent_dir(name) / "outputs"


def test_it_works_on_the_task_of_its_message(shop: MngrProgram) -> None:
    repair = {"edit": {"path": "shop.py", "old": "max(", "new": "sum("}}
    steps = [
        "test",
        {"run": 'echo "$TASK"; exit 3'},
        {"edit": {"path": "shop.py", "old": "nowhere", "new": ""}},
        repair,
        {"commit": "[FIX_IMPL] Add prices up"},
        "test",
        {"spend": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}},
        {"result": "complete"},
    ]
    play(shop, "foo", steps)
    said = tools(shop, "foo")
    assert said[:4] == [
        ("test", "exit 1"),
        ("run", f"exit 3\n{TASK}"),
        ("edit", "failed: the old text is there 0 times"),
        ("edit", "done"),
    ]
    found = read_claim(str(outputs(shop, "foo") / "result.json"), TASK)
    assert isinstance(found, AgentClaim)
    assert (found.outcome, found.before, found.after) == ("fixed", "fail", "pass")
    assert [(c.kind, c.summary, c.commits) for c in found.changes] == [("FIX_IMPL", "Add prices up", (said[4][1],))]
    assert shop.run_json("usage", "foo")["usage"][0]["cost_usd"] == 0.25


def test_results_of_every_form(shop: MngrProgram, tmp_path: Path) -> None:
    mine = {"summary": "mine", "escalations": [{"kind": "DUPLICATE", "title": "t"}]}
    forms = [*scenario.RESULT_FORMS, mine]
    steps: list[Any] = []
    for at, form in enumerate(forms):
        steps += [{"result": form}, {"run": f'mv "$MNGR_OUTPUT_DIR/result.json" {tmp_path}/{at}.json'}]
    play(shop, "foo", steps, message=job(task="cause-1"))
    read = [read_claim(f"{tmp_path}/{at}.json", "cause-1") for at in range(len(forms))]
    wrong: Any = dict(zip([*scenario.RESULT_FORMS, "mine"], read, strict=True))
    good = wrong.pop("complete")
    assert isinstance(good, AgentClaim) and good.outcome == "unchanged"
    own = wrong.pop("mine")
    assert isinstance(own, AgentClaim) and (own.summary, own.escalations[0].kind) == ("mine", "DUPLICATE")
    assert {form: problems[0] for form, problems in wrong.items() if isinstance(problems, list)} == {
        "partial": 'result.json has no "outcome".',
        "broken": wrong["broken"][0],
        "empty": "result.json is empty.",
        "huge": "result.json is larger than 1 MB: cut its texts, put what is long in files of their own.",
        "deep": "result.json is nested too deep to be one.",
        "types": '"v" is "1", it must be 1.',
        "words": '"outcome" is "great", it must be one of fixed, improved, unchanged, blocked, failed.',
        "other": '"task" is "tests/test_other.py::test_other", but this task is "cause-1".',
        "half": "summary has half a character in it (a lone surrogate).",
        "link": "result.json is a link; it must be a file.",
        "pipe": "result.json is not a regular file.",
        "folder": "result.json is not a regular file.",
    }
    assert "is not JSON" in wrong["broken"][0]
    assert len(wrong["types"]) == 9


def test_it_lies_weakens_and_leaves_dirt(shop: MngrProgram) -> None:
    steps: list[Any] = ["lie", "wait"]
    for how in scenario.WEAKENINGS:
        steps += [{"weaken": how}, {"run": "git reset -q --keep HEAD~1"}]
    play(shop, "foo", [*steps, {"conflict": {"path": "shop.py", "line": 2}}, "dirt"])
    work = shop.get_work_dir("foo")
    assert run_git(work, "log", "-1", "--format=%s") == "[FIX_TEST] It passes now"
    found = read_claim(str(outputs(shop, "foo") / "result.json"), TASK)
    assert isinstance(found, AgentClaim) and (found.outcome, found.after) == ("fixed", "pass")
    assert "max(" in (work / "shop.py").read_text()
    shop("message", "foo", "-m", "go on", "--wait")
    said = tools(shop, "foo")
    assert [tool for tool, output in said if output.startswith("failed")] == []
    assert (work / "shop.py").read_text().splitlines()[1] == "    return max(prices)  # foo"
    weaker = {}
    for (_, commit), how in zip([row for row in said if row[0] == "weaken"], scenario.WEAKENINGS, strict=True):
        name = "conftest.py" if how == "conftest" else "tests/test_shop.py"
        weaker[how] = run_git(work, "show", f"{commit}:{name}")
        compile(weaker[how], name, "exec")
    assert "assert" not in weaker["asserts"] and "assert (total([1, 2]) == 3) or True" in weaker["true"]
    assert '    """Prices add up."""\n    return\n' in weaker["return"] and "def " not in weaker["delete"]
    assert ".skip(" in weaker["skip"] and ".xfail(" in weaker["xfail"] and "passed" in weaker["conftest"]
    assert {line.split()[0] for line in run_git(work, "status", "--porcelain").splitlines()} == {
        "M",
        "A",
        "??",
    }


def test_limits_park_it(shop: MngrProgram, tmp_path: Path) -> None:
    limited = tmp_path / "limited"
    limited.touch()
    steps = [
        {"park": {"reason": "rate_limit", "seconds": 30, "while": str(limited)}},
        {"park": "quota"},
        {"park": {"reason": "login", "text": "log in"}},
        {"retry": 1000},
    ]
    seen = []
    shop("create", "foo", "player", "--", json.dumps(steps))
    for _ in range(4):
        shop("message", "foo", "-m", "go on", "--wait")
        seen.append(shop.get_agent("foo"))
        if len(seen) == 2:
            limited.unlink()
    assert [(a["state"], a["state_reason"]) for a in seen] == [
        ("PARKED", "rate_limit"), ("PARKED", "rate_limit"), ("PARKED", "quota"), ("PARKED", "login"),
    ]  # fmt: skip
    assert [a["parked_until"] is None for a in seen] == [False, False, False, True]
    shop("message", "foo", "-m", "go on")
    wait_for(lambda: (a := shop.get_agent("foo"))["state"] == "RUNNING" and a["state_reason"] == "retrying")
    assert "429" in shop("capture", "foo").out


def test_it_crashes_and_goes_on_behind_that(shop: MngrProgram) -> None:
    steps = [{"crash": "SEGV"}, {"crash": "TERM"}, {"crash": "lost"}, {"reply": "back"}]
    shop("create", "foo", "player", "--", json.dumps({"steps": steps, "start": "now"}))
    for reason in ("exit 139", "exit 143", "lost"):
        shop("wait", "foo", "--state", "FAILED")
        assert shop.get_agent("foo")["state_reason"] == reason
        shop("start", "foo")
    shop("wait", "foo", "--state", "WAITING")
    assert [row["text"] for row in shop.run_json("transcript", "foo")["transcript"]] == ["back"]


def test_one_that_floods_and_is_deaf_can_be_stopped(shop: MngrProgram) -> None:
    shop("create", "foo", "player", "--", json.dumps({"steps": [{"flood": 2}, "deaf"], "start": "now"}))
    wait_for(lambda: "deaf" in shop("capture", "foo").out)
    pid = shop.get_agent("foo")["pid"]
    shop("stop", "foo", "-S", "stop.grace=0.2s")
    wait_for(lambda: not Path(f"/proc/{pid}/exe").exists())


def test_what_it_plants(shop: MngrProgram) -> None:
    steps = [{"hostile": what} for what in scenario.HOSTILE_KINDS]
    play(shop, "foo", steps)
    assert [row for row in tools(shop, "foo") if row[1].startswith("failed")] == []
    place = outputs(shop, "foo")
    assert os.readlink(place / "secret") == "/etc/passwd"
    assert (place / "big.bin").stat().st_size == 2 << 30 and (place / "big.bin").stat().st_blocks == 0
    assert stat.S_ISFIFO((place / "pipe").stat().st_mode) and stat.S_ISSOCK((place / "socket").stat().st_mode)
    assert set(faults.ODD_NAMES) <= set(os.listdir(os.fsencode(place)))
    assert "\x1b" not in shop("transcript", "foo").out
    work = shop.get_work_dir("foo")
    assert run_git(work, "-c", "core.fsmonitor=", "ls-files", "hostile-link") == "hostile-link"
    assert not (place / "trapped").exists()
    run_git(work, "status")
    assert (place / "trapped").exists()


def test_each_task_can_have_steps_of_its_own(shop: MngrProgram) -> None:
    cases = [
        {"task": "*::test_none", "steps": []},
        {"task": "*::test_total", "steps": [{"reply": "for the test"}]},
        {"task": "ba?", "steps": [{"reply": "for bar"}]},
    ]
    story = {"steps": [{"reply": "for all"}, "wait", {"reply": "again"}], "cases": cases}
    for name, message in (("foo", job()), ("bar", "hello"), ("eve", "hello")):
        play(shop, name, story, message=message)
    said = [
        shop("transcript", name, "--format", "{role}: {text}").out.splitlines()[-1] for name in ("foo", "bar", "eve")
    ]
    assert said == ["assistant: for the test", "assistant: for bar", "assistant: for all"]


def test_a_scenario_that_cannot_be_played_makes_no_agent(mngr: MngrProgram) -> None:
    ran = mngr("create", "foo", "player", "--", '[{"weaken": "all"}]', code=2)
    assert "step 1: weaken wants one of asserts, true," in ran.err
    assert not mngr.home.exists()
