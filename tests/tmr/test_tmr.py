"""`mngr tmr`: scripted agents work on one test or root cause each, and a claim counts after mngr verified it."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.base.paths import Home
from mngr.mapreduce.journal.journal_file import find_writer
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.tmr.changes.rejection_reasons import Rejection, RejectionFile
from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, run_git, wait_for
from tests.support.journal_file import read_json_rows

ADD = "def add(a, b):\n    return a {sign} b\n"
TEST = '''import calc


def test_{name}():
    """Adding {name} gives the sum of both."""
    assert calc.add({a}, {b}) == {sum}
'''
FIX: dict[str, Any] = {"edit": {"path": "calc.py", "old": "a - b", "new": "a + b"}}


def result(**fields: object) -> dict[str, object]:
    """Return a step that writes the agent's result."""
    return {"result": fields}


FIXED = [
    FIX,
    {"commit": "[FIX_IMPL] Add, not subtract"},
    result(outcome="fixed", before="fail", after="pass"),
]


@pytest.fixture
def project(mngr: MngrProgram) -> MngrProgram:
    """Return a package with one function, ready for tests."""
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    (mngr.repo / "conftest.py").write_text("")
    (mngr.repo / "calc.py").write_text(ADD.format(sign="+"))
    return mngr


def add_tests(project: MngrProgram, **sums: tuple[int, int, int]) -> None:
    """Commit tests, each in its own file."""
    (project.repo / "tests").mkdir(exist_ok=True)
    for name, (a, b, total) in sums.items():
        path = project.repo / "tests" / f"test_{name}.py"
        path.write_text(TEST.format(name=name, a=a, b=b, sum=total))
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "tests")


def order(name: str, cases: dict[str, list[object]]) -> list[str]:
    """Return the command for a run with scripted agents. `cases` maps a pattern of task names to steps."""
    steps = {
        "steps": [result(outcome="unchanged")],
        "cases": [{"task": task, "steps": case_steps} for task, case_steps in cases.items()],
    }
    return [
        "tmr",
        "run",
        "--name",
        name,
        "--agent",
        "player",
        "--agent-arg",
        json.dumps(steps),
        "--runs",
        "1",
        "--verify-runs",
        "1",
        "--no-integrate",
    ]


def play(
    project: MngrProgram,
    cases: dict[str, list[object]],
    *words: str,
    code: int = 0,
    name: str = "r",
    timeout: float = 60,
) -> dict[str, Any]:
    """Run scripted agents to the end and return the report."""
    process = project(*order(name, cases), "--format", "json", *words, code=code, timeout=timeout)
    report: dict[str, Any] = process.parse_json()
    return report


def rows(project: MngrProgram, *types: str, name: str = "r") -> list[dict[str, Any]]:
    all_rows = read_json_rows(RunDir(str(project.repo), name).journal)
    return [row for row in all_rows if row["type"] in types]


@pytest.mark.agents
def test_tests_broken_by_one_line_become_one_root_cause_task(project: MngrProgram) -> None:
    (project.repo / "calc.py").write_text("def add(a, b):\n    return a + c\n")
    count = 12 if IS_FULL_SCALE else 4
    add_tests(project, **{f"n{n}": (n, 1, n + 1) for n in range(count)})
    fixed = [
        {"run": "sed -i s/a.+.c/a+b/ calc.py"},
        {"commit": "[FIX_IMPL] b"},
        result(outcome="fixed", before="fail", after="pass"),
    ]
    report = play(project, {"cause-*": [*fixed]}, "--max-agents", "4", timeout=180)
    cause_tasks = [task for task in report["tasks"] if task["root_cause"]]
    assert [(task["outcome"], task["verdict"]) for task in cause_tasks] == [("fixed", "confirmed")]
    assert len(report["root_causes"]) == 1 and len(report["root_causes"][0]["tests"]) == count
    (base,) = rows(project, "base_moved")
    launched = {row["slug"]: row["base"] for row in rows(project, "launch")}
    later = [slug for slug in launched if not slug.startswith("cause-")]
    assert len(later) == count - 1 and {launched[slug] for slug in later} == {base["commit"]}
    assert {task["outcome"] for task in report["tasks"] if not task["root_cause"]} == {"unchanged"}


