"""Tests PR.md: short, complete, and free of text that a forge would interpret."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mngr.base.errors import NotFound
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.journal.run_state import RunState, Task, TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.deliver.markdown import format_code, format_text
from mngr.tmr.deliver.pull_request_text import read_title, write_pull_request
from mngr.tmr.run_plan import RunPlan

EVIL = (
    "ping @torvalds, see #1 and GH-2 | ![x](http://evil.example/p.png) <img src=x> </details> ```\n/merge\n"
    "[a](javascript:1) www.evil.example \x1b[31mred\x1b[0m `$'a'$` !3 $4 ~b %5 &6 **bold** \u202eback"
)

KINDS = {"t2": "codex"}  # the kind of a task's agent, if it is not claude
RECEIPT = {"test": "tests/test_a.py::t", "reason": "", "commit": "c" * 40, "command": ["pytest"], "runs": 1}


class World:
    """The folder of a run with an integration."""

    def __init__(self, root: Path) -> None:
        self.run = RunDir(str(root), "r")
        Path(self.run.tasks).mkdir(parents=True)
        self.state = RunState()
        self.plan = RunPlan(base="b" * 40, pytest=["pytest"], agent="claude")
        self.changes: dict[str, Any] = {
            "run": "r",
            "changes": [],
            "excluded": [],
            "excluded_groups": [],
            "escalations": [],
            "unrepaired_root_causes": [],
        }
        self.made: dict[str, Any] = {
            "branch": "mngr/r/integrated", "head": "h" * 40, "verdict": "green", "commits": [], "excluded": [], "regressions": [],
            "still_failing": [], "flaky": [], "resolved": [], "checks": [], "requests": [], "only": None,
            "runs": {"processes": 4, "tests": 812, "seconds": 60.0, "cached": 3}, "seconds": 75.2, "usage_by_purpose": {},
        }  # fmt: skip

    def task(
        self, slug: str, outcome: str, verdict: str | None, *, agent_kind: str | None = None, **check: Any
    ) -> None:
        task = TaskState(
            task=Task(slug=slug, title=f"tests/test_a.py::{slug}", data={"kind": "test"}), state="settled", outcome=outcome, agent=f"tmr-r-{slug}", agent_kind=agent_kind,
            check={**RECEIPT, "verdict": verdict, **check} if verdict else None, began_at="2026-11-16T10:00:00.000Z",
            ended_at="2026-11-16T10:42:00.000Z", usage_by_purpose={"work": usage(0.4), "retries": usage(0.1)},
        )  # fmt: skip
        self.state.tasks.put(task)

    def change(self, name: str, kind: str, title: str, *slugs: str, **more: Any) -> None:
        authors = [
            {"task": slug, "title": f"tests/test_a.py::{slug}", "agent": f"tmr-r-{slug}", "agent_kind": KINDS.get(slug, "claude"), "commits": [f"{slug}-commit"], "claimed_commit": "", "verdict": "confirmed", "runs": "3/3"}
            for slug in slugs
        ]  # fmt: skip
        self.changes["changes"].append(
            {"key": name, "body": "", "commit": "", "parent": "", "needs": [], "author": "", "authored": "", "committed": "", "id": name, "kind": kind, "title": title, "made_by": authors, "tasks": list(slugs), "flagged": False, "findings": [],
             "paths": ["tests/test_a.py"], "fixed_tests": [], "size": {"files": 1, "added": 3, "removed": 1}, **more}
        )  # fmt: skip

    def commit(self, kind: str, *names: str, fixed_tests: tuple[str, ...] = ()) -> None:
        number = len(self.made["commits"])
        row = {
            "commit": f"{number:04x}" * 10,
            "tree": "t",
            "kind": kind,
            "subject": "s",
            "changes": list(names),
            "fixed_tests": list(fixed_tests),
        }
        self.made["commits"].append(row)  # fmt: skip

    def aside(self, name: str, why: str, reason: str, title: str = "T", **more: Any) -> None:
        row = {
            "change": name,
            "key": name,
            "title": title,
            "kind": "fix",
            "tasks": ["t1"],
            "why": why,
            "reason": reason,
            "others": [],
            "proof": None,
        }
        self.made["excluded"].append({**row, **more})  # fmt: skip

    def write(self, prose: str = "") -> str:
        self.made["summary"] = {"text": prose, "agent": "tmr-r-prose", "head": self.made["head"]}
        for name, data in (("changes", self.changes), ("integration", self.made)):
            Path(self.run.path, f"{name}.json").write_text(json.dumps(data))
        return Path(write_pull_request(self.run, self.state, self.plan)).read_text()


def usage(cost: float) -> AgentUsage:
    return AgentUsage(input_tokens=1000, output_tokens=100, cost_usd=cost)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def fill_small_run(world: World) -> World:
    """Add two fixes, a flagged edit, two test edits, one excluded fix and a refuted task."""
    proof = {
        "fixes": ["t1-commit"], "before": "fail", "before_why": "AssertionError: 1 != 2", "without": "fail",
        "without_why": "AssertionError: 1 != 2", "is_needed": True, "is_same_reason": True, "reason": "",
    }  # fmt: skip
    world.task("t1", "fixed", "confirmed", proofs=[proof])
    world.task("t2", "fixed", "confirmed")
    world.task("t3", "refuted", "refuted")
    world.task("t4", "blocked", None)
    world.change("aaaaa1", "fix", "[FIX_IMPL] Reject empty names instead of crashing", "t1", "t2")
    world.change("aaaaa2", "fix", "[FIX_IMPL] Sort the output of list", "t2")
    world.change("bbbbb1", "test", "[ADD_TEST] Names with blanks", "t1")
    finding = {
        "rule": "guard",
        "level": "note",
        "path": "tests/test_a.py",
        "line": 12,
        "what": "an assertion is weaker: == became in",
    }
    world.change("bbbbb2", "test", "[FIX_TEST] Wait for the prompt", "t2", flagged=True, findings=[finding])
    world.commit("test", "bbbbb1")
    world.commit("flagged", "bbbbb2")
    world.commit("fix", "aaaaa1", fixed_tests=("tests/test_a.py::test_x", "tests/test_a.py::test_y"))
    world.commit("fix", "aaaaa2")
    world.aside(
        "ccccc1", "breaks", "it is green alone, and turns tests/test_b.py::test_z red with aaaaa1", "[FIX_IMPL] Cache the list",
        proof={"test": "tests/test_b.py::test_z", "before": "pass", "after": "fail", "why": "KeyError: 'name'", "commit": "t"},
    )  # fmt: skip
    world.changes["excluded_groups"] = [
        {"group": "x", "reason": "it failed 3 of 3 times: KeyError", "count": 1, "tasks": ["t3"]}
    ]
    world.changes["escalations"] = [
        {"kind": "bug", "title": "The server drops long names", "detail": "", "locations": [{"path": "src/s.py", "line": 3}], "count": 2, "tasks": ["t1", "t2"]}
    ]  # fmt: skip
    world.made["checks"] = [
        {"name": "lint", "command": "", "ok": False, "was_ok": True, "output": "E501\nFound 1 error."}
    ]
    world.made["still_failing"] = ["tests/test_old.py::test_dusty"]
    world.made["advised_orders"] = [
        {"changes": ["aaaaa1", "aaaaa2"], "reason": "Names are seen by all.", "agent": "tmr-r-order", "keys": ["1", "2"]}
    ]  # fmt: skip
    return world


def test_the_text_begins_with_the_result_and_describes_each_fix_completely(world: World) -> None:
    text = fill_small_run(world).write("It went well.\n\nLook at names.")
    assert text.startswith("No regressions. 2 tests fixed, 1 still failing, 0 flaky.\n\n")
    assert (
        "The branch has 2 fixes and 2 test or doc edits. **1 edit needs your review.** **1 change is excluded**" in text
    )
    fix = text[text.index("1. **Reject empty names") : text.index("2. **")]
    assert "`aaaaa1` in `0002000200`" in fix and "fixes `tests/test_a.py::test_x`" in fix
    assert "made by `claude`, `codex` for tasks `t1`, `t2`; mngr re-ran the test, and 3 of 3 runs passed" in fix
    assert (
        "before: fail; without the fix: fail for the same reason; with it: pass. It failed with `AssertionError: 1 != 2`"
        in fix
    )
    assert (
        "the evidence for `aaaaa2` is equally good; the agent `tmr-r-order` ranks this fix first: Names are seen" in fix
    )
    excluded = text[text.index("## Excluded changes (1)") :]
    assert (
        "`tests/test_b.py::test_z` pass → fail: `KeyError: 'name'`" in excluded
        and "integrate r --with CHANGE" in excluded
    )
    for expected in (
        "`tests/test_a.py:12`: an assertion is weaker", "- 1 task: it failed 3 of 3 times: KeyError",
        "> Summary by the agent `tmr-r-prose`: It went well.", "**bug** (2 tasks): The server drops long names",
        "The lint check fails, and passed before this run: `Found 1 error.`", "work $1.60, retries $0.40",
    ):  # fmt: skip
        assert expected in text
    assert read_title(f"{world.run.path}/PR.md") == "2 fixes and 2 test edits: 2 tests fixed, 1 still failing (r)"
    assert writes_same_text(world, text)


def writes_same_text(world: World, text: str) -> bool:
    return world.write("It went well.\n\nLook at names.") == text


def test_the_text_of_three_hundred_hostile_tasks_fits_and_names_every_fix_and_reason(world: World) -> None:
    for number in range(300):
        slug = f"t{number}-{EVIL[:20]}"
        world.task(slug, "fixed" if number % 3 else "blocked", "confirmed" if number % 3 else None)
        world.change(f"{number:06x}", "fix", f"{number} {EVIL}", slug, flagged=number % 9 == 1,
                     findings=[{"rule": EVIL, "level": "note", "path": EVIL, "line": 3, "what": EVIL}] * 4)  # fmt: skip
        world.change(f"{number + 1000:06x}", "test", EVIL, slug)
        if number % 3:
            world.commit("fix", f"{number:06x}", fixed_tests=(EVIL, f"tests/test_a.py::test_{number}"))
        else:
            proof = {"test": EVIL, "before": "pass", "after": "fail", "why": EVIL, "commit": "t"}
            world.aside(f"{number:06x}", "conflict", f"reason {number} is {EVIL}", EVIL, proof=proof)
        excluded_group = {"group": EVIL, "reason": f"{number} {EVIL}", "count": 1, "tasks": [slug]}
        world.changes["excluded_groups"].append(excluded_group)
        world.changes["escalations"].append({"kind": EVIL, "title": EVIL, "detail": EVIL, "locations": [{"path": EVIL, "line": 3}], "count": 1, "tasks": [slug]})  # fmt: skip
    world.commit("test", *(f"{number + 1000:06x}" for number in range(300)))
    world.made.update(
        verdict="red",
        regressions=[{"test": EVIL, "why": EVIL}] * 99,
        flaky=[EVIL] * 99,
    )
    world.made["checks"] = [{"name": EVIL, "command": EVIL, "ok": False, "was_ok": True, "output": EVIL}]
    text = world.write(EVIL + "\n\n" + EVIL * 99)
    assert len(text) <= 60_000
    for number in range(300):
        if number % 3:
            assert re.search(rf"^\d+\. \*\*{number} ping .*`{number:06x}` in `", text, re.M), number
        else:
            assert re.search(rf"^- .*`{number:06x}`.*: reason {number} is ping", text, re.M), number
    check_harmless(text)
    check_structure(text)


def check_harmless(text: str) -> None:
    """Check that outside of code there are only plain words."""
    outside = re.sub(r"^ *```(?:sh|text)\n.*?\n *```$", "", text, flags=re.S | re.M)
    assert all(line.count("`") % 2 == 0 for line in outside.split("\n"))
    outside = re.sub(r"`[^`\n]*`", "", outside)
    outside = re.sub(r"</?(?:details|summary|code)>|^<!-- title: [^<>]* -->$", "", outside, flags=re.M)
    assert not re.search(r"[@<\[\]\\~^&\x1b\u202e]|://|www\.|GH-|!\d|\$[^\d]|^/|#\d", outside, re.M)
    assert not re.search(r"^\s*(?:```|~~~)", outside, re.M)


def check_structure(text: str) -> None:
    assert text.count("<details>") == text.count("</details>") == len(re.findall(r"^</details>$", text, re.M))
    assert re.search(r"^\| tasks \|.*\|\n\|:--(\|--:)+\|\n\| fixed \|", text, re.M)
    for table in re.findall(r"(?:^\|.*\|$\n)+", text, re.M):
        assert len({line.count("|") for line in table.strip().split("\n")}) == 1


def test_items_that_do_not_fit_are_counted(world: World) -> None:
    world.task("t1", "fixed", "confirmed")
    for number in range(900):
        world.change(f"{number:06x}", "fix", f"修理{EVIL}", "t1")
        world.commit("fix", f"{number:06x}")
        world.aside(f"{number + 5000:06x}", "conflict", EVIL)
    text = world.write()
    assert 5_000 < len(text) <= 60_000 and re.search(r"^and \d+ more fixes$", text, re.M)
    check_harmless(text)


def test_a_run_without_changes_has_nothing_to_merge(world: World) -> None:
    world.task("t1", "failed", None)
    world.made["verdict"] = "empty"
    text = world.write()
    assert text.startswith("No regressions. 0 tests fixed, 0 still failing, 0 flaky.\n\nThere is nothing to merge.\n")
    assert "\n\n| tasks | no receipt | all |" in text and "## Fixes" not in text
    assert read_title(f"{world.run.path}/PR.md") == "Nothing to merge: 0 tests fixed, 0 still failing (r)"


def test_the_first_line_counts_regressions_fixed_failing_and_flaky_tests(world: World) -> None:
    world.task("t1", "fixed", "confirmed")
    world.change("bbbbb1", "test", "[FIX_TEST] Wait", "t1")
    world.commit("test", "bbbbb1")
    world.made |= {"still_failing": ["tests/test_a.py::test_z"], "flaky": ["x"], "open": 2}
    world.made["tests"] = {"all": 1200, "pass": 1195, "skip": 3, "green": ["tests/test_a.py::test_x"]}
    top = world.write().split("\n")
    assert top[0] == "No regressions. 1 test fixed, 1 still failing, 1 flaky."
    assert top[2] == (
        "1,195 of 1,200 tests pass on `mngr/r/integrated` (`hhhhhhhhhh`), 3 skipped. The branch has 1 test or doc edit."
    )
    assert "- 2 tasks are not finished, so this result is not final." in top
    world.made |= {"still_failing": [], "flaky": [], "tests": {"all": 2, "pass": 2, "skip": 0, "green": []}}
    assert world.write().split("\n")[2].startswith("All 2 tests pass on")


def test_a_regression_is_counted_first_and_named_with_its_reason(world: World) -> None:
    world.made |= {"verdict": "red", "regressions": [{"test": "tests/test_b.py::test_z", "why": "KeyError: 'name'"}]}
    text = world.write()
    assert text.startswith("1 regression. 0 tests fixed, 0 still failing, 0 flaky.\n")
    assert "mngr did not move `mngr/r/integrated`, because of the regressions." in text
    assert "- `tests/test_b.py::test_z`: `KeyError: 'name'`\n" in text[text.index("## Regressions (1)") :]


def test_tests_that_still_fail_are_named_with_their_reason_and_below_no_check_mark(world: World) -> None:
    world.made |= {
        "still_failing": ["tests/a.py::t"],
        "failure_reasons": {"tests/a.py::t": "KeyError: 'x'"},
        "flaky": ["tests/a.py::u"],
    }
    world.made["checks"] = [{"name": "tutorial", "command": "", "ok": True, "was_ok": True, "output": ""}]
    text = world.write()
    assert "## Still failing (1)\n" in text and "- `tests/a.py::t`: `KeyError: 'x'`\n" in text
    assert "## Flaky (1)\n" in text and "- `tests/a.py::u`\n" in text
    assert "The tutorial check passes." in text and "✅" not in text


def test_each_change_names_the_agent_that_made_it_and_not_the_agent_of_the_plan(world: World) -> None:
    world.task("t1", "fixed", "confirmed")
    world.task("t2", "fixed", "confirmed")
    for name, kind, slug in (("aaaaa1", "fix", "t1"), ("bbbbb1", "flagged", "t2"), ("ccccc1", "test", "t2")):
        world.change(name, kind, f"Change {name}", slug, flagged=kind == "flagged")
        world.commit(kind, name)
    world.plan = world.plan.replace(agent="mechanic")
    text = world.write()
    for name, agent in (("aaaaa1", "claude"), ("bbbbb1", "codex"), ("ccccc1", "codex")):
        assert f"made by `{agent}` for task" in text[text.index(f"`{name}`") :].partition("mngr re-ran")[0]
    assert "made by `mechanic`" not in text


def test_the_summary_counts_the_agents_that_did_the_work(world: World) -> None:
    world.task("t1", "fixed", "confirmed", agent_kind="codex")
    world.task("t2", "blocked", None)
    assert "- Agents: 1 `claude`, 1 `codex`, 42m from" in world.write()


def test_the_summary_says_how_clean_rooms_were_isolated(world: World) -> None:
    world.task("t1", "fixed", "confirmed", isolation="bubblewrap 0.8.0, seccomp; no network")
    text = world.write()
    assert "in clean rooms (fresh workspaces) isolated by bubblewrap 0.8.0, seccomp; no network." in text
    assert "sandbox" not in text


def test_a_missing_sandbox_is_the_first_caveat(world: World) -> None:
    world.task("t1", "fixed", "confirmed", isolation="none: --isolation off")
    world.made["checks"] = [{"name": "lint", "command": "", "ok": False, "was_ok": True, "output": "E501"}]
    lines = world.write().split("\n")
    first, second = lines[lines.index("**Caveats**") + 2 :][:2]
    assert first.startswith("- mngr ran tests without a sandbox: `--isolation` off.") and "lint" in second
    assert lines.index("**Caveats**") == 4


def test_evidence_is_an_excerpt_and_never_only_a_path(world: World) -> None:
    transcript = Path(world.run.task_path("t1", "receipt", "test_x", "transcript.txt"))
    transcript.parent.mkdir(parents=True)
    transcript.write_text(f"$ pantry list\n  ITEM   AMOUNT\n{EVIL}\n```\n</details>\n? 0\n")
    text = fill_small_run(world).write()
    fix = text[text.index("1. **Reject empty names") : text.index("2. **")]
    excerpt = fix.partition("```text\n")[2].partition("\n     ```")[0]
    assert "     $ pantry list\n       ITEM   AMOUNT\n" in excerpt and excerpt.endswith("? 0")
    assert "`" not in excerpt and "\x1b" not in excerpt and "</details>" not in excerpt
    assert "receipt.json" not in text and world.run.path not in text and ".mngr/runs" not in text
    check_harmless(text)


def test_tasks_link_to_an_uploaded_report(world: World) -> None:
    world.made["report_url"] = "https://ci.example/42/report"
    text = fill_small_run(world).write()
    assert "for tasks [`t1`](https://ci.example/42/report/tasks/t1.html), [`t2`](https://ci" in text
    assert "The whole report: <https://ci.example/42/report>\n" in text


def test_questions_to_people_appear_once_and_without_program_output(world: World) -> None:
    world.task("t1", "blocked", None)
    title = "the program ends with ValueError in src/a.py:6"
    detail = f"to_contain: {title}.\n\n```\n$ shop add 2.5\nTraceback\n  File /home/x/a.py\n```"
    world.changes["escalations"] = [
        {"kind": "SHARED_CAUSE", "title": title, "detail": detail, "locations": [], "count": 1, "tasks": ["t1"]},
        {"kind": "AMBIGUOUS", "title": "Which?", "detail": "The block says *two*.", "locations": [], "count": 1, "tasks": ["t1"]},
    ]  # fmt: skip
    world.changes["unrepaired_root_causes"] = [
        {"root_cause": "c12", "tests": ["a", "b"], "why": title},
        {"root_cause": "c34", "tests": ["c"], "why": "no"},
    ]
    world.changes["excluded_groups"] = [{"group": "c12", "reason": title, "count": 1, "tasks": ["t1"]}]
    text = world.write()
    assert text.count("ValueError") == 1 and "Traceback" not in text and "/home/x" not in text
    assert (
        "- **Shared root cause**: the program ends with ValueError in `src/a.py:6` · root cause `c12` of 2 failing tests · `$ shop add 2.5`\n"
        in text
    )
    assert "- **Ambiguous**: Which? · test `tests/test_a.py::t1` · The block says `*two*`\n" in text
    assert "- **Not repaired**: root cause `c34` of 1 failing test: no\n" in text
    assert "- 1 task: the agent asks a question, see above · `t1`\n" in text


def test_equal_findings_appear_once_with_their_old_and_new_lines(world: World) -> None:
    world.task("t1", "fixed", "confirmed")
    unchanged = {
        "rule": "guard",
        "level": "note",
        "path": "tests/a.py",
        "what": "made in another way",
        "old": "ok()",
        "new": "ok()",
    }
    changed = {**unchanged, "line": 9, "what": "another value", "new": "ok(1)"}
    findings = [
        {**unchanged, "line": 3},
        {**unchanged, "line": 3},
        {**unchanged, "line": 4},
        changed,
        {**changed, "new": ""},
    ]
    world.change("bbbbb2", "test", "Wait", "t1", flagged=True, findings=findings)
    world.commit("flagged", "bbbbb2")
    text = world.write()
    assert "  - `tests/a.py:3`, `tests/a.py:4`: made in another way\n" in text
    assert "  - `tests/a.py:9`: another value: `ok()` → `ok(1)`\n  - `tests/a.py:9`: another value: `ok()`\n" in text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("`a b` reads `c-d` now", "`a b` reads `c-d` now"),
        ("it says (`x y`), or `z`.", "it says (`x y`), or `z`."),
        ("'how about rice?', he said", "'how about rice?', he said"),
        ("`a``b` @c`d` e` f", "`a` `b` `@c` `d` e' f"),
        ("` ` `", "'"),
    ],
)
def test_marked_code_and_suspicious_words_are_formatted_as_code(line: str, shown: str) -> None:
    assert format_text(line) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("it prints 'pantry add rice' twice", "it prints 'pantry add…'"),
        ("it prints `pantry add rice` twice", "it prints `pantry add…`"),
        ("it prints 'rice' and then: don't", "it prints 'rice' and t…"),
        ("it doesn't print the last row", "it doesn't print the l…"),
        ("it prints these words: 'a b' now", "it prints these words:…"),
    ],
)
def test_a_shortened_text_does_not_end_inside_a_quote(line: str, shown: str) -> None:
    assert format_text(line, 23) == shown


def test_secrets_are_redacted() -> None:
    key = "gh" + "p_" + "a" * 30
    assert key not in format_text(f"it said {key}") and key not in format_code(key)


def test_a_pull_request_text_needs_an_integration(world: World) -> None:
    with pytest.raises(NotFound, match=r"integration\.json"):
        write_pull_request(world.run, world.state, world.plan)
