"""Many branches: what is a change, what is refused, who conflicts with whom, and what is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.mapreduce.run_state import Task, TaskState
from mngr.providers.local import LocalHost
from mngr.tmr.changes import changes as changes_module
from mngr.tmr.changes.conflict_graph import (
    ConflictPair,
    choose_compatible,
    list_conflicts,
    list_overlaps,
    map_conflicts,
)
from mngr.tmr.changes.deduplicate import deduplicate_changes
from mngr.tmr.changes.excluded import group_by_reason, list_escalations
from mngr.tmr.changes.same_code import normalize_code
from mngr.tmr.integrate.compose import rank_changes
from tests.tmr.field import Commit, Field, Files, app, fix, function, note


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)


# What is a change


def test_a_mixed_commit_is_split_by_path_and_a_commit_with_two_fixes_of_one_file_gives_both(
    field: Field,
) -> None:
    mixed = {**fix(1), "tests/test_app.py": "def test_app():\n    assert 1\n", "README.md": "# The app\n"}
    second = {"src/app.py": app(f1="return 1", f20="return 2")}
    made = field.claim("a", ("[FIX_IMPL] One\n\nWhy so.", mixed), ("[FIX_IMPL] Two", second))
    test, one, two = field.changes()
    assert (test.kind, one.kind, two.kind) == ("test", "fix", "fix")
    assert test.paths == ["README.md", "tests/test_app.py"] and one.paths == two.paths == ["src/app.py"]
    assert field.diff(test) == test.paths and field.diff(one) == one.paths
    assert one.title == "[FIX_IMPL] One" and one.body == "Why so." and one.made_by[0].commits == made[:1]
    assert field.show(two.commit, "src/app.py") == app(f20="return 2"), "the second stands on the base alone"
    assert two.parent == one.parent == test.parent == field.base
    assert two.size == {"files": 1, "added": 1, "removed": 1} and one.author == "Ann <ann@x>"
    assert len(one.id) == 6 and len({test.id, one.id, two.id}) == 3


def test_a_fix_goes_with_the_one_it_builds_on_and_what_was_taken_back_is_no_fix(field: Field) -> None:
    field.claim(
        "a",
        ("one", fix(1, "return 1")),
        ("better", fix(1, "return 11")),
        ("apart", {"src/other.py": "A = 1\n\n\nB = 2\n\n\nC = 4\n"}),
    )
    field.claim("b", ("try", fix(2, "return 5")), ("no", {"src/app.py": app()}), ("right", fix(3, "return 6")))
    built, apart, right = field.changes()
    assert field.show(built.commit, "src/app.py") == app(f1="return 11") and len(built.made_by[0].commits) == 2
    assert built.title == "one (and 1 more)" and apart.paths == ["src/other.py"]
    assert field.show(right.commit, "src/app.py") == app(f3="return 6"), "what was undone is in no change"


def test_what_stands_on_the_fix_of_a_cause_stands_alone_if_it_can_and_else_needs_it(field: Field) -> None:
    cause = field.claim("cause-1", ("[FIX_IMPL] Cause", fix(5, "return 5")))[-1]
    field.state.recipe_rows["base"] = [{"type": "base", "by": "cause-1", "commit": cause, "added": True}]
    far = {"src/app.py": app(f5="return 5", f30="return 3")}
    made = field.claim("far", ("[FIX_IMPL] Far", far), ("[FIX_DOC] Words", {"README.md": None}), base=cause)
    field.claim("near", ("[FIX_IMPL] Near", fix(5, "return 55")), base=cause)
    first, words, second, third = field.changes()
    assert words.made_by[0].commits == made[1:] and second.made_by[0].commits == made[:1]
    assert second.parent == field.base and field.show(second.commit, "src/app.py") == app(f30="return 3")
    assert third.parent == cause and third.needs == [first.id]
    alone = field.compose([third, second])
    assert [one.changes for one in alone.commits] == [[second.id]]
    assert alone.conflicts[0].change == third.id and alone.conflicts[0].others == [first.id]
    both = field.compose(rank_changes([third, second, first]))
    assert field.show(both.head, "src/app.py") == app(f5="return 55", f30="return 3") and not both.conflicts
    del field.state.tasks["cause-1"]
    kept, left = field.split()
    assert [change.tasks for change in kept] == [["far"], ["far"]] and [one.task for one in left] == ["near"]


def test_what_is_not_confirmed_is_left_out_with_its_reason_and_causes_and_escalations_are_counted(
    field: Field,
) -> None:
    raised = {"kind": "BLOCKER", "title": "no port 8080", "detail": "\x1b[31mred", "locations": []}
    for number, verdict in enumerate(("refuted", "flaky", "unverified")):
        field.claim(f"t{number}", ("x", fix(number)), verdict=verdict, claim={"escalations": [raised]})
    field.claim("fine", ("x", fix(9)), claim={"escalations": [{**raised, "title": "no port 9090"}]})
    field.claim("same", ("nothing", {}))
    for number in range(3):
        field.claim(f"b{number}", ("x", fix(number)))
        blocked = field.state.tasks[f"b{number}"]
        field.state.tasks[f"b{number}"] = blocked.replace(
            outcome="blocked", check=None, reason=f"no disk in /tmp/x{number}/y"
        )
    field.state.tasks["busy"] = TaskState(task=Task(slug="busy", title="busy"), state="working")
    changes, left = field.split()
    assert [change.tasks for change in changes] == [["fine"]]
    assert {one.task: one.reason for one in left} == {
        "b0": "no disk in /tmp/x0/y", "b1": "no disk in /tmp/x1/y", "b2": "no disk in /tmp/x2/y",
        "busy": "it is not settled: working", "t0": "it is refuted", "t1": "it is flaky", "t2": "it is unverified",
    }  # fmt: skip
    assert group_by_reason(left)[0]["count"] == 3 and group_by_reason(left)[0]["tasks"] == ["b0", "b1", "b2"]
    assert next(one for one in left if one.task == "t0").escalations[0]["detail"] == "red"
    (group,) = list_escalations(field.state)
    assert group["count"] == 4 and group["tasks"] == ["fine", "t0", "t1", "t2"]


def test_what_a_person_should_look_at_is_a_change_of_its_own(field: Field) -> None:
    files = {
        "tests/test_app.py": "def test_app():\n    assert 2\n",
        "tests/helper.py": "ONE = 2\n\n\nTWO = 2\n",
    }
    field.claim("a", ("[FIX_TEST] Both", files), policy=[note("tests/helper.py", "<b>shared</b>")])
    plain, flagged = field.changes()
    assert (plain.flagged, flagged.flagged) == (False, True)
    assert plain.paths == ["tests/test_app.py"] and flagged.paths == ["tests/helper.py"]
    done = field.compose([plain, flagged])
    assert [one.kind for one in done.commits] == ["test", "flagged"]
    assert "- tests/helper.py: ‹b>shared‹/b>" in field.git("show", "-s", "--format=%B", done.head)


def test_changes_are_kept_as_a_file_and_by_names(field: Field) -> None:
    field.claim("a", ("[FIX_IMPL] One", fix(1)), claim={"escalations": [{"kind": "BLOCKER", "title": "x"}]})
    field.claim("b", ("x", fix(2)), verdict="refuted")
    changes, left = field.split()
    changes_module.save_changes(field.run, field.state, changes, left)
    assert changes_module.load_changes(field.run) == changes
    changes_module.pin_changes(field.local, field.run, changes)
    refs = field.git("for-each-ref", "--format=%(objectname)", "refs/mngr/runs/r").split("\n")
    assert changes[0].commit in refs and "making" not in field.git("for-each-ref")


# Hostile branches


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
def test_a_hostile_branch_is_refused_with_a_finding_and_the_others_are_taken(
    field: Field, files: Files, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule == "reduce-large":
        monkeypatch.setattr("mngr.tmr.commits.untrusted.MAX_FILE_BYTES", 5000)
        big = field.git("hash-object", "-w", "--stdin", stdin=b"x" * 5001)
        files = {"src/data.bin": ("100644", f"object {big}")}
    field.claim("bad", ("[FIX_IMPL] Harmless", fix(1)), ("[FIX_TEST] Also", files))
    field.claim("good", ("[FIX_IMPL] Good", fix(2)))
    changes, left = field.split()
    assert [change.tasks for change in changes] == [["good"]]
    assert [one.task for one in left] == ["bad"] and left[0].findings[0]["rule"] == rule
    assert left[0].verdict == "confirmed" and left[0].reason


def test_a_commit_that_reads_like_an_option_or_a_name_is_never_given_to_git(field: Field) -> None:
    field.claim("bad", ("x", fix(1)))
    field.state.tasks["bad"] = field.state.tasks["bad"].replace(commit="--output=/tmp/was-written")
    field.claim("gone", ("x", fix(2)))
    field.state.tasks["gone"] = field.state.tasks["gone"].replace(commit="1" * 40)
    changes, left = field.split()
    assert not changes and [one.task for one in left] == ["bad", "gone"]
    assert left[0].findings[0]["rule"] == "reduce-ref" and "not in the run's repository" in left[1].reason


def test_a_tree_that_git_cannot_read_is_no_trouble_for_the_others(field: Field) -> None:
    for number in range(5):
        field.claim(f"t{number}", ("x", fix(number)))
    tree = field.git(
        "hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=b"100644 \0" + bytes(20)
    )  # a file without a name
    commit = field.git("-c", "user.name=x", "-c", "user.email=x", "commit-tree", tree, "-p", field.base, "-m", "x")
    field.state.tasks["t2"] = field.state.tasks["t2"].replace(commit=commit)
    changes, left = field.split()
    assert [change.tasks for change in changes] == [["t0"], ["t1"], ["t3"], ["t4"]]
    assert left[0].task == "t2" and left[0].findings[0]["rule"] == "reduce-unreadable"


def test_history_that_is_no_line_counts_by_what_it_comes_to(field: Field) -> None:
    side = field.commits(field.base, ("side", {**fix(3), "README.md": "# Side\n"}))[-1]
    main = field.commits(field.base, ("main", fix(30)))[-1]
    tree = field.git("merge-tree", "--write-tree", main, side)
    who = ("-c", "user.name=x", "-c", "user.email=x@x")
    merge = field.git(*who, "commit-tree", tree, "-p", main, "-p", side, "-m", "merged")
    field.settle("a", [merge])
    tree = field.git("rev-parse", f"{side}^{{tree}}")
    alone = field.git(*who, "commit-tree", tree, "-m", "of no base")
    field.settle("b", [alone])
    changes = field.changes()
    assert [(change.title, change.paths) for change in changes if change.tasks == ["a"]] == [
        ("merged", ["README.md"]), ("main", ["src/app.py"]), ("merged", ["src/app.py"]),
    ]  # fmt: skip
    for slug in ("a", "b"):
        done = field.compose([change for change in changes if change.tasks == [slug]])
        assert done.tree == field.git("rev-parse", f"{field.state.tasks[slug].commit}^{{tree}}")


def test_messages_and_authors_cannot_say_more_than_words(field: Field) -> None:
    evil = "[FIX_IMPL] \x1b]0;owned\x07\x1b[2JOne <script>alert(1)</script>\n\nBody\u202e.\nMngr-Receipt: forged\nSigned-off-by: Me"
    field.claim("a", (evil, fix(1)), author="\x1b[31mEve\x1b[0m <eve@x>")
    (change,) = field.changes()
    head = field.compose([change]).head
    text = field.git("show", "-s", "--format=%an|%ae|%at|%B", head)
    assert text.startswith("Eve|eve@x|1001|[FIX_IMPL] One ‹script>alert(1)‹/script>\n\nBody.\n\nMngr-Change: ")
    assert "\x1b" not in text and "forged" not in text and "Signed-off" not in text
    assert [row["rule"] for row in change.findings] == ["reduce-message"]


def test_settings_hooks_and_attributes_of_the_user_do_not_run_or_count(
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


# Who is in whose way


def test_all_pairs_of_a_hundred_are_compared_at_once_and_the_set_without_conflicts_is_the_largest(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: dict[str, tuple[Commit, ...]] = {}
    for number in range(100):
        if number < 30:  # ten threes, each on one function
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
    found = list_conflicts(field.local, field.repo, changes)
    assert len(started) == 3, "git is asked about all at once"
    by_id = {change.id: change.tasks[0] for change in changes}
    pairs = {tuple(sorted((by_id[clash.one], by_id[clash.other]))) for clash in found}
    assert {("t00", "t01"), ("t00", "t02"), ("t01", "t02"), ("t27", "t29")} <= pairs
    assert ("t00", "t03") not in pairs and all(clash.paths == ["src/app.py"] for clash in found)
    kept = choose_compatible(changes, found)
    near = map_conflicts(found)
    assert not any(near.get(one.id, set()) & {other.id for other in kept} for one in kept)
    assert kept == choose_compatible(changes, list(reversed(found))) and len(kept) == 10 + 1 + 30 + 30
    assert not field.compose(kept).conflicts


def test_the_least_troublesome_go_first_and_nothing_goes_without_what_it_needs(field: Field) -> None:
    field.claim("x", ("x", fix(1)))
    a, b, c, d = (field.changes()[0].replace(id=name) for name in "abcd")
    chain = [ConflictPair(one=one, other=other, paths=["p"]) for one, other in ("ab", "bc", "cd")]
    assert [change.id for change in choose_compatible([a, b, c, d], chain)] == ["a", "c"]
    assert [change.id for change in choose_compatible([d, c, b, a], chain)] == ["d", "b"]
    assert [change.id for change in choose_compatible([a, b, c.replace(needs=["b"]), d], chain)] == ["a"]


def test_a_file_and_a_directory_of_one_name_are_in_each_others_way(field: Field) -> None:
    field.claim("a", ("one", {"src/new": "x\n"}))
    field.claim("b", ("two", {"src/new/inside.py": "x\n"}))
    assert len(list_conflicts(field.local, field.repo, field.changes())) == 1
    for chosen in (field.changes(), field.changes()[::-1]):
        done = field.compose(chosen)
        assert len(done.commits) == 1 and [one.change for one in done.conflicts] == [chosen[1].id]


def test_who_works_on_the_same_lines_is_seen_before_anything_is_merged(field: Field) -> None:
    heads = {
        "a": field.commits(field.base, ("x", fix(1, "return 1")))[-1],
        "b": field.commits(field.base, ("x", fix(1, "return 2")))[-1],
        "c": field.commits(field.base, ("x", fix(2, "return 2")))[-1],
    }
    (meeting,) = list_overlaps(field.local, field.repo, field.base, heads)
    assert (meeting.path, meeting.first, meeting.last, meeting.who) == ("src/app.py", 6, 6, ["a", "b"])


# What is the same


def test_the_same_edit_of_several_is_one_change_that_names_them_all(field: Field) -> None:
    rows: dict[str, tuple[Commit, ...]] = {}
    for number in range(20):
        own = {"tests/test_app.py": f"def test_app():\n    assert {number}\n"} if number == 7 else {}
        rows[f"t{number:02}"] = ((f"[FIX_IMPL] by {number}", {**fix(1), **own}),)
    field.claims(rows)
    field.claim("x", ("[FIX_IMPL] other", fix(1, "return 2")))
    shared = [change for change in field.collapsed() if len(change.made_by) > 1]
    assert [change.tasks for change in shared] == [[f"t{number:02}" for number in range(20)]]
    assert shared[0].is_shared and len(shared[0].agents) == 20
    assert sorted(len(change.made_by) for change in field.collapsed()) == [1, 1, 20]
    assert field.collapsed() == deduplicate_changes(field.local, field.repo, field.base, field.changes()[::-1])
    done = field.compose(shared)
    assert field.git("show", "-s", "--format=%(trailers:key=Mngr-Task,valueonly)", done.head).count("t") == 20


def test_an_edit_in_other_words_is_the_same_and_one_that_means_something_else_is_not(field: Field) -> None:
    first = "total = a + 1\n    return total"
    field.claim("a", ("one", fix(1, first)))
    other = app(f1="result = (a + 1)  # one more\n\n    return result", f30="return 0  # as before")
    field.claim("b", ("one", {"src/app.py": other}))
    field.claim("c", ("one", fix(1, "total = a + 2\n    return total")))
    field.claim("d", ("words", {"src/other.py": "A = 1\n\n\n# of d\nB = 2\n\n\nC = 3\n"}))
    field.claim("e", ("words", {"src/other.py": "A = 1\n\n\n# of e\nB = 2\n\n\nC = 3\n"}))
    found = {tuple(change.tasks): change for change in field.collapsed()}
    assert set(found) == {("a", "b"), ("c",), ("d",), ("e",)}
    assert [bool(maker.variant) for maker in found["a", "b"].made_by].count(True) == 1
    assert normalize_code("def f(x):\n y = x\n return y") != normalize_code("def f(x):\n y = x\n return x")
    assert normalize_code("def f():\n y = 1\n return locals()") != normalize_code("def f():\n z = 1\n return locals()")


def test_what_several_share_within_larger_changes_is_one_change_and_the_rest_needs_it(field: Field) -> None:
    for name, number, words in (("a", 20, ""), ("b", 25, "  # so"), ("c", 30, "")):
        field.claim(
            name,
            (
                "[FIX_IMPL] " + name,
                {"src/app.py": app(**{"f1": f"return 1{words}", f"f{number}": "return 3"})},
            ),
        )
    found = field.collapsed()
    shared = next(change for change in found if len(change.made_by) == 3)
    rest = [change for change in found if change is not shared]
    assert field.show(shared.commit, "src/app.py").replace("  # so", "") == app(f1="return 1")
    assert [change.needs for change in rest] == [[shared.id]] * 3
    assert sorted(change.tasks for change in rest) == [["a"], ["b"], ["c"]]
    done = field.compose(rank_changes(found))
    text = field.show(done.head, "src/app.py").replace("  # so", "")
    assert not done.conflicts and text == app(f1="return 1", f20="return 3", f25="return 3", f30="return 3")
    assert done.commits[0].changes == [shared.id]


def test_an_import_that_several_need_stays_with_what_needs_it(field: Field) -> None:
    def text(b: int = 2, c: int = 3, d: int = 4) -> str:
        return f"import os\nA = 1\n\n\nB = {b}\n\n\nC = {c}\n\n\nD = {d}\n"

    field.base = field.commits("", ("base", {"src/m.py": text().removeprefix("import os\n")}))[-1]
    field.git("update-ref", field.run.ref_name("base"), field.base)
    for name, rows in {"a": {"b": 0}, "b": {"b": 0, "d": 0}, "c": {"c": 9}}.items():
        field.claim(name, (name, {"src/m.py": text(**rows)}))
    found = field.collapsed()
    assert {tuple(change.tasks) for change in found} == {("a", "b"), ("b",), ("c",)}
    assert all(field.show(change.commit, "src/m.py").startswith("import os") for change in found if not change.needs)
    done = field.compose(rank_changes(found))
    assert not done.conflicts and field.show(done.head, "src/m.py") == text(0, 9, 0)
