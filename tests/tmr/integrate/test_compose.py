"""A branch of many changes: one commit of tests, one for each fix, and the same ids every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.cited_blocks import list_cited_blocks
from mngr.tmr.integrate.compose import list_ties, rank_changes
from tests.tmr.field import BASE, Commit, Field, app, fix


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)


def make_hundred_changes(field: Field) -> list[Change]:
    """Return the changes of a hundred branches.

    Twenty make the same edit, twenty conflict, and each has its own test.
    """
    rows: dict[str, tuple[Commit, ...]] = {}
    for number in range(100):
        body = "return 99" if number < 20 else f"return {number}"
        function = 39 if number < 20 else number - 20 if number < 55 else number - 55 if number < 75 else None
        files = fix(function, body) if function is not None else {f"src/new_{number}.py": f"A = {number}\n"}
        test = {f"tests/test_{number}.py": f"def test_{number}():\n    assert True\n"}
        rows[f"t{number:02}"] = ((f"[FIX_IMPL] {number}", files), ("[ADD_TEST] x", test))
    field.claims(rows)
    return field.collapsed()


def test_a_hundred_branches_compose_to_the_same_branch_every_time(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = rank_changes(make_hundred_changes(field))
    started: list[str] = []
    monkeypatch.setattr("mngr.base.shell.tracer", started.append)
    composed = field.compose(changes)
    assert len(started) < 100, "git is asked only about those that meet"
    assert composed.commits[0].kind == "test" and len(composed.commits[0].changes) == 100
    fixes = [change for change in changes if change.kind == "fix"]
    assert len(fixes) == 81 and fixes[0].is_shared, "the same edit of twenty is one change, and the first"
    assert len(composed.conflicts) == 20 and len(composed.commits) == 1 + 81 - 20
    change_by_id = {change.id: change for change in changes}
    for conflict in composed.conflicts:
        (other,) = conflict.others
        assert (
            conflict.paths == ["src/app.py"]
            and abs(int(change_by_id[other].tasks[0][1:]) - int(change_by_id[conflict.change].tasks[0][1:])) == 35
        )
    history = field.git("log", "--format=%P", f"{field.base}..{composed.head}").split("\n")
    assert [*[row.commit for row in composed.commits][::-1][1:], field.base] == history, (
        "one after the other, each on the last"
    )
    assert field.git("show", "-s", "--format=%s", composed.commits[0].commit) == "[TEST/DOC] 100 changes from 100 tasks"
    assert field.compose(rank_changes(changes[::-1])).head == composed.head
    assert field.git("ls-tree", "-r", "--name-only", composed.commits[0].commit, "src").count("new_") == 0


def test_a_fix_keeps_its_author_and_its_message_names_task_and_agent(field: Field) -> None:
    commits = field.claim("a", ("[FIX_IMPL] One\n\nWhy.", fix(1)), author="Eve <eve@x>")
    (change,) = field.changes()
    text = field.git("show", "-s", "--format=%an <%ae> %at, %cn %ct%n%B", field.compose([change]).head)
    assert text.split("\n") == [
        "Eve <eve@x> 1001, mngr 2001", "[FIX_IMPL] One", "", "Why.", "", f"Mngr-Change: {change.id}", "Mngr-Task: a",
        "Mngr-Agent: tmr-r-a", f"Mngr-Receipt: a confirmed 3/3 {commits[0][:12]}", "",
    ]  # fmt: skip


def test_conflicting_tests_are_named_and_the_rest_is_one_commit(field: Field) -> None:
    for name, value in (("a", 5), ("b", 6)):
        field.claim(
            name,
            ("x", {"tests/helper.py": f"ONE = {value}\n\n\nTWO = 2\n", f"tests/test_{name}.py": "A = 1\n"}),
        )
    field.claim("c", ("x", {"tests/helper.py": "ONE = 1\n\n\nTWO = 7\n", "tests/test_app.py": None}))
    one, two, three = field.changes()
    composed = field.compose([one, two, three])
    assert [row.changes for row in composed.commits] == [[one.id, three.id]]
    assert [(conflict.change, conflict.paths, conflict.others) for conflict in composed.conflicts] == [
        (two.id, ["tests/helper.py"], [one.id])
    ]
    assert field.show(composed.head, "tests/helper.py") == "ONE = 5\n\n\nTWO = 7\n"
    assert "tests/test_app.py" not in field.git("ls-tree", "-r", "--name-only", composed.head)


def test_a_fix_merges_with_a_renamed_file_and_with_a_newer_base(
    field: Field,
) -> None:
    field.claim("a", ("moved", {"src/app.py": None, "src/main.py": app()}))
    field.claim("b", ("fixed", fix(3)))
    moved, fixed = field.changes()
    composed = field.compose([moved, fixed])
    assert field.show(composed.head, "src/main.py") == app(f3="return 1") and not composed.conflicts
    (onto,) = field.commits("", ("elsewhere", {**BASE, "src/app.py": app(f9="return 9")}))
    later = field.compose([fixed], base=onto)
    assert field.show(later.head, "src/app.py") == app(f3="return 1", f9="return 9")
    (onto,) = field.commits(field.base, ("there", fix(3)))
    assert field.compose([fixed], base=onto).redundant == [fixed.id]
    (onto,) = field.commits(field.base, ("other", fix(3, "return 7")))
    assert [(conflict.others, conflict.paths) for conflict in field.compose([fixed], base=onto).conflicts] == [
        ([], ["src/app.py"])
    ]


def test_fixes_are_ranked_by_evidence_after_the_changes_they_need(field: Field) -> None:
    def add_proof(commit: str) -> None:
        task = field.state.tasks["green"]
        proofs = [{"fixes": [commit], "is_needed": True}]
        field.set_task(task.replace(check={**(task.check or {}), "proofs": proofs}))

    add_proof(field.claim("green", ("green", fix(1, "a = 1\n    return a")))[0])
    for name in ("p", "q"):
        field.claim(name, ("found by two", fix(10)))
    field.claim("risky", ("risky", {"pyproject.toml": "[a]\n"}))
    field.claim("long", ("long", fix(20, "a = 1\n    b = a\n    return b")))
    field.claim("short", ("short", fix(30)))
    changes = field.collapsed()
    assert [change.tasks[0] for change in rank_changes(changes)] == ["green", "p", "short", "long", "risky"]
    short = next(change for change in changes if change.tasks == ["short"])
    risky = next(change for change in changes if change.tasks == ["risky"])
    repairs_two = risky.replace(fixed_tests=["t1", "t2"])
    assert rank_changes([*(item for item in changes if item != risky), repairs_two])[0] == repairs_two
    blocks = {"t1": ["list", "add"], "t2": ["add"], "t3": ["list", "add"]}
    pair = [short.replace(fixed_tests=["t2"]), risky.replace(fixed_tests=["t3"])]
    assert [item.tasks[0] for item in rank_changes(pair)] == ["short", "risky"]
    assert [item.tasks[0] for item in rank_changes(pair, blocks)] == ["risky", "short"]
    pair = [risky.replace(fixed_tests=["t1", "t3"]), short.replace(fixed_tests=["t1", "t2"])]
    assert rank_changes(pair, blocks)[0] == pair[1], "a block that two tests cite counts once"
    needing = short.replace(needs=[risky.id], fixed_tests=["t1", "t2", "t3"])
    assert [change.tasks[0] for change in rank_changes([needing, risky])] == ["risky", "short"]


def test_advised_fixes_come_first_among_equal_ones(field: Field) -> None:
    for name, number in (("a", 1), ("b", 10), ("c", 20), ("long", 30)):
        field.claim(name, (name, fix(number, "a = 1\n    return a" if name == "long" else "return 1")))
    field.claim("texts", ("texts", {"README.md": "a\n"}))
    changes = field.collapsed()
    (group,) = list_ties(changes, {})
    assert [change.tasks for change in sorted(group, key=lambda item: item.tasks)] == [["a"], ["b"], ["c"]]
    assert [item.id for item in group] == sorted(item.id for item in group)
    long = next(change for change in changes if change.tasks == ["long"])
    advised = [long.key, *(change.key for change in group[::-1])]
    fixes = [change for change in rank_changes(changes, advised=advised) if change.kind == "fix"]
    assert fixes == [*group[::-1], long], "evidence counts more than advice"
    assert [change for change in rank_changes(changes, advised=[group[2].key]) if change in group] == [
        group[2],
        *group[:2],
    ]


def test_cited_tutorial_blocks_are_read_from_the_tests(field: Field) -> None:
    text = 'def test_a(e2e):\n    e2e.write_tutorial_block("""\n    shop list\n    """)\n    e2e.write_tutorial_block("""\n    shop add\n    """)\n'
    text += text.replace("test_a", "test_z")
    (commit,) = field.commits(field.base, ("x", {"tests/test_a.py": text}))
    tests = ["tests/test_a.py::test_a", "tests/test_app.py::test_app", "tests/none.py::test_b"]
    assert list_cited_blocks(field.local, field.repo, commit, tests) == {tests[0]: ["shop list", "shop add"]}
