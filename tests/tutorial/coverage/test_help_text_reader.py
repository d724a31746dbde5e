"""Reads the commands of programs with different help styles, and finds their calls in shell code."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.errors import MngrError
from mngr.tutorial.coverage import help_text_reader
from mngr.tutorial.coverage.coverage import resolve_use
from mngr.tutorial.coverage.help_text_reader import (
    CommandTree,
    ProgramCommand,
    parse_command_list,
    parse_help,
    parse_usage_options,
)
from mngr.tutorial.coverage.read_tree import read_tree
from mngr.tutorial.coverage.shell_words import list_calls
from tests.conftest import BIN_DIR

ARGPARSE = f"""#!{sys.executable}
import argparse
parser = argparse.ArgumentParser(prog="ap", description="The program adds.")
parser.add_argument("--debug", action=argparse.BooleanOptionalAction)
parser.add_argument("--level", choices=["low", "high"], help="how much")
subs = parser.add_subparsers(title="what to do", metavar="WHAT")
add = subs.add_parser("add", help="add it", aliases=["plus"])
add.add_argument("colour", choices=["red", "blue"])
add.add_argument("-f", "--file-name", metavar="FILE-NAME", help="a file -x --y")
remote = subs.add_parser("remote", help="far away").add_subparsers()
remote.add_parser("show", help="show it")
remote.add_parser("rm").add_argument("--force", action="store_true")
parser.parse_args()
"""
CLICK = f"""#!{sys.executable}
import click
@click.group()
@click.option("-v/-q", "--verbose/--quiet", help="talk")
def cli(verbose): pass
@cli.command()
@click.option("-n", "--name", help="a name", required=True)
@click.argument("what", type=click.Choice(["red", "blue"]))
def make(name, what):
    \"\"\"Make a thing.\"\"\"
