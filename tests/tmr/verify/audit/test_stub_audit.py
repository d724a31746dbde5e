"""The audit finds tests that would not notice a broken program, however they call it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mngr.tmr.cleanroom.program_sources import read_program
from mngr.tmr.runners.pytest.runner import PytestOptions
from mngr.tmr.verify.audit import command_options
from mngr.tmr.verify.audit.stub_audit import MODES, AuditResult, audit_test
from tests.tmr.world import PYTEST, World, new_world

pytestmark = pytest.mark.agents

FILES = {
    "bin/note": """\
        #!/bin/sh
        case $1 in
        add) word=$2; [ "$3" = --loud ] && word=$word!; echo "$word" >>notes.txt; echo "added $word" ;;
        list) cat notes.txt ;;
        *) echo "usage: note add WORD [--loud], note list" ;;
        esac
        """,
    "tests/test_note.py": '''
        import os
        import subprocess
        from pathlib import Path

        import pytest

        BIN = Path(__file__).parents[1] / "bin"


        def sh(line, place):
            env = {"PATH": f"{BIN}:/usr/bin:/bin"}
            return subprocess.run(line, shell=True, cwd=place, env=env, capture_output=True, text=True).stdout


        @pytest.fixture
        def place(tmp_path):
            os.chmod(BIN / "note", 0o755)
            return tmp_path


        def test_by_its_path(place):
            subprocess.run([BIN / "note", "add", "x"], cwd=place, check=True)


        def test_by_another_program(place):
            assert subprocess.check_output(["sh", str(BIN / "note"), "add", "x"], cwd=place) is not None


        def test_as_the_arguments_of_a_line(place):
            subprocess.run(["sh", "-c", '"$@"', "sh", BIN / "note", "add", "x"], cwd=place, check=True)


        def test_from_a_place_that_is_gone(place, monkeypatch):
            monkeypatch.chdir(place)
            place.rmdir()
            subprocess.run([BIN / "note"], check=True)


        def test_in_a_line(place):
            assert sh("note add x --loud >/dev/null && note list | tr x y", place) == "y!\\n"


        def test_of_a_word_that_is_everywhere(place):
            sh("note add my-note", place)
            assert "note" in sh("note list", place)


        def test_with_an_option(place):
            assert "added x" in sh("note add x --loud", place)


        def test_with_something_else_before_it(place):
            sh("note add x", place)
            assert sh("note add y", place) == "added y\\n"


        def test_the_usage(place):
            assert sh("note --help", place).startswith("usage: ")


        @pytest.mark.parametrize("word", ["added", ""])
        def test_twice(place, word):
            assert word in sh("note add x", place)


        def test_cites(place):
            """Adds a word.

            Tutorial block:
                note add x
            """
            assert True


        def test_something_else():
            assert 1 + 1 == 2
        ''',
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with new_world(tmp_path_factory.mktemp("audit"), FILES) as world:
        yield world


def run_audit(world: World, name: str, *modes: str) -> AuditResult:
    return audit_test(
        world.room, PytestOptions(pytest=PYTEST), world.test(name), program="note", modes=modes or ("nop", "help")
    )


def list_gaps(world: World, name: str, *modes: str) -> list[tuple[str, str]]:
    return [(gap.rule, gap.mode) for gap in run_audit(world, name, *modes).holes]


def line(text: str) -> int:
    source = FILES["tests/test_note.py"].split("\n")
    return next(number for number, row in enumerate(source, 1) if text in row)


@pytest.mark.parametrize(
    "name",
    [
        "test_by_its_path",
        "test_by_another_program",
        "test_as_the_arguments_of_a_line",
        "test_from_a_place_that_is_gone",
    ],
)
def test_a_test_that_ignores_the_output_is_vacuous(world: World, name: str) -> None:
    assert list_gaps(world, name) == [("vacuous", "nop"), ("vacuous", "help")]


def test_a_test_that_accepts_the_usage_text_is_vacuous(world: World) -> None:
    assert list_gaps(world, "test_of_a_word_that_is_everywhere") == [("vacuous", "help")]


def test_a_test_that_checks_the_output_is_guarded(world: World) -> None:
    result = run_audit(world, "test_in_a_line", "nop", "help", "each", "drop")
    assert (result.outcome, result.holes, result.runs) == ("guarded", [], 6)


def test_a_test_of_the_usage_text_is_guarded(world: World) -> None:
    assert run_audit(world, "test_the_usage").outcome == "guarded"


def test_an_unguarded_option_is_reported_with_its_line(world: World) -> None:
    (finding,) = [gap.finding for gap in run_audit(world, "test_with_an_option", *MODES).holes]
    assert (finding.rule, finding.level, finding.new) == ("unguarded-option", "note", "note add x --loud")
    assert (finding.path, finding.line) == ("tests/test_note.py", line('"note add x --loud"'))
    assert finding.what == "test_with_an_option still passes without the option --loud: `note add x --loud`"


def test_an_unguarded_command_is_reported_as_a_note(world: World) -> None:
    (gap,) = run_audit(world, "test_with_something_else_before_it", "nop", "each").holes
    assert (gap.rule, gap.mode, gap.command) == ("unguarded-command", "each", "note add x")
    assert gap.line == line('"note add y"') - 1


def test_one_vacuous_parameter_makes_the_test_vacuous(world: World) -> None:
    (gap,) = run_audit(world, "test_twice", "nop").holes
    assert gap.what == "test_twice[] still passes when note does nothing and prints nothing"


def test_a_test_that_never_runs_its_cited_command_is_vacuous(world: World) -> None:
    (gap,) = run_audit(world, "test_cites").holes
    assert (gap.rule, gap.what) == ("vacuous", "test_cites cites `note add x` but never runs it")
    assert run_audit(world, "test_something_else").outcome == "no-command"


HELP = """
  -n, --name TEXT     who
  -q, --quiet         say nothing
  --sort [-]FIELD     order
  --level {low,high}
  --colour string     which
