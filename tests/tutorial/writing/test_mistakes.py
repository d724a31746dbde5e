"""What an agent got wrong, by command."""

from __future__ import annotations

from typing import Any

from mngr.tutorial.writing.mistakes import list_mistakes


def call(command: object, output: str, key: str = "command") -> dict[str, Any]:
    return {"role": "tool", "tool": "Bash", "input": {key: command}, "output": output}


def test_by_command_the_worst_first() -> None:
    rows = [
        {"role": "user", "text": "go", "input": None},
        call("shop sell --fast apple", "Error: Exit code 2\nunknown option: --fast"),
        call("shop sell apple && shop list", "Exit code 1\nError: no such shop"),
        call("shop sell apple --in x", "sold"),
        call(["bash", "-lc", "shop list --all"], "unrecognized argument '--all'", "cmd"),
        call("ls", "exit code 1"),
        call("shop show", "fine"),
    ]
    found = list_mistakes(rows, ["shop"])
    assert [(one.command, one.calls, one.failures, one.retries) for one in found] == [
        ("shop list", 2, 2, 1),
        ("shop sell", 3, 2, 2),
    ]
    assert found[1].unknown == ["--fast"] and found[0].unknown == ["--all"]
    assert "unknown option: --fast" in found[1].said


def test_unknown_options_order_and_retries_are_told_apart() -> None:
    rows = [
        call("shop --help", "usage: shop [open|sell]\n\nerror: is what it prints when it fails"),
        call(
            "shop sell --help; shop sell apple --fast -x=1",
            "Exit code 2\nerror: unknown switch `fast'\nusage: shop sell [-x]",
        ),
        call("shop sell apple", "Error: Exit code 3\nit is closed"),
        call("shop open --now && shop list", "Exit code: 1\nshop open: unrecognized arguments: --now"),
        call("shop open && shop list", "Exit code: 0\nOutput:\nerror: none"),
        call("shop sell apple", "sold"),
        call("cat help.txt", "Exit code 1\nshop: unknown option --y"),
    ]
    sell, opening = list_mistakes(rows, ["shop"])
    assert (sell.command, sell.calls, sell.failures, sell.retries) == ("shop sell", 4, 2, 2)
    assert (sell.unknown, sell.after) == (["--fast"], ["shop open", "shop list"])
    assert sell.said == ["error: unknown switch `fast'", "it is closed"]
    assert (opening.command, opening.calls, opening.failures, opening.retries) == ("shop open", 2, 1, 1)
    assert (opening.unknown, opening.after) == (["--now"], [])
    assert opening.said == ["shop open: unrecognized arguments: --now"]


def test_what_other_programs_of_agents_write_down() -> None:
    head = "Chunk ID: 1\nProcess exited with code {}\nOutput:\n"
    code = 'const r = await tools.exec_command({cmd: "shop sell \\"an apple\\""}); text(r);'
    rows = [
        call(
            "shop sell --fast",
            head.format(2) + "shop: unrecognized option '--fast'\nTry 'shop --help'.\n",
            "cmd",
        ),
        call(code, head.format(1) + "no\n", "input"),
        call("shop sell", head.format(0) + "error: is what it says when it fails", "cmd"),
        call("tools.exec_command({cmd: x})", "Exit code 1", "input"),
    ]
    (found,) = list_mistakes(rows, ["shop"])
    assert (found.calls, found.failures, found.unknown) == (3, 2, ["--fast"])
    assert found.said == ["shop: unrecognized option '--fast'", "no"]


def test_nothing_of_it_is_believed() -> None:
    rows: list[dict[str, Any]] = [
        {"role": "tool", "input": {"command": 3}},
        {"role": "tool", "input": None},
        {"role": "tool", "input": {"command": "shop 'unclosed"}, "output": "exit 1"},
        {},
    ]
    assert [one.command for one in list_mistakes(rows, ["shop"])] == ["shop"]
