"""Tests of parsing a command line by the command's declaration."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.errors import UsageError
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS, get_module_name
from mngr.cli.framework.parse import mask_words, parse_words, scan_options, split_leading_options, split_words_without

SAY = CommandSpec(
    name="say",
    summary="for these tests",
    arguments=(Argument(name="WHO", help="", required=False), Argument(name="WHAT", help="", required=False)),
    options=(
        Option(flags=("-m", "--message"), metavar="TEXT", help=""),
        Option(flags=("-w", "--window"), metavar="K=V", is_repeatable=True, help=""),
        Option(flags=("--count",), metavar="N", kind="int", default=1, help=""),
        Option(flags=("--after",), metavar="TIME", kind="length", help=""),
        Option(flags=("--mode",), metavar="MODE", choices=("soft", "loud"), help=""),
        Option(flags=("-f", "--force"), help=""),
        Option(flags=("--all-of-it",), help=""),
    ),
    trailing=Argument(name="CMD", help="Run this command"),
)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (
            "",
            {
                "who": None,
                "what": None,
                "message": None,
                "window": [],
                "count": 1,
                "force": False,
                "after": None,
            },
        ),
        ("a b", {"who": "a", "what": "b"}),
        ("-m hi a", {"message": "hi", "who": "a"}),
        ("-mhi", {"message": "hi"}),
        ("-m=hi", {"message": "hi"}),
        ("--message hi", {"message": "hi"}),
        ("--message=hi", {"message": "hi"}),
        ("--message=", {"message": ""}),
        ("--message=a=b", {"message": "a=b"}),
        ("--message -f", {"message": "-f", "force": False}),
        ("-m one -m two", {"message": "two"}),
        ("-w a=1 --window b=2", {"window": ["a=1", "b=2"]}),
        ("--count 12", {"count": 12}),
        ("--after 1h30m", {"after": 5400.0}),
        ("--mode loud", {"mode": "loud"}),
        ("-f", {"force": True}),
        ("-qf", {"quiet": True, "force": True}),
        ("-fm hi", {"force": True, "message": "hi"}),
        ("-fmhi", {"force": True, "message": "hi"}),
        ("--force --no-force", {"force": False}),
        ("--no-all-of-it --all-of-it", {"all_of_it": True}),
        ("-", {"who": "-"}),
        ("a --format json -S a.b=1 --set c.d=2", {"format": "json", "set": ["a.b=1", "c.d=2"], "who": "a"}),
    ],
)
def test_options_and_arguments_can_be_written_in_every_form(line: str, values: dict[str, Any]) -> None:
    args = parse_words(SAY, line.split())
    assert {key: args[key] for key in values} == values
    assert args.rest is None


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("--mesage x", "mngr say has no option --mesage", "--message"),
        ("--zzzzzz", "mngr say has no option --zzzzzz", "mngr say --help"),
        ("-z", "mngr say has no option -z", None),
        ("-fz", "mngr say has no option -z", None),
        ("--message", "--message needs a value: --message TEXT", "mngr say --help"),
        ("-m", "-m needs a value: -m TEXT", "mngr say --help"),
        ("--force=1", "--force takes no value", "mngr say --help"),
        ("--no-message", "mngr say has no option --no-message", None),
        ("--count x", "--count needs a whole number, not 'x'", None),
        ("--count -1", "--count needs a whole number, not '-1'", None),
        ("--count ２", "--count needs a whole number", None),
        ("--after soon", "'soon' is not a length of time", None),
        ("--mode lout", "--mode cannot be 'lout'", "'loud'"),
        ("--mode x", "--mode cannot be 'x'", "one of: soft, loud"),
        ("a b c", "mngr say does not take 'c'", "if it belongs to CMD, put -- before it"),
    ],
)
def test_a_wrong_word_is_named_in_the_error(line: str, said: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        parse_words(SAY, line.split())
    assert said in caught.value.message
    if hint is not None:
        assert hint in (caught.value.hint or "")


WORD = st.text().filter(lambda word: not word.startswith("-"))


@given(st.text(), st.lists(st.text()), st.none() | WORD)
def test_values_and_words_after_the_separator_arrive_unchanged(message: str, rest: list[str], who: str | None) -> None:
    arguments = [] if who is None else [who]
    for words in (
        ["--message", message, *arguments],
        [f"--message={message}", *arguments],
        [*arguments, "-m", message],
    ):
        args = parse_words(SAY, [*words, "--", *rest])
        assert (args["message"], args["who"], args.rest) == (message, who, rest)
        assert args.given == {"message"} | set(() if who is None else ("who",))


@given(st.lists(st.text()))
def test_any_words_parse_or_raise_a_usage_error(words: list[str]) -> None:
    try:
        args = parse_words(SAY, words)
    except UsageError:
        return
    assert set(args.values) >= {"who", "what", "message", "format", "help"}


@given(st.permutations([["-m", "x"], ["--count=3"], ["-w", "a=1"], ["-f"], ["one"]]))
def test_the_order_of_different_options_does_not_matter(parts: list[list[str]]) -> None:
    args = parse_words(SAY, [word for part in parts for word in part])
    assert (args["message"], args["count"], args["window"], args["force"], args["who"]) == (
        "x",
        3,
        ["a=1"],
        True,
        "one",
    )


def test_words_after_the_separator_are_arguments_if_the_command_takes_no_trailing_words() -> None:
    command = CommandSpec(name="show", summary="", arguments=(Argument(name="NAME", help="", is_repeatable=True),))
    args = parse_words(command, ["a", "--", "-b", "--", "c"])
    assert (args["name"], args.rest) == (["a", "-b", "--", "c"], None)


def test_required_arguments_get_words_before_optional_and_repeatable_ones() -> None:
    source = Argument(name="SOURCE", help="", required=False)
    files = Argument(name="FILE", help="", is_repeatable=True, required=False)
    target = Argument(name="TARGET", help="")
    optional_first = CommandSpec(name="one", summary="", arguments=(source, target))
    assert [parse_words(optional_first, words)["source"] for words in (["t"], ["s", "t"])] == [None, "s"]
    repeatable_first = CommandSpec(name="copy", summary="", arguments=(files, target))
    args = parse_words(repeatable_first, ["a", "b", "c"])
    assert (args["file"], args["target"]) == (["a", "b"], "c")
    with pytest.raises(UsageError, match="mngr copy needs TARGET"):
        parse_words(repeatable_first, [])


def test_the_help_option_needs_no_arguments() -> None:
    assert (
        parse_words(CommandSpec(name="one", summary="", arguments=(Argument(name="A", help=""),)), ["--help"])["help"]
        is True
    )


def test_the_command_line_replaces_defaults_from_the_settings() -> None:
    defaults = {
        "count": 5,
        "window": ["a=1"],
        "force": True,
        "all-of-it": True,
        "message": "hi",
        "after": "2m",
    }
    args = parse_words(SAY, [], defaults)
    assert (args["count"], args["window"], args["force"], args["all_of_it"]) == (5, ["a=1"], True, True)
    assert (args["message"], args["after"], args.given) == ("hi", 120.0, set())
    assert args.chosen == {"count", "window", "force", "all_of_it", "message", "after"}
    assert parse_words(SAY, [], {"what": "tea"})["what"] == "tea"
    assert parse_words(SAY, ["me", "milk"], {"what": "tea"})["what"] == "milk"
    args = parse_words(SAY, ["-w", "b=2", "-w", "c=3", "--no-force", "--count", "1"], defaults)
    assert (args["window"], args["force"], args["count"]) == (["b=2", "c=3"], False, 1)
    assert args.given == {"window", "force", "count"}


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ({"cuont": 1}, r"commands.say.cuont is wrong: mngr say has no option 'cuont'"),
        ({"force": "yes"}, "commands.say.force must be true or false"),
        ({"count": "many"}, "--count needs a whole number"),
        ({"mode": "quiet"}, "--mode cannot be 'quiet'"),
    ],
)
def test_a_wrong_setting_is_named_in_the_error(defaults: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_words(SAY, [], defaults)


VALUE_OPTIONS = [
    (command, option)
    for name in COMMANDS
    for command in [importlib.import_module(get_module_name(name)).COMMAND]
    for option in command.options
    if not option.is_switch
]
TEMPTING_VALUES = (
    st.sampled_from(["-h", "--help", "-V", "--json", "--format=json", "--home", "-S", "--", "-q"]) | st.text()
)


@given(st.sampled_from(VALUE_OPTIONS), TEMPTING_VALUES)
def test_the_value_of_an_option_is_never_read_as_an_option(declared: tuple[CommandSpec, Option], value: str) -> None:
    command, option = declared
    for flag in option.flags:
        for words in ([flag, value], [f"{flag}={value}"]):
            assert not any(scan_options(command, words).values())
            if option.kind == "text" and not option.choices:
                parsed = parse_words(command.replace(arguments=()), words)[option.key]
                assert parsed == ([value] if option.is_repeatable else value)


@pytest.mark.parametrize(
    ("line", "leading", "rest"),
    [
        ("--home list list", ["--home", "list"], ["list"]),
        ("-qS a.b=1 --json list -h", ["-qS", "a.b=1", "--json"], ["list", "-h"]),
        ("--format -h", ["--format", "-h"], []),
        ("-V", ["-V"], []),
        ("-q -- list", ["-q"], ["--", "list"]),
    ],
)
def test_common_options_may_come_before_the_command(line: str, leading: list[str], rest: list[str]) -> None:
    assert split_leading_options(line.split()) == (leading, rest)


def test_a_mask_hides_every_value_and_shows_the_flags() -> None:
    words = ["-mSECRET", "--message=SECRET", "-m", "--SECRET", "-f", "SECRET", "--secret", "--", "SECRET"]
    assert mask_words(SAY, words) == ["-m", "…", "--message", "…", "-m", "…", "-f", "…", "…", "…"]


def test_options_are_removed_from_a_command_line_in_every_form() -> None:
    words = ["ann", "--count=2", "-fmhi", "--count", "3", "-w", "--count", "--", "--count", "4"]
    assert split_words_without(SAY, words, {"count", "force"}) == (
        ["ann", "-m", "hi", "-w", "--count"],
        ["--", "--count", "4"],
    )