@pytest.mark.agents
def test_an_unrepaired_root_cause_is_reported_once_and_can_be_retried(project: MngrProgram) -> None:
    (project.repo / "calc.py").write_text("def add(a, b):\n    return a + c\n")
    add_tests(project, one=(1, 1, 2), two=(2, 2, 4), three=(3, 3, 6))
    report = play(project, {"cause-*": [result(outcome="blocked", after="fail")]}, "--tries", "2", code=4)
    assert [task["outcome"] for task in report["tasks"]] == ["blocked", "blocked"]
    assert len(report["unrepaired_root_causes"]) == 1 and len(report["unrepaired_root_causes"][0]["tests"]) == 3
    repair = {"edit": {"path": "calc.py", "old": "a + c", "new": "a + b"}}
    steps = json.dumps([repair, *FIXED[1:]])
    command = ["tmr", "retry", report["tasks"][0]["slug"], "--agent", "player", "--agent-arg", steps]
    retried = project(*command, "--format", "json", timeout=60, code=4).parse_json()
    assert [task["outcome"] for task in retried["tasks"]][:2] == ["fixed", "blocked"]
    assert retried["unrepaired_root_causes"] == [], "somebody did, after all"


@pytest.mark.agents
def test_a_pull_request_names_the_kind_of_a_retried_tasks_agent(project: MngrProgram) -> None:
    add_tests(project, wrong=(2, 2, 5))
    words = ["tmr", "run", "--agent", "mechanic", "--name", "r", "--runs", "1", "--verify-runs", "1"]
    project(*words, code=4, timeout=60)
    steps = [{"edit": {"path": "tests/test_wrong.py", "old": "== 5", "new": "== 4"}}, {"commit": "[FIX_TEST] The sum"}]
    steps.append({"result": {"outcome": "fixed", "before": "fail", "after": "pass"}})
    words = ["tmr", "retry", "--agent", "player", "--agent-arg", json.dumps(steps)]
    status = project(*words, "--format", "json", timeout=60).parse_json()
    assert [task["agent_kind"] for task in status["tasks"]] == ["player"]
    text = Path(RunDir(str(project.repo), "r").path, "PR.md").read_text()
    assert "made by `player` for task" in text and "- Agents: 1 `player`" in text and "mechanic" not in text


@pytest.mark.agents
def test_the_receipt_of_an_unchanged_test_holds_the_runs_of_the_baseline(project: MngrProgram) -> None:
    add_tests(project, right=(1, 1, 2))
    play(project, {})
    folder = RunDir(str(project.repo), "r").task_path(make_slug("tests/test_right.py::test_right"))
    receipt = json.loads(Path(folder, "receipt.json").read_text())
    assert (receipt["verdict"], receipt["tree"]) == ("confirmed", run_git(project.repo, "rev-parse", "HEAD^{tree}"))
    assert receipt["reason"] == "the agent changed nothing, so the result of the baseline counts: pass"
    assert [run["outcome"] for run in receipt["results"]] == ["pass"]
    assert receipt["isolation"].startswith("bubblewrap")
    assert receipt["imported_from"] == {"calc": "calc.py"}