@cli.group("cfg")
def cfg(): "Settings."
@cfg.command()
@click.option("--all", is_flag=True)
def get(all): "Get one."
@cfg.command()
def path(): "Where it is."
cli(prog_name="cl")
"""


@pytest.fixture
def programs_dir(tmp_path: Path) -> Path:
    for name, text in {"ap": ARGPARSE, "cl": CLICK}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def summarize_tree(tree: CommandTree) -> dict[str, tuple[bool, tuple[tuple[str, ...], ...]]]:
    return {" ".join(command.words): (command.is_group, command.options) for command in tree.commands}


def test_commands_are_read_from_the_help_of_argparse(programs_dir: Path) -> None:
    tree = read_tree(["./ap"], str(programs_dir))
    assert summarize_tree(tree) == {
        "": (True, (("-h", "--help"), ("--debug", "--no-debug"), ("--level",))),
        "add": (False, (("-f", "--file-name"),)),
        "remote": (True, ()),
        "remote show": (False, ()),
        "remote rm": (False, (("--force",),)),
    }
    assert [command.aliases for command in tree.commands if command.words == ("add",)] == [("plus",)]


def test_commands_are_read_from_the_help_of_click(programs_dir: Path) -> None:
    assert summarize_tree(read_tree(["./cl"], str(programs_dir))) == {
        "": (True, (("-v", "--verbose", "-q", "--quiet"), ("--help",))),
        "cfg": (True, ()),
        "cfg get": (False, (("--all",),)),
        "cfg path": (False, ()),
        "make": (False, (("-n", "--name"),)),
    }


def test_commands_are_read_from_the_completion_of_click(programs_dir: Path) -> None:
    assert summarize_tree(read_tree([str(programs_dir / "cl")], str(programs_dir), "completion")) == {
        "": (True, (("--verbose",), ("--quiet",), ("--help",))),
        "cfg": (True, ()),
        "cfg get": (False, (("--all",),)),
        "cfg path": (False, ()),
        "make": (False, (("--name",),)),
    }


def test_commands_are_read_from_the_help_of_mngr() -> None:
    help_text = parse_help(
        "p does it.\n\nUsage: p COMMAND\n\nAgents\n  create             make it\n  list, ls           show\n"
        "  config get         one setting\n\nOptions everywhere\n  -q, --quiet                  say nothing\n"
        "\nStart here\n  p other foo -- x   an example\n  p help COMMAND     more\n",
        ("p",),
    )
    assert {child.name: child.aliases for child in help_text.children} == {
        "create": (),
        "list": ("ls",),
        "config get": (),
    }
    assert help_text.options == (("-q", "--quiet"),)
    assert parse_help("  p config get   one setting\n", ("p", "config")).children == []
    group_help = parse_help("Commands\n  p config get   one setting\n", ("p", "config"))
    assert [child.name for child in group_help.children] == ["get"]


@pytest.mark.parametrize(
    ("text", "options", "children"),
    [
        ("Available Commands:\n  run         Run it\n\nFlags:\n  -h, --help   help for x\n      --all    everything\n",
         [("-h", "--help"), ("--all",)], ["run"]),
        ("╭─ Options ───────╮\n│ --name  TEXT  who │\n╰──────────╯\n╭─ Commands ─────╮\n│ hello   Say it.  │\n╰────────╯\n",
         [("--name",)], ["hello"]),
        ("Options:\n  -j, --jobs <N-M>\n          how many -x at once\n      --[no-]wait   wait\n", [("-j", "--jobs"), ("--wait", "--no-wait")], []),
        ("positional arguments:\n  file    the file\n  {a,b}   a choice\n", [], ["a", "b"]),
        ("\x1b[1mCommands:\x1b[0m\n  \x1b[32mgo\x1b[0m     go on and on and\n         on\n", [], ["go"]),
        ("Examples:\n  run  --all\n  --all\n", [], []),
        ("usage: x [<options>] [--] <path>...\n\n    -n, --dry-run   dry run\n    --chmod (+|-)x  bits\n",
         [("-n", "--dry-run"), ("--chmod",)], []),
        ("All commands:\n\n    access, adduser, ci,\n    view, whoami\n\nMore: x help\n", [], ["access", "adduser", "ci", "view", "whoami"]),
        ("Usage:\nx [<a>]\n\nOptions:\n[-a|--all] [--save|--save-dev] [--no-wait|--wait]\n",
         [("-a", "--all"), ("--save",), ("--save-dev",), ("--no-wait", "--wait")], []),
    ],
)  # fmt: skip
def test_commands_are_read_from_other_help_styles(
    text: str, options: list[tuple[str, ...]], children: list[str]
) -> None:
    help_text = parse_help(text, ("x",))
    assert (list(help_text.options), [child.name for child in help_text.children]) == (options, children)


def test_commands_are_read_from_usage_lines() -> None:
    help_text = parse_help(
        "usage: g remote [-v | --verbose]\n   or: g remote add [-f] <name>\n   or: g remote [-v] show [-n] <name>\n",
        ("g", "remote"),
    )
    assert [child.name for child in help_text.children] == ["add", "show"]
    assert help_text.options == (("-v", "--verbose"), ("-f",), ("-v",), ("-n",))


def test_commands_are_read_from_lists_with_usage() -> None:
    npm = parse_command_list(
        "npm <command>\n\nAll commands:\n\n    access          Set it\n                    Usage:\n                    npm access\n"
        "                    Options:\n                    [--json] [--otp <otp>]\n                    alias: acc\n"
        "    bugs            Report bugs\n"
    )
    assert [(command.name, command.aliases, parse_usage_options(command.usage)) for command in npm[1:]] == [
        ("access", ("acc",), (("--json",), ("--otp",))),
        ("bugs", (), ()),
    ]
    commands = summarize_tree(read_tree(["tmux"], "/"))
    assert {("-L",), ("-V",)} <= set(commands[""][1])
    assert {("-d",), ("-c",), ("-t",)} <= set(commands["attach-session"][1])


def test_an_unreadable_help_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "p"
    program.write_text(
        "#!/bin/sh\ncase \"$*\" in --help) printf 'Commands:\\n  go   on\\n  no   more\\n' ;;\n"
        "'go --help') echo 'illegal option --help' ;; 'go -h') printf 'usage: p go [-ab] [-f file]\\n' ;;\n"
        "*) echo 'Nothing to see here.' ;; esac\n"
    )
    program.chmod(0o755)
    tree = read_tree(["./p"], str(tmp_path))
    assert summarize_tree(tree)["go"] == (False, (("-a",), ("-b",), ("-f",)))
    assert [str(problem) for problem in tree.problems] == [
        "p no --help:1: mngr finds neither options nor commands in it: Nothing to see here."
    ]


def test_a_program_runs_in_an_empty_directory_without_the_users_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    program = tmp_path / "p"
    program.write_text(
        f"#!/bin/sh\nenv > {tmp_path}/env; pwd > {tmp_path}/pwd; ls -A; echo 'Options:'; echo '  --x  y'\n"
    )
    program.chmod(0o755)
    assert summarize_tree(read_tree(["./p"], str(tmp_path))) == {"": (False, (("--x",),))}
    variables = (tmp_path / "env").read_text()
    assert "SECRET_TOKEN" not in variables
    assert f"HOME={(tmp_path / 'pwd').read_text()}" in variables


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sleep 1000", "did not finish within 0.3s"),
        ("yes", "lists neither commands nor options"),
        ("exit 1", "lists neither commands nor options"),
        ("echo Commands:; for x in a b c d e; do echo \"  $x$2  more\"; done; echo \"$*\"", "too many commands"),
    ],
)  # fmt: skip
def test_a_misbehaving_program_is_limited_in_time_and_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    monkeypatch.setattr(help_text_reader, "_CALL_TIMEOUT", 0.3)
    monkeypatch.setattr(help_text_reader, "_MAX_CALLS", 10)
    program = tmp_path / "p"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    began, computed = time.monotonic(), time.process_time()
    try:
        problems = [problem.message for problem in read_tree(["./p"], str(tmp_path)).problems]
    except MngrError as error:
        problems = [error.message]
    assert time.process_time() - computed < 5 and time.monotonic() - began < 20
    assert any(said in problem for problem in problems), problems


def test_a_program_is_found_in_the_projects_own_environment(tmp_path: Path) -> None:
    with pytest.raises(MngrError, match="the program no-such-thing is not installed"):
        read_tree(["no-such-thing"], str(tmp_path))
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/no-such-thing").symlink_to(BIN_DIR / "lint-imports")
    assert ("--config",) in read_tree(["no-such-thing"], str(tmp_path)).commands[0].options


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("app list --all", [["list", "--all"]]),
        ("echo x | ./bin/app add - && app rm 'a b'; timeout 1 app", [["add", "-"], ["rm", "a b"], []]),
        ("for x in $(app list --ids); do app rm $x >/dev/null 2>&1; done", [["list", "--ids"], ["rm", "$x"]]),
        ('test "$(app version)" = "`app --version`"', [["version"], ["--version"]]),
        ("app add --text 'app rm'", [["add", "--text", "app rm"]]),
        ("cat <<E | app add -\nit's\nE\n", [["add", "-"]]),
        ("apple list; my-app x", []),
    ],
)
def test_calls_of_a_program_are_found_in_shell_code(text: str, words: list[list[str]]) -> None:
    assert sorted(list_calls(text, ["app"])) == sorted(words)


def test_a_program_can_have_several_words() -> None:
    assert list_calls("python -m app list && python -m other", ["python", "-m", "app"]) == [["list"]]


@given(st.text("ab '\"`$()|&;<>\\\n", max_size=40))
def test_finding_calls_in_arbitrary_text_raises_nothing(text: str) -> None:
    list_calls(text, ["a"])


TREE = CommandTree(
    program=["app"],
    commands=[
        ProgramCommand(words=(), options=(("-q", "--quiet"), ("-S", "--set"))),
        ProgramCommand(words=("list",), aliases=("ls",), options=(("--all",), ("-n", "--number"))),
        ProgramCommand(words=("config", "get"), options=()),
    ],
    problems=[],
)


@pytest.mark.parametrize(
    ("words", "command", "flags"),
    [
        ("ls --all=yes", ("list",), ("--all",)),
        ("-S a=b list -n5", ("list",), ("-S", "-n")),
        ("-qS x config get list", ("config", "get"), ("-q", "-S")),
        ("list --no-all -- --quiet", ("list",), ("--all",)),
        ("other", (), ()),
    ],
)
def test_words_are_resolved_to_a_command_and_its_flags(
    words: str, command: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    use = resolve_use(TREE, words.split())
    assert (use.words, use.flags) == (command, flags)
