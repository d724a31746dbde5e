"""Missing checks are added in the right place, and only for what was the same in every run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.kinds.mechanic.program.missing_checks import add_missing_checks, fill_empty_test
from mngr.kinds.mechanic.program.observed_runs import ObservedCase, ObservedCheck, ObservedCommand
from mngr.kinds.mechanic.program.repair_edits import Escalation, WorkspaceFiles

HEAD = "from mngr.e2e import E2eSession, expect\n\n\ndef test_x(e2e):\n"


def write_test_file(directory: Path, body: str, head: str = HEAD) -> WorkspaceFiles:
    (directory / "test_x.py").write_text(head + body)
    return WorkspaceFiles(str(directory), "test_x.py::test_x", None, lambda first: None)


def observed_run(
    directory: Path, line: int, code: int = 0, out: str = "", changed: dict[str, str | None] | None = None
) -> ObservedCommand:
    return ObservedCommand(str(directory / "test_x.py"), line, "x", code, out, "", {}, changed or {}, [], "")


def observed_check(method: str, *args: object, number: int | None = 0, line: int = 6) -> ObservedCheck:
    return ObservedCheck("test_x.py", line, method, list(args), number, "stdout", "", True)


def improve(
    directory: Path, body: str, runs: list[list[ObservedCommand]], *checks: ObservedCheck, head: str = HEAD
) -> str:
    """Return the test's body after the missing checks were added."""
    files = write_test_file(directory, body, head)
    outcomes = add_missing_checks(
        files, [[ObservedCase("test_x.py::test_x", "pass", case_runs, list(checks))] for case_runs in runs]
    )
    assert all(isinstance(row, str) for row in outcomes), outcomes
    return files.read("test_x.py").removeprefix(HEAD)


def repeat_twice(*runs: ObservedCommand) -> list[list[ObservedCommand]]:
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
def test_a_missing_exit_code_check_is_added(tmp_path: Path, body: str, after: str) -> None:
    assert improve(tmp_path, body, repeat_twice(observed_run(tmp_path, 5)), observed_check("to_contain", "a")) == after


def test_an_expected_failure_gets_a_check_of_its_exit_code(tmp_path: Path) -> None:
    body = '    r = e2e.run("x")\n    expect(r.stderr).to_contain("no")\n'
    result = improve(
        tmp_path, body, repeat_twice(observed_run(tmp_path, 5, code=3)), observed_check("to_contain", "no")
    )
    assert result == body.replace(")\n", ")\n    expect(r).to_have_exit_code(3)\n", 1)


def test_an_unexplained_failure_is_escalated(tmp_path: Path) -> None:
    files = write_test_file(tmp_path, '    e2e.run("x")\n')
    for runs in (
        repeat_twice(observed_run(tmp_path, 5, code=3)),
        [[observed_run(tmp_path, 5)], [observed_run(tmp_path, 5, code=1)]],
    ):
        [escalation] = add_missing_checks(
            files, [[ObservedCase("test_x.py::test_x", "pass", case_runs, [])] for case_runs in runs]
        )
        assert (
            isinstance(escalation, Escalation)
            and escalation.kind == "AMBIGUOUS"
            and escalation.locations == [("test_x.py", 5)]
        )
    assert files.read_changed_files() == {}


def test_an_unchecked_traceback_is_escalated(tmp_path: Path) -> None:
    files = write_test_file(tmp_path, '    expect(e2e.run("x")).to_succeed()\n')
    crash = ObservedCommand(
        str(tmp_path / "test_x.py"), 5, "x", 0, "", "Traceback (most recent call last):\n", {}, {}, [], ""
    )
    [escalation] = add_missing_checks(
        files, [[ObservedCase("test_x.py::test_x", "pass", [crash], [observed_check("to_succeed")])]]
    )
    assert isinstance(escalation, Escalation) and escalation.kind == "UNCAUGHT_BUG"


def test_output_and_changes_of_the_last_command_get_checks(tmp_path: Path) -> None:
    body = '    e2e.run("x")\n    r = e2e.run("y")\n    assert r is not None\n'
    runs = [
        [
            observed_run(tmp_path, 5, out="not this\n"),
            observed_run(tmp_path, 6, out=f"id {n}\n{{all}}\n", changed={"a/b": "one\n", "bin": None}),
        ]
        for n in (1, 2)
    ]
    assert improve(tmp_path, body, runs, observed_check("to_succeed"), observed_check("to_succeed", number=1), observed_check("to_match", ".*", number=1)) == (
        '    e2e.run("x")\n    r = e2e.run("y")\n    expect(r.stdout).to_match_lines("""\n    id ...\n    {all}\n    """)\n'
        '    expect(e2e.cwd / "a/b").to_match_lines("one")\n    assert r is not None\n'
    )  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        observed_check("to_contain", "x"),
        observed_check("to_match_tree", number=None),
        observed_check("to_fail", 2),
        observed_check("to_be_empty"),
    ],
)
def test_an_existing_check_prevents_new_ones(tmp_path: Path, more: ObservedCheck) -> None:
    body = '    r = e2e.run("x")\n'
    assert (
        improve(tmp_path, body, repeat_twice(observed_run(tmp_path, 5, out="a\n")), observed_check("to_succeed"), more)
        == body
    )


def test_plain_assertions_count_as_checks(tmp_path: Path) -> None:
    for last in ("assert (e2e.cwd / 'x').exists()", "check_it(r)", "with pytest.raises(OSError): open('x')"):
        body = f'    r = e2e.run("x")\n    {last}\n'
        assert (
            improve(tmp_path, body, repeat_twice(observed_run(tmp_path, 5, out="a\n")), observed_check("to_succeed"))
            == body
        )


def test_an_import_of_expect_is_added(tmp_path: Path) -> None:
    head = "from mngr.e2e import E2eSession\n\n\ndef test_x(e2e):\n"
    result = improve(tmp_path, '    e2e.run("x")\n', repeat_twice(observed_run(tmp_path, 5)), head=head)
    assert result == '    expect(e2e.run("x")).to_succeed()\n'  # the head itself, which was removed, has the import
    head = '"""About."""\nimport os\n\ndef test_x(e2e):\n'
    result = improve(tmp_path, '    e2e.run("x")\n', repeat_twice(observed_run(tmp_path, 5)), head=head)
    assert result.startswith('"""About."""\nimport os\nfrom mngr.e2e import expect\n')


def test_an_empty_test_gets_a_run_of_its_block(tmp_path: Path) -> None:
    files = write_test_file(tmp_path, '    e2e.write_tutorial_block("""\n    # all\n    x "a\\\\b"\n    """)\n')
    assert fill_empty_test(files)
    assert files.read("test_x.py").endswith('""")\n    result = e2e.run("""\n    # all\n    x "a\\\\b"\n    """)\n')
    assert fill_empty_test(files) is None
    files = write_test_file(tmp_path, '    e2e.write_tutorial_block("x")\n    helper(e2e)\n')
    assert fill_empty_test(files) is None