@pytest.mark.agents
def test_claims_are_verified_and_confirmed_tests_are_skipped_next_time(project: MngrProgram) -> None:
    add_tests(project, right=(1, 1, 2), wrong=(2, 2, 5), liar=(3, 3, 7), lazy=(4, 4, 9))
    repair = [
        {"edit": {"path": "tests/test_wrong.py", "old": "== 5", "new": "== 4"}},
        {"commit": "[FIX_TEST] The sum"},
        result(outcome="fixed", before="fail", after="pass"),
    ]
    false_claim = [
        {"write": {"path": "note.txt", "content": "it passes\n"}},
        {"commit": "[FIX_TEST] Nothing of use"},
        result(outcome="fixed", before="fail", after="pass"),
    ]
    cases: dict[str, list[object]] = {
        "*test_wrong": repair,
        "*test_liar": false_claim,
        "*test_lazy": [result(outcome="unchanged", before="pass", after="pass")],
    }
    report = play(project, cases, code=4)
    results = {
        task["task"].rpartition("::")[2]: (task["claimed"], task["verdict"], task["outcome"])
        for task in report["tasks"]
    }
    assert results == {
        "test_right": ("unchanged", "confirmed", "unchanged"),
        "test_wrong": ("fixed", "confirmed", "fixed"),
        "test_liar": ("fixed", "refuted", "refuted"),
        "test_lazy": ("unchanged", "refuted", "refuted"),
    }
    folder = RunDir(str(project.repo), "r").task_path(make_slug("tests/test_wrong.py::test_wrong"))
    receipt = json.loads(Path(folder, "receipt.json").read_text())
    assert receipt["verdict"] == "confirmed" and receipt["results"][0]["outcome"] == "pass"
    assert (
        run_git(project.repo, "status", "--porcelain") == "" and len(run_git(project.repo, "branch").split("\n")) == 1
    )
    rejection = Rejection(
        change="c0", title="Less", paths=["tests/test_lazy.py"], tests=[], reason="keep it", run="r", at=""
    )
    RejectionFile(Home(str(project.home)), str(project.repo)).add([rejection])
    second_report = play(project, {}, name="s", code=4)
    skipped = {row["test"]: row["why"] for row in second_report["skipped"]}
    assert skipped == {
        "tests/test_right.py::test_right": "neither the test nor its code has changed since run r confirmed it"
    }
    prompt = Path(
        RunDir(str(project.repo), "s").task_path(make_slug("tests/test_lazy.py::test_lazy")), "prompt.md"
    ).read_text()
    assert "In the earlier run r this task ended as refuted: the agent changed nothing" in prompt
    assert "People rejected earlier edits" in prompt and "- Less (tests/test_lazy.py): keep it\n" in prompt
    assert "the run s has no blocked tasks" in project("tmr", "retry", "--blocked", code=1).err
    assert (
        "--blocked and TASK cannot be combined"
        in project("tmr", "retry", "--blocked", "tests/test_wrong.py", code=2).err
    )