"""


@pytest.mark.parametrize(
    ("words", "cuts"),
    [
        ("add x --quiet y", {"--quiet": [(2, 3)]}),
        ("add --name x -q", {"--name": [(1, 3)], "-q": [(3, 4)]}),
        ("-n x --sort -y", {"-n": [(0, 2)], "--sort": [(2, 3)], "-y": [(3, 4)]}),
        ("--level low --colour red", {"--level": [(0, 2)], "--colour": [(2, 4)]}),
        ("--name=x y", {"--name": [(0, 1)]}),
        ("--other x", {"--other": [(0, 2), (0, 1)]}),
        ("run -- make -j", {}),
        ("take -5 -", {}),
    ],
)
def test_an_option_is_removed_together_with_its_value(words: str, cuts: dict[str, list[tuple[int, int]]]) -> None:
    options = command_options.propose_option_removals(
        words.split(), lambda flag: command_options.can_take_value(flag, HELP)
    )
    assert dict(options) == cuts


@pytest.mark.parametrize(
    ("line", "stubbed"),
    [
        ("{note} add x", "{stub} add x"),
        ("cd y && '{note}' add x | {note} list", "cd y && '{stub}' add x | {stub} list"),
        (
            "A=1 timeout 5 {note}; if ! {note}; then {note}; fi",
            "A=1 timeout 5 {stub}; if ! {stub}; then {stub}; fi",
        ),
        ("python3 -u {note} add\nsh {note}", "python3 -u {stub} add\nsh {stub}"),
        ("x=$({note} list)", "x=$({stub} list)"),
        ("bin/note", "{stub}"),
        ("cat {note} && ls bin/note", "cat {note} && ls bin/note"),
        ("{note}-other list; /none/note list", "{note}-other list; /none/note list"),
        ("python -m note add && python3 -m notes", "{module} add && python3 -m notes"),
    ],
)
def test_a_shell_line_is_redirected_to_the_stub(tmp_path: Path, line: str, stubbed: str) -> None:
    plugin: dict[str, Any] = {"observer": SimpleNamespace(FACTS={"report": str(tmp_path / "report")})}
    plugin["observer"].FACTS["plugin_settings"] = {"words": ["note"], "mode": "plain", "stub": ""}
    exec(read_program("stub_plugin.py", str(Path(command_options.__file__).parent)), plugin)
    note = tmp_path / "bin" / "note"
    note.parent.mkdir()
    note.touch()
    stub = plugin["_redirect_path"](str(note), "/")
    assert stub != str(note)
    paths = {"note": note, "stub": stub, "module": f"{plugin['ROOT']}/module/note"}
    original, expected = line.format(**paths), stubbed.format(**paths)
    assert plugin["_redirect_shell_line"](original, str(tmp_path)) == expected
    assert plugin["_redirect_words"](["setsid", "--ctty", "sh", "-c", original], str(tmp_path))[-1] == expected
    if "\n" not in original and not set("&|;()'") & set(original):
        assert plugin["_redirect_words"](original.split(), str(tmp_path)) == expected.split()
