"""Checks that a passing test lacks are added where they belong, and nothing that was not seen every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.kinds.mechanic.program.missing_checks import add_missing_checks, fill_empty_test
from mngr.kinds.mechanic.program.observed_runs import ObservedCase, ObservedCheck, ObservedCommand
from mngr.kinds.mechanic.program.workspace_files import Escalation, WorkspaceFiles

HEAD = "from mngr.e2e import E2eSession, expect\n\n\ndef test_x(e2e):\n"


def desk(place: Path, body: str, head: str = HEAD) -> WorkspaceFiles:
    (place / "test_x.py").write_text(head + body)
    return WorkspaceFiles(str(place), "test_x.py::test_x", None, lambda first: None)


def run(
    place: Path, line: int, code: int = 0, out: str = "", changed: dict[str, str | None] | None = None
) -> ObservedCommand:
    return ObservedCommand(str(place / "test_x.py"), line, "x", code, out, "", {}, changed or {}, [], "")


def check(method: str, *args: object, number: int | None = 0, line: int = 6) -> ObservedCheck:
    return ObservedCheck("test_x.py", line, method, list(args), number, "stdout", "", True)


def improved(
    place: Path, body: str, runs: list[list[ObservedCommand]], *checks: ObservedCheck, head: str = HEAD
) -> str:
    """What the body says afterwards."""
    on = desk(place, body, head)
    made = add_missing_checks(on, [[ObservedCase("test_x.py::test_x", "pass", one, list(checks))] for one in runs])
    assert all(isinstance(row, str) for row in made), made
    return on.read("test_x.py").removeprefix(HEAD)


def twice(*runs: ObservedCommand) -> list[list[ObservedCommand]]:
    return [list(runs), list(runs)]


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ('    r = e2e.run("x")\n', '    r = e2e.run("x")\n    expect(r).to_succeed()\n'),
        ('    e2e.run("x")  # why\n', '    expect(e2e.run("x")).to_succeed()  # why\n'),
        (
            '    expect(e2e.run("x").stdout).to_contain("a")\n',
            '    result = e2e.run("x")\n    expect(result).to_succeed()\n    expect(result.stdout).to_contain("a")\n',
        ),
        ('    if 1: e2e.run("x")\n', '    if 1: e2e.run("x")\n'),
        (
            '    r = e2e.run("x")\n    assert r.exit_code == 0\n',
            '    r = e2e.run("x")\n    assert r.exit_code == 0\n',
        ),
    ],
)
def test_an_exit_code(tmp_path: Path, body: str, after: str) -> None:
    assert improved(tmp_path, body, twice(run(tmp_path, 5)), check("to_contain", "a")) == after


def test_the_code_of_a_command_that_is_meant_to_fail(tmp_path: Path) -> None:
    body = '    r = e2e.run("x")\n    expect(r.stderr).to_contain("no")\n'
    made = improved(tmp_path, body, twice(run(tmp_path, 5, code=3)), check("to_contain", "no"))
    assert made == body.replace(")\n", ")\n    expect(r).to_have_exit_code(3)\n", 1)


def test_whether_it_is_meant_to_fail_is_not_guessed(tmp_path: Path) -> None:
    on = desk(tmp_path, '    e2e.run("x")\n')
    for runs in (twice(run(tmp_path, 5, code=3)), [[run(tmp_path, 5)], [run(tmp_path, 5, code=1)]]):
        [made] = add_missing_checks(on, [[ObservedCase("test_x.py::test_x", "pass", one, [])] for one in runs])
        assert isinstance(made, Escalation) and made.kind == "AMBIGUOUS" and made.locations == [("test_x.py", 5)]
    assert on.read_all() == {}


def test_a_crash_that_nobody_minds(tmp_path: Path) -> None:
    on = desk(tmp_path, '    expect(e2e.run("x")).to_succeed()\n')
    crash = ObservedCommand(
        str(tmp_path / "test_x.py"), 5, "x", 0, "", "Traceback (most recent call last):\n", {}, {}, [], ""
    )
    [made] = add_missing_checks(on, [[ObservedCase("test_x.py::test_x", "pass", [crash], [check("to_succeed")])]])
    assert isinstance(made, Escalation) and made.kind == "UNCAUGHT_BUG"


def test_what_the_last_command_printed_and_changed(tmp_path: Path) -> None:
    body = '    e2e.run("x")\n    r = e2e.run("y")\n    assert r is not None\n'
    seen = [
        [
            run(tmp_path, 5, out="not this\n"),
            run(tmp_path, 6, out=f"id {n}\n{{all}}\n", changed={"a/b": "one\n", "bin": None}),
        ]
        for n in (1, 2)
    ]
    assert improved(tmp_path, body, seen, check("to_succeed"), check("to_succeed", number=1), check("to_match", ".*", number=1)) == (
        '    e2e.run("x")\n    r = e2e.run("y")\n    expect(r.stdout).to_match_lines("""\n    id ...\n    {all}\n    """)\n'
        '    expect(e2e.cwd / "a/b").to_match_lines("one")\n    assert r is not None\n'
    )  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        check("to_contain", "x"),
        check("to_match_tree", number=None),
        check("to_fail", 2),
        check("to_be_empty"),
    ],
)
def test_what_is_checked_is_left_alone(tmp_path: Path, more: ObservedCheck) -> None:
    body = '    r = e2e.run("x")\n'
    assert improved(tmp_path, body, twice(run(tmp_path, 5, out="a\n")), check("to_succeed"), more) == body


def test_checks_of_its_own_count(tmp_path: Path) -> None:
    for last in ("assert (e2e.cwd / 'x').exists()", "check_it(r)", "with pytest.raises(OSError): open('x')"):
        body = f'    r = e2e.run("x")\n    {last}\n'
        assert improved(tmp_path, body, twice(run(tmp_path, 5, out="a\n")), check("to_succeed")) == body


def test_expect_is_imported(tmp_path: Path) -> None:
    head = "from mngr.e2e import E2eSession\n\n\ndef test_x(e2e):\n"
    made = improved(tmp_path, '    e2e.run("x")\n', twice(run(tmp_path, 5)), head=head)
    assert made == '    expect(e2e.run("x")).to_succeed()\n'  # below the head that has it
    head = '"""About."""\nimport os\n\ndef test_x(e2e):\n'
    made = improved(tmp_path, '    e2e.run("x")\n', twice(run(tmp_path, 5)), head=head)
    assert made.startswith('"""About."""\nimport os\nfrom mngr.e2e import expect\n')


def test_a_test_that_does_nothing_runs_its_block(tmp_path: Path) -> None:
    on = desk(tmp_path, '    e2e.write_tutorial_block("""\n    # all\n    x "a\\\\b"\n    """)\n')
    assert fill_empty_test(on)
    assert on.read("test_x.py").endswith('""")\n    result = e2e.run("""\n    # all\n    x "a\\\\b"\n    """)\n')
    assert fill_empty_test(on) is None
    on = desk(tmp_path, '    e2e.write_tutorial_block("x")\n    helper(e2e)\n')
    assert fill_empty_test(on) is None