@pytest.mark.agents
def test_a_run_killed_many_times_ends_like_an_undisturbed_run(project: MngrProgram) -> None:
    count, kills, seed = (40, 50, os.urandom(4).hex()) if IS_FULL_SCALE else (5, 3, "0")
    print(f"seed {seed}")
    rng = random.Random(seed)
    sums = {f"n{n}": (n, 1, n + (1 if n % 2 else 2)) for n in range(count)}
    add_tests(project, **sums)
    cases: dict[str, list[object]] = {
        f"*test_n{n}": [
            {"run": f"sed -i 's/== {n + 2}/== {n + 1}/' tests/test_n{n}.py"},
            {"commit": "[FIX_TEST] The sum"},
            result(outcome="fixed", before="fail", after="pass"),
        ]
        for n in range(0, count, 2)
    }
    options = ("--max-agents", "8", "--canary", "0")
    undisturbed = play(project, cases, *options, name="u", timeout=900)
    project("tmr", "memory", "forget")
    run = RunDir(str(project.repo), "r")
    command = [*order("r", cases), *options]
    for number in range(kills):
        process = subprocess.Popen(
            [BIN_DIR / "mngr", *command], cwd=project.repo, env=project.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )  # fmt: skip
        lines = len(read_json_rows(run.journal))
        if number == 0:
            wait_for(lambda: find_writer(run.journal) is not None)  # until then, another process could resume the run
        row_count = lines + rng.randrange(count * 12 // kills * 2)
        wait_for(functools.partial(has_journal_rows, process, run.journal, row_count), timeout=300)
        if process.poll() is None and number == 0:
            assert "is still running, in process" in project("tmr", "resume", "r", code=1).err
        process.kill()
        process.wait()
        command = ["tmr", "resume", "r"]
    report = project.run_json("tmr", "resume", "r", timeout=900)
    assert collect_facts(project, "r", report) == collect_facts(project, "u", undisturbed)
    assert len(report["tasks"]) == count
    names = [agent["name"] for agent in project.list_agents() if agent["labels"].get("run") == "r"]
    assert len(names) == count and not [name for name in names if "-clean-room-" in name]
    settled = [row["slug"] for row in rows(project, "settled")]
    assert len(settled) == len(set(settled)) == count


def has_journal_rows(process: subprocess.Popen[bytes], journal: str, lines: int) -> bool:
    return process.poll() is not None or len(read_json_rows(journal)) >= lines


def collect_facts(project: MngrProgram, name: str, report: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    """Return each task with its outcome, verdict and resulting tree."""
    run = RunDir(str(project.repo), name)
    return {
        (
            task["task"],
            task["outcome"],
            task["verdict"],
            run_git(Path(run.repo), "rev-parse", f"{run.ref_name(task['slug'])}^{{tree}}"),
        )
        for task in report["tasks"]
    }


@pytest.mark.agents
def test_tmr_stop_ends_the_process_and_all_agents(project: MngrProgram) -> None:
    add_tests(project, one=(1, 1, 2), two=(2, 2, 4))
    process = subprocess.Popen(
        [BIN_DIR / "mngr", "tmr", "run", "--name", "r", "--agent", "player", "--agent-arg", '["hang"]', "--runs", "1"],
        cwd=project.repo, env=project.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: len(rows(project, "prompted")) == 2)
    assert "is still running, in process" in project("tmr", "clean", code=1).err
    stopped = project.run_json("tmr", "stop")["results"]
    assert len(stopped) == 2 and all(row["ok"] for row in stopped)
    assert "mngr tmr resume r" in process.communicate()[1] and process.returncode == 130
    assert {agent["state"] for agent in project.list_agents()} == {"STOPPED"}
    assert project.run_json("tmr", "status")["state"] == "interrupted"
    assert "continue the run: mngr tmr resume r" in project("tmr", "status").out
    assert "the run r has no running agents" in project("tmr", "stop").err


@pytest.mark.agents
def test_dry_run_estimates_and_leaves_no_trace(project: MngrProgram) -> None:
    part = project.repo / "part"
    part.mkdir()
    (part / "test_part.py").write_text("def test_part():\n    pass\n")
    add_tests(project, right=(1, 1, 2), wrong=(2, 2, 5))
    assert project.run_json("tmr", "run", "--dry-run", "--runs", "1", cwd=part)["tests"] == 1, "those below"
    estimate = project.run_json("tmr", "run", "--dry-run", "--runs", "1", "tests")
    assert (estimate["tests"], estimate["failing"], estimate["agents"], estimate["cost_usd"]) == (
        2,
        1,
        [2, 2],
        [0.0, 0.0],
    )
    assert (
        estimate["prompt_tokens"] > estimate["shared_tokens"] > 500 and estimate["seconds"][0] < estimate["seconds"][1]
    )
    output = project("tmr", "run", "--dry-run", "--runs", "1", "tests", "--agent", "claude").out
    assert "2 agents" in output and "cost unknown" in output
    assert project.list_agents() == [] and project.run_json("tmr", "list")["runs"] == []
    assert run_git(project.repo, "for-each-ref", "refs/mngr") == ""


@pytest.mark.agents
def test_dry_run_lists_the_planned_tasks_and_does_not_count_skipped_tests_as_failing(project: MngrProgram) -> None:
    (project.repo / "calc.py").write_text("def add(a, b):\n    return a + c\n")
    add_tests(project, one=(1, 1, 2), two=(2, 2, 4))
    text = "import pytest\n\n\n@pytest.mark.{}\ndef test_later():\n    pass\n\n\ndef test_now():\n    pass\n"
    (project.repo / "tests/test_skip.py").write_text(text.format("skip"))
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "Skip a test")
    estimate = project.run_json("tmr", "run", "--dry-run", "--runs", "1")
    (cause,) = [row["id"] for row in estimate["root_causes"]]
    assert estimate["tasks"] == [
        {"slug": f"cause-{cause}-1", "tests": ["tests/test_one.py::test_one", "tests/test_two.py::test_two"], "root_cause": cause, "before": "in the suite: fail; alone: fail"},
        {"slug": make_slug("tests/test_skip.py::test_now"), "tests": ["tests/test_skip.py::test_now"], "root_cause": None, "before": "in the suite: pass"},
    ]  # fmt: skip
    assert estimate["skipped"] == [{"test": "tests/test_skip.py::test_later", "why": "pytest skips it"}]
    assert (estimate["tests"], estimate["failing"], estimate["flaky"], estimate["agents"][0]) == (4, 2, 0, 2)
    assert {"tokens", "cost_usd", "seconds"} <= estimate.keys()


@pytest.mark.agents
def test_a_dry_run_names_and_explains_a_test_that_fails_only_after_other_tests(project: MngrProgram) -> None:
    count = 2 * len(os.sched_getaffinity(0))  # so that at least one process runs several of them
    text = "import calc\n\n\n" + "".join(
        f"def test_sum_{number}():\n    assert calc.add(1, 1) == 2\n    calc.add = None\n\n\n"
        for number in range(count)
    )
    (project.repo / "tests").mkdir()
    (project.repo / "tests/test_order.py").write_text(text)
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "tests")
    estimate = project.run_json("tmr", "run", "--dry-run", "--runs", "1")
    dependent, before = estimate["dependent_tests"][0], "in the suite: fail; alone: pass"
    test = dependent["test"]
    assert (dependent["verdict"], dependent["before"]) == ("fails_in_suite", before)
    assert {task["tests"][0]: task["before"] for task in estimate["tasks"]}[test] == before
    output = project("tmr", "run", "--dry-run", "--runs", "1").out
    assert f"{test} is failing in the suite and passing alone. The test passes in its own process and fails" in output
    play(project, {}, code=4)
    assert {task["task"]: task["before"] for task in project.run_json("tmr", "status")["tasks"]}[test] == before


