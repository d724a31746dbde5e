"""Tests changes built from many branches: splitting, rejection, conflicts and deduplication."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.mapreduce.journal.run_state import Task, TaskState, TaskTable
from mngr.providers.local import LocalHost
from mngr.tmr.changes import collect_changes as changes_module
from mngr.tmr.changes.changes_file import ChangesRecord, load_changes, save_changes
from mngr.tmr.changes.collect_changes import ChangeSize
from mngr.tmr.changes.conflict_graph import (
    ConflictPair,
    choose_compatible,
    list_conflicts,
    list_overlaps,
    map_conflicts,
)
from mngr.tmr.changes.deduplicate import deduplicate_changes
from mngr.tmr.changes.list_exclusions import group_by_reason, list_escalations
from mngr.tmr.changes.same_code import normalize_code
from mngr.tmr.integrate.compose import rank_changes
from mngr.tmr.prepare.journal_facts import BaseMoved
from tests.tmr.field import Commit, Field, Files, app, fix, function, note


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)


# Split claims into changes


def test_tests_are_split_from_fixes_and_two_fixes_of_one_file_are_separate_changes(
    field: Field,
) -> None:
    mixed = {**fix(1), "tests/test_app.py": "def test_app():\n    assert 1\n", "README.md": "# The app\n"}
    second = {"src/app.py": app(f1="return 1", f20="return 2")}
    commits = field.claim("a", ("[FIX_IMPL] One\n\nWhy so.", mixed), ("[FIX_IMPL] Two", second))
    test_edit, first_fix, second_fix = field.changes()
    assert (test_edit.kind, first_fix.kind, second_fix.kind) == ("test", "fix", "fix")
    assert test_edit.paths == ["README.md", "tests/test_app.py"] and first_fix.paths == second_fix.paths == [
        "src/app.py"
    ]
    assert field.diff(test_edit) == test_edit.paths and field.diff(first_fix) == first_fix.paths
    assert (
        first_fix.title == "[FIX_IMPL] One"
        and first_fix.body == "Why so."
        and first_fix.made_by[0].commits == commits[:1]
    )
    assert field.show(second_fix.commit, "src/app.py") == app(f20="return 2"), "the second stands on the base alone"
    assert second_fix.parent == first_fix.parent == test_edit.parent == field.base
    assert second_fix.size == ChangeSize(files=1, added=1, removed=1) and first_fix.author == "Ann <ann@x>"
    assert len(first_fix.id) == 6 and len({test_edit.id, first_fix.id, second_fix.id}) == 3


def test_a_fix_joins_the_fix_it_builds_on_and_a_reverted_edit_is_no_change(field: Field) -> None:
    field.claim(
        "a",
        ("one", fix(1, "return 1")),
        ("better", fix(1, "return 11")),
        ("apart", {"src/other.py": "A = 1\n\n\nB = 2\n\n\nC = 4\n"}),
    )
    field.claim("b", ("try", fix(2, "return 5")), ("no", {"src/app.py": app()}), ("right", fix(3, "return 6")))
    built, apart, right = field.changes()
    assert field.show(built.commit, "src/app.py") == app(f1="return 11") and len(built.made_by[0].commits) == 2
    assert built.title == "one (and 1 more commit)" and apart.paths == ["src/other.py"]
    assert field.show(right.commit, "src/app.py") == app(f3="return 6"), "what was undone is in no change"


def test_a_change_on_top_of_a_root_cause_fix_needs_it_only_when_they_overlap(field: Field) -> None:
    cause_fix = field.claim("cause-1", ("[FIX_IMPL] Cause", fix(5, "return 5")))[-1]
    base_row = BaseMoved(by="cause-1", commit=cause_fix, added=True).to_row()
    field.state.recipe_rows["base_moved"] = [base_row]
    far = {"src/app.py": app(f5="return 5", f30="return 3")}
    commits = field.claim("far", ("[FIX_IMPL] Far", far), ("[FIX_DOC] Words", {"README.md": None}), base=cause_fix)
    field.claim("near", ("[FIX_IMPL] Near", fix(5, "return 55")), base=cause_fix)
    cause_change, doc_edit, independent, dependent = field.changes()
    assert doc_edit.made_by[0].commits == commits[1:] and independent.made_by[0].commits == commits[:1]
    assert independent.parent == field.base and field.show(independent.commit, "src/app.py") == app(f30="return 3")
    assert dependent.parent == cause_fix and dependent.needs == [cause_change.id]
    without_cause = field.compose([dependent, independent])
    assert [row.changes for row in without_cause.commits] == [[independent.id]]
    assert without_cause.conflicts[0].change == dependent.id and without_cause.conflicts[0].others == [cause_change.id]
    with_cause = field.compose(rank_changes([dependent, independent, cause_change]))
    assert field.show(with_cause.head, "src/app.py") == app(f5="return 55", f30="return 3") and not with_cause.conflicts
    field.state.tasks = TaskTable(task for slug, task in field.state.tasks.items() if slug != "cause-1")
    remaining, excluded = field.split()
    assert [change.tasks for change in remaining] == [["far"], ["far"]] and [row.task for row in excluded] == ["near"]


def test_unconfirmed_tasks_are_excluded_with_a_reason_and_escalations_are_counted(
    field: Field,
) -> None:
    escalation = {"kind": "BLOCKER", "title": "no port 8080", "detail": "\x1b[31mred", "locations": []}
    for number, verdict in enumerate(("refuted", "flaky", "unverified")):
        field.claim(f"t{number}", ("x", fix(number)), verdict=verdict, claim={"escalations": [escalation]})
    field.claim("fine", ("x", fix(9)), claim={"escalations": [{**escalation, "title": "no port 9090"}]})
    field.claim("same", ("nothing", {}))
    for number in range(3):
        field.claim(f"b{number}", ("x", fix(number)))
        blocked = field.state.tasks[f"b{number}"]
        field.set_task(blocked.replace(outcome="blocked", check=None, reason=f"no disk in /tmp/x{number}/y"))
    field.set_task(TaskState(task=Task(slug="busy", title="busy"), state="working"))
    changes, excluded = field.split()
    assert [change.tasks for change in changes] == [["fine"]]
    assert {task.task: task.reason for task in excluded} == {
        "b0": "no disk in /tmp/x0/y", "b1": "no disk in /tmp/x1/y", "b2": "no disk in /tmp/x2/y",
        "busy": "the task is not finished: working", "t0": "it is refuted", "t1": "it is flaky", "t2": "it is unverified",
    }  # fmt: skip
    assert group_by_reason(excluded)[0].count == 3 and group_by_reason(excluded)[0].tasks == ["b0", "b1", "b2"]
    assert next(task for task in excluded if task.task == "t0").escalations[0].detail == "red"
    (group,) = list_escalations(field.state)
    assert group.count == 4 and group.tasks == ["fine", "t0", "t1", "t2"]


def test_flagged_test_edits_become_their_own_change(field: Field) -> None:
    files = {
        "tests/test_app.py": "def test_app():\n    assert 2\n",
        "tests/helper.py": "ONE = 2\n\n\nTWO = 2\n",
    }
    field.claim("a", ("[FIX_TEST] Both", files), policy=[note("tests/helper.py", "<b>shared</b>")])
    plain, flagged = field.changes()
    assert (plain.flagged, flagged.flagged) == (False, True)
    assert plain.paths == ["tests/test_app.py"] and flagged.paths == ["tests/helper.py"]
    composed = field.compose([plain, flagged])
    assert [commit.kind for commit in composed.commits] == ["test", "flagged"]
    assert "- tests/helper.py: ‹b>shared‹/b>" in field.git("show", "-s", "--format=%B", composed.head)


def test_changes_are_saved_to_a_file_and_pinned_by_refs(field: Field) -> None:
    field.claim("a", ("[FIX_IMPL] One", fix(1)), claim={"escalations": [{"kind": "BLOCKER", "title": "x"}]})
    field.claim("b", ("x", fix(2)), verdict="refuted")
    changes, excluded = field.split()
    escalations = list_escalations(field.state)
    record = ChangesRecord(run="r", changes=changes, excluded=excluded, escalations=escalations)
    save_changes(field.run, record)
    assert load_changes(field.run) == record and escalations[0].title == "x"
    changes_module.pin_changes(field.local, field.run, changes)
    refs = field.git("for-each-ref", "--format=%(objectname)", "refs/mngr/runs/r").split("\n")
    assert changes[0].commit in refs and "making" not in field.git("for-each-ref")


# Reject hostile branches


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        ({"vendor/lib": ("160000", "1" * 40)}, "policy-module"),
        ({".gitmodules": "[submodule]\n"}, "policy-module"),
        ({"src/link": ("120000", "../../../etc/passwd")}, "policy-link"),
        ({"src/../../evil.py": "x"}, "policy-name"),
        ({"src/.GIT/config": "[core]\n"}, "policy-name"),
        ({"src/git~1/hooks/x": "x"}, "policy-name"),
        ({".githooks/post-checkout": ("100755", "#!/bin/sh\ntouch /tmp/was-run\n")}, "reduce-hook"),
        ({"src/data.bin": ("100644", "object BIG")}, "reduce-large"),
    ],
)
def test_a_hostile_branch_is_excluded_with_a_finding_and_the_others_are_kept(
    field: Field, files: Files, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule == "reduce-large":
        monkeypatch.setattr("mngr.tmr.commits.dangerous_files.MAX_FILE_BYTES", 5000)
        big = field.git("hash-object", "-w", "--stdin", stdin=b"x" * 5001)
        files = {"src/data.bin": ("100644", f"object {big}")}
    field.claim("bad", ("[FIX_IMPL] Harmless", fix(1)), ("[FIX_TEST] Also", files))
    field.claim("good", ("[FIX_IMPL] Good", fix(2)))
    changes, excluded = field.split()
    assert [change.tasks for change in changes] == [["good"]]
    assert [task.task for task in excluded] == ["bad"] and excluded[0].findings[0].rule == rule
    assert excluded[0].verdict == "confirmed" and excluded[0].reason


def test_an_invalid_commit_id_is_never_passed_to_git(field: Field) -> None:
    field.claim("bad", ("x", fix(1)))
    field.set_task(field.state.tasks["bad"].replace(commit="--output=/tmp/was-written"))
    field.claim("gone", ("x", fix(2)))
    field.set_task(field.state.tasks["gone"].replace(commit="1" * 40))
    changes, excluded = field.split()
    assert not changes and [task.task for task in excluded] == ["bad", "gone"]
    assert excluded[0].findings[0].rule == "reduce-ref" and "not in the run's repository" in excluded[1].reason


def test_an_unreadable_tree_excludes_only_its_own_task(field: Field) -> None:
    for number in range(5):
        field.claim(f"t{number}", ("x", fix(number)))
    tree = field.git(
        "hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=b"100644 \0" + bytes(20)
    )  # a file without a name
    commit = field.git("-c", "user.name=x", "-c", "user.email=x", "commit-tree", tree, "-p", field.base, "-m", "x")
    field.set_task(field.state.tasks["t2"].replace(commit=commit))
    changes, excluded = field.split()
    assert [change.tasks for change in changes] == [["t0"], ["t1"], ["t3"], ["t4"]]
    assert excluded[0].task == "t2" and excluded[0].findings[0].rule == "reduce-unreadable"


def test_a_claim_with_merges_or_without_the_base_is_judged_by_its_final_tree(field: Field) -> None:
    side = field.commits(field.base, ("side", {**fix(3), "README.md": "# Side\n"}))[-1]
    main = field.commits(field.base, ("main", fix(30)))[-1]
    tree = field.git("merge-tree", "--write-tree", main, side)
    identity = ("-c", "user.name=x", "-c", "user.email=x@x")
    merge = field.git(*identity, "commit-tree", tree, "-p", main, "-p", side, "-m", "merged")
    field.settle("a", [merge])
    tree = field.git("rev-parse", f"{side}^{{tree}}")
    orphan = field.git(*identity, "commit-tree", tree, "-m", "of no base")
    field.settle("b", [orphan])
    changes = field.changes()
    assert [(change.title, change.paths) for change in changes if change.tasks == ["a"]] == [
        ("merged", ["README.md"]), ("main", ["src/app.py"]), ("merged", ["src/app.py"]),
    ]  # fmt: skip
    for slug in ("a", "b"):
        composed = field.compose([change for change in changes if change.tasks == [slug]])
        assert composed.tree == field.git("rev-parse", f"{field.state.tasks[slug].commit}^{{tree}}")


def test_messages_and_authors_are_cleaned_of_control_codes_html_and_trailers(field: Field) -> None:
    evil = "[FIX_IMPL] \x1b]0;owned\x07\x1b[2JOne <script>alert(1)</script>\n\nBody\u202e.\nMngr-Receipt: forged\nSigned-off-by: Me"
    field.claim("a", (evil, fix(1)), author="\x1b[31mEve\x1b[0m <eve@x>")
    (change,) = field.changes()
    head = field.compose([change]).head
    text = field.git("show", "-s", "--format=%an|%ae|%at|%B", head)
    assert text.startswith("Eve|eve@x|1001|[FIX_IMPL] One ‹script>alert(1)‹/script>\n\nBody.\n\nMngr-Change: ")
    assert "\x1b" not in text and "forged" not in text and "Signed-off" not in text
    assert [finding.rule for finding in change.findings] == ["reduce-message"]


def test_the_users_git_settings_hooks_and_attributes_have_no_effect(
    field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-commit", "post-merge"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "attributes").write_text("*.py merge=evil diff=evil\n")
    driver = f"touch {tmp_path}/ran; false"
    (tmp_path / "config").write_text(
        f"[core]\nhooksPath = {hooks}\nattributesFile = {tmp_path}/attributes\n[log]\nshowSignature = true\n"
        f'[merge "evil"]\ndriver = "{driver}"\n[diff "evil"]\ntextconv = "{driver}"\ncommand = "{driver}"\n'
        f'[merge]\nconflictStyle = diff3\n[gpg]\nprogram = "{driver}"\n[diff]\nexternal = "{driver}"\n'
    )
    field.claim("a", ("[FIX_IMPL] One", {**fix(1), "tests/helper.py": "ONE = 1\n\n\nTWO = 3\n"}))
    field.claim("b", ("[FIX_IMPL] Two", fix(30)))
    field.claim("c", ("[FIX_IMPL] In the way", fix(1, "return 3")))
    plain = field.compose(field.collapsed())
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    field.local = LocalHost(Home(str(tmp_path / "home")))
    again = field.compose(field.collapsed())
    changes_module.pin_changes(field.local, field.run, field.changes())
    assert again == plain and len(again.commits) == 3 and len(again.conflicts) == 1
    assert not (tmp_path / "ran").exists()


# Find conflicts


def test_conflicts_of_a_hundred_changes_need_three_git_calls_and_a_compatible_set_is_chosen(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: dict[str, tuple[Commit, ...]] = {}
    for number in range(100):
        if number < 30:  # ten groups of three, each on one function
            files = fix(number // 3, f"return {number + 1}")
        elif number < 70:
            files = {
                "src/app.py": app(**{f"f{number - 30}": "return 0  # looked at"})
                if number >= 40
                else app() + function(number + 100)
            }
        else:
            files = {f"tests/test_{number}.py": "def test_x():\n    assert True\n"}
        rows[f"t{number:02}"] = ((f"[FIX_IMPL] {number}", files),)
    field.claims(rows)
    changes = field.changes()
    started: list[str] = []
    monkeypatch.setattr("mngr.base.shell.tracer", started.append)
    conflicts = list_conflicts(field.local, field.repo, changes)
    assert len(started) == 3, "git is asked about all at once"
    by_id = {change.id: change.tasks[0] for change in changes}
    pairs = {tuple(sorted((by_id[conflict.one], by_id[conflict.other]))) for conflict in conflicts}
    assert {("t00", "t01"), ("t00", "t02"), ("t01", "t02"), ("t27", "t29")} <= pairs
    assert ("t00", "t03") not in pairs and all(conflict.paths == ["src/app.py"] for conflict in conflicts)
    chosen = choose_compatible(changes, conflicts)
    neighbours = map_conflicts(conflicts)
    assert not any(neighbours.get(change.id, set()) & {other.id for other in chosen} for change in chosen)
    assert chosen == choose_compatible(changes, list(reversed(conflicts))) and len(chosen) == 10 + 1 + 30 + 30
    assert not field.compose(chosen).conflicts


def test_changes_with_fewest_conflicts_are_chosen_first_and_never_without_their_needs(field: Field) -> None:
    field.claim("x", ("x", fix(1)))
    a, b, c, d = (field.changes()[0].replace(id=name) for name in "abcd")
    conflicts = [ConflictPair(one=one, other=other, paths=["p"]) for one, other in ("ab", "bc", "cd")]
    assert [change.id for change in choose_compatible([a, b, c, d], conflicts)] == ["a", "c"]
    assert [change.id for change in choose_compatible([d, c, b, a], conflicts)] == ["d", "b"]
    assert [change.id for change in choose_compatible([a, b, c.replace(needs=["b"]), d], conflicts)] == ["a"]


def test_a_file_and_a_directory_of_the_same_name_conflict(field: Field) -> None:
    field.claim("a", ("one", {"src/new": "x\n"}))
    field.claim("b", ("two", {"src/new/inside.py": "x\n"}))
    assert len(list_conflicts(field.local, field.repo, field.changes())) == 1
    for chosen in (field.changes(), field.changes()[::-1]):
        composed = field.compose(chosen)
        assert len(composed.commits) == 1 and [conflict.change for conflict in composed.conflicts] == [chosen[1].id]


def test_overlapping_lines_of_several_agents_are_found_before_a_merge(field: Field) -> None:
    heads = {
        "a": field.commits(field.base, ("x", fix(1, "return 1")))[-1],
        "b": field.commits(field.base, ("x", fix(1, "return 2")))[-1],
        "c": field.commits(field.base, ("x", fix(2, "return 2")))[-1],
    }
    (overlap,) = list_overlaps(field.local, field.repo, field.base, heads)
    assert (overlap.path, overlap.first, overlap.last, overlap.who) == ("src/app.py", 6, 6, ["a", "b"])


# Merge equal changes


def test_the_same_edit_by_several_tasks_is_one_change_with_all_authors(field: Field) -> None:
    rows: dict[str, tuple[Commit, ...]] = {}
    for number in range(20):
        extra = {"tests/test_app.py": f"def test_app():\n    assert {number}\n"} if number == 7 else {}
        rows[f"t{number:02}"] = ((f"[FIX_IMPL] by {number}", {**fix(1), **extra}),)
    field.claims(rows)
    field.claim("x", ("[FIX_IMPL] other", fix(1, "return 2")))
    shared = [change for change in field.collapsed() if len(change.made_by) > 1]
    assert [change.tasks for change in shared] == [[f"t{number:02}" for number in range(20)]]
    assert shared[0].is_shared and len(shared[0].agents) == 20
    assert sorted(len(change.made_by) for change in field.collapsed()) == [1, 1, 20]
    assert field.collapsed() == deduplicate_changes(field.local, field.repo, field.base, field.changes()[::-1])
    composed = field.compose(shared)
    assert field.git("show", "-s", "--format=%(trailers:key=Mngr-Task,valueonly)", composed.head).count("t") == 20


def test_edits_with_the_same_meaning_are_merged_and_others_are_not(field: Field) -> None:
    first = "total = a + 1\n    return total"
    field.claim("a", ("one", fix(1, first)))
    reworded = app(f1="result = (a + 1)  # one more\n\n    return result", f30="return 0  # as before")
    field.claim("b", ("one", {"src/app.py": reworded}))
    field.claim("c", ("one", fix(1, "total = a + 2\n    return total")))
    field.claim("d", ("words", {"src/other.py": "A = 1\n\n\n# of d\nB = 2\n\n\nC = 3\n"}))
    field.claim("e", ("words", {"src/other.py": "A = 1\n\n\n# of e\nB = 2\n\n\nC = 3\n"}))
    by_tasks = {tuple(change.tasks): change for change in field.collapsed()}
    assert set(by_tasks) == {("a", "b"), ("c",), ("d",), ("e",)}
    assert [bool(author.variant) for author in by_tasks["a", "b"].made_by].count(True) == 1
    assert normalize_code("def f(x):\n y = x\n return y") != normalize_code("def f(x):\n y = x\n return x")
    assert normalize_code("def f():\n y = 1\n return locals()") != normalize_code("def f():\n z = 1\n return locals()")


def test_a_shared_part_of_larger_changes_becomes_a_change_that_the_remainders_need(field: Field) -> None:
    for name, number, comment in (("a", 20, ""), ("b", 25, "  # so"), ("c", 30, "")):
        field.claim(
            name,
            (
                "[FIX_IMPL] " + name,
                {"src/app.py": app(**{"f1": f"return 1{comment}", f"f{number}": "return 3"})},
            ),
        )
    changes = field.collapsed()
    shared = next(change for change in changes if len(change.made_by) == 3)
    remainders = [change for change in changes if change is not shared]
    assert field.show(shared.commit, "src/app.py").replace("  # so", "") == app(f1="return 1")
    assert [change.needs for change in remainders] == [[shared.id]] * 3
    assert sorted(change.tasks for change in remainders) == [["a"], ["b"], ["c"]]
    composed = field.compose(rank_changes(changes))
    text = field.show(composed.head, "src/app.py").replace("  # so", "")
    assert not composed.conflicts and text == app(f1="return 1", f20="return 3", f25="return 3", f30="return 3")
    assert composed.commits[0].changes == [shared.id]


def test_a_shared_import_stays_with_each_change_that_needs_it(field: Field) -> None:
    def module_text(b: int = 2, c: int = 3, d: int = 4) -> str:
        return f"import os\nA = 1\n\n\nB = {b}\n\n\nC = {c}\n\n\nD = {d}\n"

    field.base = field.commits("", ("base", {"src/m.py": module_text().removeprefix("import os\n")}))[-1]
    field.git("update-ref", field.run.ref_name("base"), field.base)
    for name, rows in {"a": {"b": 0}, "b": {"b": 0, "d": 0}, "c": {"c": 9}}.items():
        field.claim(name, (name, {"src/m.py": module_text(**rows)}))
    changes = field.collapsed()
    assert {tuple(change.tasks) for change in changes} == {("a", "b"), ("b",), ("c",)}
    assert all(field.show(change.commit, "src/m.py").startswith("import os") for change in changes if not change.needs)
    composed = field.compose(rank_changes(changes))
    assert not composed.conflicts and field.show(composed.head, "src/m.py") == module_text(0, 9, 0)
