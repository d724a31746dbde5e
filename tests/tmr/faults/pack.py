"""The fault pack: what agents do wrong, and how each task must end.

The pack is independent of the orchestrator. A fault is a test of a small project, the steps of `player` for the agent
of this test (docs/concepts/player.md), and the expected facts. An adapter runs an orchestrator and returns `Ended`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Steps = list[Any]

CALC = "def add(a, b):\n    return a + b\n"
TEST = '''import calc


def test_{name}():
    """Adding one gives the next number."""
    assert calc.add({number}, 1) == {sum}
'''


@dataclass(frozen=True)
class Task:
    """How the work on one test ended."""

    outcome: str  # fixed, improved, unchanged or blocked if verified; failed: no claim; else the check's verdict
    verdict: str | None = (
        None  # of running the claim: confirmed, refuted, flaky, unverified; None when nothing was claimed
    )
    reason: str = ""
    prompts: int = 1  # how often its agents got the prompt
    reminders: int = 0
    files: tuple[str, ...] = ()  # the files that the collected commits change, sorted
    uncommitted: str = ""  # the uncommitted changes, as a diff
    transcript: str = ""


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    state: str  # settled: all tasks ended; parked: the rest can be resumed; interrupted
    said: str  # standard error
    tasks: dict[str, Task]  # by the name of the fault
    alarms: list[tuple[str, str]]  # error kind (code, dependency, host, login, rate_limit) and text
    harm: list[str]  # what was changed or executed without permission


class Run(Protocol):
    """A running orchestrator."""

    def wait(self) -> Ended:
        """Wait for the end and return how it ended."""
        ...

    def kill(self, number: int) -> None:
        """Send a signal to the orchestrator."""
        ...

    def tasks_at_work(self) -> dict[str, str]:
        """Return the agents that got their prompt, by the name of the fault."""
        ...


@dataclass(frozen=True)
class Wish:
    """The limits of a run."""

    slots: int = 10  # agents at the same time
    task_seconds: float = 120.0  # for one task
    stall_seconds: float = 60.0  # without activity
    seconds: float | None = None  # for the whole run
    alarm: int = 1000  # similar failures that end the launches
    probe: bool = False  # then a probe is launched now and then
    agent: str = "player"


class Orchestrator(Protocol):
    """The methods of an adapter."""

    def start(self, faults: list[Fault], wish: Wish = ...) -> Run:
        """Start a run on the tests of a project: one `player` agent for each, with the steps of its fault."""
        ...

    def resume(self) -> Run:
        """Resume the last run."""
        ...


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and the expected end of its task."""

    name: str
    steps: Steps
    outcome: str
    verdict: str | None = None
    reason: str = ""  # a pattern that the reason contains
    breaks: bool = False  # the unchanged test fails
    reminders: int | None = None
    files: tuple[str, ...] | None = None  # the files of the collected commits
    uncommitted: str = ""  # a pattern that the uncommitted diff contains
    says: str = ""  # a pattern that the saved transcript contains

    def wrong(self, task: Task | None) -> list[str]:
        """Return the differences between the task and the expected end."""
        if task is None:
            return [f"{self.name}: nobody knows of it"]
        problems = []
        for label, actual, expected in (
            ("outcome", task.outcome, self.outcome),
            ("verdict", task.verdict, self.verdict),
            ("reminders", task.reminders, self.reminders),
            ("files", task.files, self.files),
        ):
            if actual != expected and not (expected is None and label in ("reminders", "files")):
                problems.append(f"{label} is {actual!r}, not {expected!r} ({task.reason})")
        for label, text, pattern in (
            ("reason", task.reason, self.reason),
            ("uncommitted", task.uncommitted, self.uncommitted),
            ("transcript", task.transcript, self.says),
        ):
            if not re.search(pattern, text, re.S):
                problems.append(f"{label} has no {pattern!r}: {text[:300]!r}")
        if task.prompts != 1:
            problems.append(f"it was given its task {task.prompts} times")
        if not task.transcript:
            problems.append("its conversation was not kept")
        return [f"{self.name}: {problem}" for problem in problems]