@pytest.mark.agents
def test_only_changed_selects_the_tests_that_ran_the_changed_lines(project: MngrProgram) -> None:
    (project.repo / "calc.py").write_text("def add(a, b):\n    return a + b\n\n\ndef half(a):\n    return a / 2\n")
    (project.repo / "test_half.py").write_text("import calc\n\n\ndef test_half():\n    assert calc.half(2) == 1\n")
    add_tests(project, one=(1, 1, 2))
    play(project, {})
    (project.repo / "calc.py").write_text("def add(a, b):\n    return a + b\n\n\ndef half(a):\n    return a * 0.5\n")
    run_git(project.repo, "commit", "-qam", "Multiply")
    estimate = project.run_json("tmr", "run", "--dry-run", "--only", "changed")
    assert [task["tests"] for task in estimate["tasks"]] == [["test_half.py::test_half"]]
    skipped = {row["test"]: row["why"] for row in estimate["skipped"]}
    assert skipped == {"tests/test_one.py::test_one": "it has not changed since run r (unchanged)"}


@pytest.mark.agents
def test_a_detached_run_notifies_when_it_ends(project: MngrProgram, tmp_path: Path) -> None:
    add_tests(project, right=(1, 1, 2))
    log = tmp_path / "told"
    notify_command = f'echo "$MNGR_EVENT: $MNGR_TEXT" >>"{log}"'
    detached = project.run_json("tmr", "run", "--detach", "--name", "r", "--runs", "1", "--notify", notify_command)
    assert detached["agent"] == "tmr-r"
    assert "unchanged" in project("tmr", "attach").err
    wait_for(lambda: log.exists() and log.read_text() == "ended: settled\n")
    wait_for(lambda: project.get_agent("tmr-r")["state"] == "DONE")
    assert project.run_json("tmr", "status")["counts"] == {"unchanged": 1}


