"""The player at work on a task, and with every fault it can play: real agents in tmux."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mngr.kinds.player import sabotage, scenario
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


def build_job_message(**fields: Any) -> str:
    build_job_message = {"job": "repair", "test": TASK, "command": ["sh", "-c", 'grep -q "sum(" shop.py'], **fields}
    return f"Please repair this.\n```mngr-job\n{json.dumps({'test': 'quoted'})}\n```\n```mngr-job\n{json.dumps(build_job_message)}\n```\n"


@pytest.fixture
def shop(mngr: MngrProgram) -> MngrProgram:
    (mngr.repo / "shop.py").write_text("def total(prices):\n    return max(prices)\n")
    (mngr.repo / "tests").mkdir()
    (mngr.repo / "tests" / "test_shop.py").write_text(TEST)
    run_git(mngr.repo, "add", ".")
    run_git(mngr.repo, "commit", "-q", "-m", "shop")
    return mngr


def play(mngr: MngrProgram, name: str, steps: Any, *options: str, message: str | None = None) -> Any:
    """Create an agent, wait until its turn has ended, and return the agent."""
    mngr("create", name, "player", *MIRROR, *options, "--", json.dumps(steps))
    mngr("message", name, "-m", message or build_job_message(), "--wait")
    return mngr.get_agent(name)


def list_tool_calls(mngr: MngrProgram, name: str) -> list[tuple[str, str]]:
    rows = mngr.run_json("transcript", name)["transcript"]
    return [(row["tool"], row["output"]) for row in rows if row["role"] == "tool"]


def get_outputs_dir(mngr: MngrProgram, name: str) -> Path:
    return mngr.get_agent_dir(name) / "outputs"


def test_it_works_on_the_task_in_its_message(shop: MngrProgram) -> None:
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
    calls = list_tool_calls(shop, "foo")
    assert calls[:4] == [
        ("test", "exit 1"),
        ("run", f"exit 3\n{TASK}"),
        ("edit", "failed: the old text occurs 0 times, not once"),
        ("edit", "done"),
    ]
    claim = read_claim(str(get_outputs_dir(shop, "foo") / "result.json"), TASK)
    assert isinstance(claim, AgentClaim)
    assert (claim.outcome, claim.before, claim.after) == ("fixed", "fail", "pass")
    assert [(c.kind, c.summary, c.commits) for c in claim.changes] == [("FIX_IMPL", "Add prices up", (calls[4][1],))]
    assert shop.run_json("usage", "foo")["usage"][0]["cost_usd"] == 0.25


def test_every_form_of_result_is_accepted_or_rejected_as_expected(shop: MngrProgram, tmp_path: Path) -> None:
    custom = {"summary": "mine", "escalations": [{"kind": "DUPLICATE", "title": "t"}]}
    forms = [*scenario.RESULT_FORMS, custom]
    steps: list[Any] = []
    for number, form in enumerate(forms):
        steps += [{"result": form}, {"run": f'mv "$MNGR_OUTPUT_DIR/result.json" {tmp_path}/{number}.json'}]
    play(shop, "foo", steps, message=build_job_message(task="cause-1"))
    claims = [read_claim(f"{tmp_path}/{number}.json", "cause-1") for number in range(len(forms))]
    claims_by_form: Any = dict(zip([*scenario.RESULT_FORMS, "mine"], claims, strict=True))
    complete = claims_by_form.pop("complete")
    assert isinstance(complete, AgentClaim) and complete.outcome == "unchanged"
    merged = claims_by_form.pop("mine")
    assert isinstance(merged, AgentClaim) and (merged.summary, merged.escalations[0].kind) == ("mine", "DUPLICATE")
    assert {form: problems[0] for form, problems in claims_by_form.items() if isinstance(problems, list)} == {
        "partial": 'result.json has no "outcome".',
        "broken": claims_by_form["broken"][0],
        "empty": "result.json is empty.",
        "huge": "result.json is larger than 1 MB. Shorten its texts and put long content into separate files.",
        "deep": "result.json is nested too deeply.",
        "types": '"v" is "1"; it must be 1.',
        "words": '"outcome" is "great"; it must be one of fixed, improved, unchanged, blocked, failed.',
        "other": '"task" is "tests/test_other.py::test_other", but this task is "cause-1".',
        "half": "summary contains an invalid character (a lone surrogate).",
        "link": "result.json is a symbolic link; it must be a regular file.",
        "pipe": "result.json is not a regular file.",
        "folder": "result.json is not a regular file.",
    }
    assert "is not JSON" in claims_by_form["broken"][0]
    assert len(claims_by_form["types"]) == 9


def test_it_claims_falsely_weakens_tests_and_leaves_uncommitted_files(shop: MngrProgram) -> None:
    steps: list[Any] = ["lie", "wait"]
    for weakening in scenario.WEAKENINGS:
        steps += [{"weaken": weakening}, {"run": "git reset -q --keep HEAD~1"}]
    play(shop, "foo", [*steps, {"conflict": {"path": "shop.py", "line": 2}}, "dirt"])
    work = shop.get_work_dir("foo")
    assert run_git(work, "log", "-1", "--format=%s") == "[FIX_TEST] It passes now"
    claim = read_claim(str(get_outputs_dir(shop, "foo") / "result.json"), TASK)
    assert isinstance(claim, AgentClaim) and (claim.outcome, claim.after) == ("fixed", "pass")
    assert "max(" in (work / "shop.py").read_text()
    shop("message", "foo", "-m", "go on", "--wait")
    calls = list_tool_calls(shop, "foo")
    assert [tool for tool, output in calls if output.startswith("failed")] == []
    assert (work / "shop.py").read_text().splitlines()[1] == "    return max(prices)  # foo"
    weaker = {}
    for (_, commit), weakening in zip([row for row in calls if row[0] == "weaken"], scenario.WEAKENINGS, strict=True):
        name = "conftest.py" if weakening == "conftest" else "tests/test_shop.py"
        weaker[weakening] = run_git(work, "show", f"{commit}:{name}")
        compile(weaker[weakening], name, "exec")
    assert "assert" not in weaker["asserts"] and "assert (total([1, 2]) == 3) or True" in weaker["true"]
    assert '    """Prices add up."""\n    return\n' in weaker["return"] and "def " not in weaker["delete"]
    assert ".skip(" in weaker["skip"] and ".xfail(" in weaker["xfail"] and "passed" in weaker["conftest"]
    assert {line.split()[0] for line in run_git(work, "status", "--porcelain").splitlines()} == {
        "M",
        "A",
        "??",
    }


def test_limits_park_the_agent(shop: MngrProgram, tmp_path: Path) -> None:
    limited = tmp_path / "limited"
    limited.touch()
    steps = [
        {"park": {"reason": "rate_limit", "seconds": 30, "while": str(limited)}},
        {"park": "quota"},
        {"park": {"reason": "login", "text": "log in"}},
        {"retry": 1000},
    ]
    agents = []
    shop("create", "foo", "player", "--", json.dumps(steps))
    for _ in range(4):
        shop("message", "foo", "-m", "go on", "--wait")
        agents.append(shop.get_agent("foo"))
        if len(agents) == 2:
            limited.unlink()
    assert [(a["state"], a["state_reason"]) for a in agents] == [
        ("PARKED", "rate_limit"), ("PARKED", "rate_limit"), ("PARKED", "quota"), ("PARKED", "login"),
    ]  # fmt: skip
    assert [a["parked_until"] is None for a in agents] == [False, False, False, True]
    shop("message", "foo", "-m", "go on")
    wait_for(lambda: (a := shop.get_agent("foo"))["state"] == "RUNNING" and a["state_reason"] == "retrying")
    assert "429" in shop("capture", "foo").out


def test_after_a_crash_it_continues_with_the_next_step(shop: MngrProgram) -> None:
    steps = [{"crash": "SEGV"}, {"crash": "TERM"}, {"crash": "lost"}, {"reply": "back"}]
    shop("create", "foo", "player", "--", json.dumps({"steps": steps, "start": "now"}))
    for reason in ("exit 139", "exit 143", "lost"):
        shop("wait", "foo", "--state", "FAILED")
        assert shop.get_agent("foo")["state_reason"] == reason
        shop("start", "foo")
    shop("wait", "foo", "--state", "WAITING")
    assert [row["text"] for row in shop.run_json("transcript", "foo")["transcript"]] == ["back"]


def test_a_flooding_player_that_ignores_signals_can_be_stopped(shop: MngrProgram) -> None:
    shop("create", "foo", "player", "--", json.dumps({"steps": [{"flood": 2}, "deaf"], "start": "now"}))
    wait_for(lambda: "deaf" in shop("capture", "foo").out)
    pid = shop.get_agent("foo")["pid"]
    shop("stop", "foo", "-S", "stop.grace=0.2s")
    wait_for(lambda: not Path(f"/proc/{pid}/exe").exists())


def test_hostile_files_are_planted(shop: MngrProgram) -> None:
    steps = [{"hostile": kind} for kind in scenario.HOSTILE_KINDS]
    play(shop, "foo", steps)
    assert [row for row in list_tool_calls(shop, "foo") if row[1].startswith("failed")] == []
    outputs_dir = get_outputs_dir(shop, "foo")
    assert os.readlink(outputs_dir / "secret") == "/etc/passwd"
    assert (outputs_dir / "big.bin").stat().st_size == 2 << 30 and (outputs_dir / "big.bin").stat().st_blocks == 0
    assert stat.S_ISFIFO((outputs_dir / "pipe").stat().st_mode) and stat.S_ISSOCK(
        (outputs_dir / "socket").stat().st_mode
    )
    assert set(sabotage.ODD_NAMES) <= set(os.listdir(os.fsencode(outputs_dir)))
    assert "\x1b" not in shop("transcript", "foo").out
    work = shop.get_work_dir("foo")
    assert run_git(work, "-c", "core.fsmonitor=", "ls-files", "hostile-link") == "hostile-link"
    assert not (outputs_dir / "trapped").exists()
    run_git(work, "status")
    assert (outputs_dir / "trapped").exists()


def test_each_task_can_have_its_own_steps(shop: MngrProgram) -> None:
    cases = [
        {"task": "*::test_none", "steps": []},
        {"task": "*::test_total", "steps": [{"reply": "for the test"}]},
        {"task": "ba?", "steps": [{"reply": "for bar"}]},
    ]
    scenario_data = {"steps": [{"reply": "for all"}, "wait", {"reply": "again"}], "cases": cases}
    for name, message in (("foo", build_job_message()), ("bar", "hello"), ("eve", "hello")):
        play(shop, name, scenario_data, message=message)
    last_lines = [
        shop("transcript", name, "--format", "{role}: {text}").out.splitlines()[-1] for name in ("foo", "bar", "eve")
    ]
    assert last_lines == ["assistant: for the test", "assistant: for bar", "assistant: for all"]


def test_an_invalid_scenario_creates_no_agent(mngr: MngrProgram) -> None:
    result = mngr("create", "foo", "player", "--", '[{"weaken": "all"}]', code=2)
    assert "step 1: weaken must be one of asserts, true," in result.err
    assert not mngr.home.exists()