def write_project(root: Path, faults: list[Fault]) -> None:
    """Write the project's files: a test for each fault."""
    (root / "tests").mkdir(exist_ok=True)
    (root / "conftest.py").write_text("")
    (root / ".gitignore").write_text("__pycache__/\n")
    (root / "calc.py").write_text(CALC)
    for number, fault in enumerate(faults):
        text = TEST.format(name=fault.name, number=number, sum=number + (2 if fault.breaks else 1))
        (root / "tests" / f"test_{fault.name}.py").write_text(text)


DONE = {"result": "complete"}
BETTER = {"result": {"outcome": "improved", "before": "pass", "after": "pass"}}
FIXED = {"result": {"outcome": "fixed", "before": "fail", "after": "pass"}}
DRAFT = {"write": {"path": "draft.txt", "content": "a thought\n"}}
WORK = [{"write": {"path": "work.txt", "content": "half\n"}}, {"commit": "[FIX_TEST] Half of it"}, DRAFT]
KEPT: dict[str, Any] = {"files": ("work.txt",), "uncommitted": r"\+a thought"}


def fix_steps(name: str) -> Steps:
    """Return the steps of a correct repair of a test that expects one too many."""
    edit = r"import re, sys; p = sys.argv[1]; t = open(p).read(); t = re.sub(r'== (\d+)$', lambda m: f'== {int(m[1]) - 1}', t, flags=re.M); open(p, 'w').write(t)"
    command = f'python3 -c "{edit}" tests/test_{name}.py'
    return [{"run": command}, {"commit": "[FIX_TEST] The sum"}, FIXED]