@pytest.mark.agents
def test_settings_are_defaults_of_the_run_options(project: MngrProgram) -> None:
    add_tests(project, right=(1, 1, 2), wrong=(2, 2, 5))
    (project.repo / ".mngr").mkdir()
    (project.repo / ".mngr" / "settings.toml").write_text('[tmr]\nonly = "failing"\n')
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "settings")
    project("config", "set", "--user", "tmr.runs", "1")
    project("config", "set", "--user", "tmr.max_agents", "1")
    steps = json.dumps([result(outcome="blocked", after="fail")])
    report = project.run_json("tmr", "run", "--agent", "player", "--agent-arg", steps, code=4)
    assert [task["task"] for task in report["tasks"]] == ["tests/test_wrong.py::test_wrong"]
    plan = json.loads(Path(RunDir(str(project.repo), report["run"]).plan).read_text())
    assert plan["limits"]["max_agents"] == 1 and plan["baseline_runs"] == 1
    assert "mngr tmr run has no option 'maximum'" in project("-S", "tmr.maximum=1", "tmr", "run", code=2).err


def test_invalid_options_are_rejected_before_a_run_is_created(project: MngrProgram) -> None:
    add_tests(project, one=(1, 1, 2))
    assert "--runs must be at least 1" in project("tmr", "run", "--runs", "0", code=2).err
    assert "No closing quotation" in project("tmr", "run", "--pytest", "'x", code=2).err
    assert "no agent kind 'nobody'" in project("tmr", "run", "--agent", "nobody", code=1).err
    assert "no agent kind 'nobody'" in project("tmr", "run", "--integrator", "nobody", code=1).err
    assert "no provider 'nowhere'" in project("tmr", "run", "--on", ".nowhere", code=2).err
    assert "no commit 'never'" in project("tmr", "run", "--changed-since", "never", code=1).err
    assert "cannot collect any test" in project("tmr", "run", "tests/none.py", code=1).err
    assert "there is no run" in project("tmr", "status", code=1).err
    assert project.list_agents() == []


@pytest.mark.agents
def test_a_run_uses_the_head_of_its_worktree_and_needs_a_commit(project: MngrProgram, tmp_path: Path) -> None:
    add_tests(project, right=(1, 1, 2))
    run_git(project.repo, "worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    worktree = MngrProgram(tmp_path / "other", project.home, project.env)
    add_tests(worktree, wrong=(2, 2, 5))
    estimate = worktree.run_json("tmr", "run", "--name", "r", "--dry-run", "--runs", "1")
    assert (estimate["tests"], estimate["failing"]) == (2, 1)  # the worktree's commit, which is on no branch
    for command in (("tmr", "run"), ("map", "x", "--", "true")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        run_git(tmp_path / "empty", "init", "-q")
        assert "has no commit to start from" in project(*command, cwd=tmp_path / "empty", code=1).err
        assert not (tmp_path / "empty" / ".mngr").exists()


@pytest.mark.agents
def test_receipts_are_made_on_other_hosts_that_are_released(project: MngrProgram, example_plugin: Path) -> None:
    project.env["PYTHONPATH"] = str(example_plugin)
    add_tests(project, wrong=(2, 2, 5), other=(3, 3, 7))
    repair = [
        {"run": "sed -i -e 's/== 5/== 4/' -e 's/== 7/== 6/' tests/*.py"},
        {"commit": "[FIX_TEST] The sum"},
        result(outcome="fixed", before="fail", after="pass"),
    ]
    report = play(project, {"*": repair}, "--test-on", ".scratch", "--max-agents", "2")
    assert {task["verdict"] for task in report["tasks"]} == {"confirmed"}
    assert project.run_json("tmr", "integrate", "r")["verdict"] == "green"
    assert {agent["host"] for agent in project.list_agents()} == {"local"}
    assert {host["provider"] for host in project.run_json("list", "--hosts")["hosts"]} == {"local"}
    for command in (["tmr", "integrate", "r"], ["tmr", "clean", "r"]):
        shutil.rmtree(project.home / "cache/results")  # forces a new run of the suite
        process = subprocess.Popen([BIN_DIR / "mngr", "tmr", "integrate", "r"], cwd=project.repo, env=project.env)
        wait_for(lambda: "scratch" in {agent["provider"] for agent in project.list_agents()}, 60)
        process.kill()
        process.wait()
        project(*command, timeout=60)
        providers = {host["provider"] for host in project.run_json("list", "--hosts")["hosts"]}
        assert providers == {"local"}, "who was killed has left none"
