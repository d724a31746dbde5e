"""Finds an agent's mistakes with a program, by command."""

from __future__ import annotations

from mngr.kinds.transcript_entry import TranscriptEntry
from mngr.tutorial.writing.failed_program_calls import list_mistakes


def tool_entry(command: object, output: str, key: str = "command") -> TranscriptEntry:
    return TranscriptEntry(role="tool", tool="Bash", input={key: command}, output=output)


def test_commands_with_the_most_failures_come_first() -> None:
    entries = [
        TranscriptEntry(role="user", text="go"),
        tool_entry("shop sell --fast apple", "Error: Exit code 2\nunknown option: --fast"),
        tool_entry("shop sell apple && shop list", "Exit code 1\nError: no such shop"),
        tool_entry("shop sell apple --in x", "sold"),
        tool_entry(["bash", "-lc", "shop list --all"], "unrecognized argument '--all'", "cmd"),
        tool_entry("ls", "exit code 1"),
        tool_entry("shop show", "fine"),
    ]
    mistakes = list_mistakes(entries, ["shop"])
    assert [(entry.command, entry.calls, entry.failures, entry.retries) for entry in mistakes] == [
        ("shop list", 2, 2, 1),
        ("shop sell", 3, 2, 2),
    ]
    assert mistakes[1].unknown == ["--fast"] and mistakes[0].unknown == ["--all"]
    assert "unknown option: --fast" in mistakes[1].messages


def test_unknown_options_missing_steps_and_retries_are_distinguished() -> None:
    entries = [
        tool_entry("shop --help", "usage: shop [open|sell]\n\nerror: is what it prints when it fails"),
        tool_entry(
            "shop sell --help; shop sell apple --fast -x=1",
            "Exit code 2\nerror: unknown switch `fast'\nusage: shop sell [-x]",
        ),
        tool_entry("shop sell apple", "Error: Exit code 3\nit is closed"),
        tool_entry("shop open --now && shop list", "Exit code: 1\nshop open: unrecognized arguments: --now"),
        tool_entry("shop open && shop list", "Exit code: 0\nOutput:\nerror: none"),
        tool_entry("shop sell apple", "sold"),
        tool_entry("cat help.txt", "Exit code 1\nshop: unknown option --y"),
    ]
    sell, opening = list_mistakes(entries, ["shop"])
    assert (sell.command, sell.calls, sell.failures, sell.retries) == ("shop sell", 4, 2, 2)
    assert (sell.unknown, sell.after) == (["--fast"], ["shop open", "shop list"])
    assert sell.messages == ["error: unknown switch `fast'", "it is closed"]
    assert (opening.command, opening.calls, opening.failures, opening.retries) == ("shop open", 2, 1, 1)
    assert (opening.unknown, opening.after) == (["--now"], [])
    assert opening.messages == ["shop open: unrecognized arguments: --now"]


def test_transcripts_of_other_agent_programs_are_understood() -> None:
    head = "Chunk ID: 1\nProcess exited with code {}\nOutput:\n"
    code = 'const r = await tools.exec_command({cmd: "shop sell \\"an apple\\""}); text(r);'
    entries = [
        tool_entry(
            "shop sell --fast",
            head.format(2) + "shop: unrecognized option '--fast'\nTry 'shop --help'.\n",
            "cmd",
        ),
        tool_entry(code, head.format(1) + "no\n", "input"),
        tool_entry("shop sell", head.format(0) + "error: is what it says when it fails", "cmd"),
        tool_entry("tools.exec_command({cmd: x})", "Exit code 1", "input"),
    ]
    (mistakes,) = list_mistakes(entries, ["shop"])
    assert (mistakes.calls, mistakes.failures, mistakes.unknown) == (3, 2, ["--fast"])
    assert mistakes.messages == ["shop: unrecognized option '--fast'", "no"]


def test_malformed_transcript_rows_are_ignored() -> None:
    entries = [
        TranscriptEntry(role="tool", input={"command": 3}),
        TranscriptEntry(role="tool", input=None),
        TranscriptEntry(role="tool", input={"command": "shop 'unclosed"}, output="exit 1"),
        TranscriptEntry(role="assistant"),
    ]
    assert [entry.command for entry in list_mistakes(entries, ["shop"])] == ["shop"]