CONTROLS = [
    Fault("right", ["test", DONE], "unchanged", "confirmed", reminders=0, files=()),
    Fault(
        "mended",
        fix_steps("mended"),
        "fixed",
        "confirmed",
        breaks=True,
        reminders=0,
        files=("tests/test_mended.py",),
    ),
    Fault("blocked", ["test", DONE], "blocked", None, "Played by a script", breaks=True),
]
# These take longest. Failing tests are launched first.
STUCK = [
    Fault("hang", [*WORK, "hang"], "failed", None, "no activity", breaks=True, **KEPT),
    Fault("deaf", [*WORK, "deaf"], "failed", None, "no activity", breaks=True, **KEPT),
    Fault(
        "ask",
        [{"ask": "which one?"}, DONE],
        "unchanged",
        "confirmed",
        reminders=1,
        says="which one.*No person is here",
    ),
    Fault("ask_again", [*WORK, *[{"ask": "which?"}] * 4], "failed", None, "question", reminders=2, **KEPT),
    Fault("permission", [*[{"permission": "may I?"}] * 4], "failed", None, "permission", reminders=2),
    Fault("endless", [*WORK, {"sleep": 600}], "failed", None, "timeout|no activity", breaks=True, **KEPT),
]
ENDS = [
    Fault("exit_0", [*WORK, {"exit": 0}], "failed", None, "result.json does not exist", **KEPT),
    Fault("exit_3", [*WORK, {"exit": 3}], "failed", None, "exit code 3", **KEPT),
    Fault("killed", [*WORK, {"crash": "KILL"}], "failed", None, "signal 9|exit code 137", **KEPT),
    Fault("segv", [*WORK, {"crash": "SEGV"}], "failed", None, "signal 11|exit code 139", **KEPT),
    Fault(
        "lost",
        [{"crash": "lost"}, DONE],
        "unchanged",
        "confirmed",
        reminders=0,
        says="The interruption is over",
    ),
    Fault("lost_thrice", [*WORK, *[{"crash": "lost"}] * 4], "failed", None, "lost|ended", **KEPT),
]
LIES = [
    Fault("lie", ["lie"], "refuted", "refuted", "assert", breaks=True),
    Fault("lie_nothing_done", [FIXED], "failed", None, '"changes" is empty', breaks=True, reminders=2, files=()),
    Fault("lie_unchanged", [{"result": {"outcome": "unchanged", "before": "pass", "after": "pass"}}], "refuted", "refuted", breaks=True),
    Fault("lie_breaks", [{"run": "echo 'def add(a, b): return 0' >calc.py"}, {"commit": "[IMPROVE_TEST] Better"}, DONE], "refuted", "refuted"),
    Fault("weaken_skip", [{"weaken": "skip"}], "refuted", "refuted", "skip", breaks=True),
    Fault("weaken_delete", [{"weaken": "delete"}], "refuted", "refuted", breaks=True),
    Fault("weaken_xfail", [{"weaken": "xfail"}], "refuted", "refuted", breaks=True),
    Fault("weaken_conftest", [{"weaken": "conftest"}], "refuted", "refuted", breaks=True),
]  # fmt: skip
# The test passes, but it was weakened.
PASSES_BUT_WEAKER = [
    Fault(f"weaken_{how}", [{"weaken": how}], "refuted", "refuted", "it passes, but", breaks=True)
    for how in ("asserts", "true", "return")
]
RESULTS = [
    Fault("no_result", [*WORK, "wait"], "failed", None, "result.json does not exist", reminders=2, **KEPT),
    Fault("late_result", [{"result": "broken"}, "wait", DONE], "unchanged", "confirmed", reminders=1),
    *(
        Fault(f"result_{form}", [{"result": form}], "failed", None, reason, reminders=2)
        for form, reason in {
            "partial": "outcome", "broken": "not JSON", "empty": "empty", "huge": "larger than", "deep": "JSON|deep",
            "types": "must be", "words": '"great"', "other": "test_other", "half": "invalid character", "link": "could not fetch your work.*link",
            "pipe": "could not fetch your work", "folder": "not a regular file",
        }.items()
    ),
]  # fmt: skip
FILES = [
    Fault("dirt", [DONE, "dirt"], "unchanged", "confirmed", reminders=2, uncommitted="dirt-staged.txt.*dirt.txt"),
    Fault("flood", [{"flood": 8}, DONE], "unchanged", "confirmed"),
    Fault("hostile_escapes", [{"hostile": "escapes"}, DONE], "unchanged", "confirmed", reminders=0),
    Fault("hostile_many", [{"hostile": "many"}, DONE], "unchanged", "confirmed"),
    Fault("hostile_names", [{"hostile": "names"}, BETTER], "refuted", "refuted", "it passes, but", reminders=0),
    # A refused file is reported, and the rest of the work counts.
    Fault("hostile_big", [{"hostile": "big"}, DONE], "unchanged", "confirmed", "could not fetch your work", reminders=2),
    Fault("hostile_deep", [{"hostile": "deep"}, DONE], "unchanged", "confirmed", "could not fetch your work", reminders=2),
    Fault("hostile_links", [{"hostile": "links"}, DONE], "failed", None, "could not fetch your work.*link", reminders=2),
    Fault("hostile_special", [{"hostile": "special"}, DONE], "failed", None, "could not fetch your work", reminders=2),
    Fault("hostile_git", [{"hostile": "git"}, DONE], "unchanged", "confirmed", "uncommitted changes", reminders=2, uncommitted="filter=t"),
]  # fmt: skip
NEIGHBOURS = [
    Fault(f"conflict_{n}", [{"conflict": {"path": "calc.py", "line": 1}}, BETTER], "improved", "confirmed", files=("calc.py",))
    for n in (1, 2)
]  # fmt: skip
LIMITS = [
    Fault("retry", [{"retry": 2}, DONE], "unchanged", "confirmed", reminders=0),
]
TOGETHER = [
    *CONTROLS, *STUCK, *ENDS, *LIES, *PASSES_BUT_WEAKER, *RESULTS, *FILES, *NEIGHBOURS, *LIMITS
]  # fmt: skip

# These end like others, so a small run skips them.
ALIKE = [f"result_{form}" for form in ("partial", "empty", "deep", "words", "half", "types")]

# Faults that affect other tasks have their own run.


def until(path: Path) -> Any:
    """Return a step that works until the file exists."""
    return {"run": f"while ! test -e '{path}'; do sleep 0.1; done"}


def limited(path: Path, reason: str, seconds: float = 1.0) -> Any:
    """Return a step with a limit that holds as long as the file exists."""
    return {"park": {"reason": reason, "seconds": seconds, "while": str(path)}}


def well(name: str, *steps: Any) -> Fault:
    """Return a fault whose task succeeds in the end."""
    return Fault(name, [*steps, DONE], "unchanged", "confirmed")
