"""Reads a program's commands and options from its help texts."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator

from mngr.base import shell
from mngr.base.errors import MngrError, TimedOut
from mngr.base.fanout import map_parallel
from mngr.base.model import Struct
from mngr.tutorial.blocks import ReadProblem

_MAX_CALLS = 400
_MAX_TOTAL_SECONDS = 120.0
_CALL_TIMEOUT = 20.0
_MAX_DEPTH = 4
_MAX_UNREAD_NAMES = 5  # commands with an unreadable help that are named at most
# Some programs list all commands outside their help, and some show their options only with -h.
_LIST_COMMANDS = {"git": ("help", "-a"), "mngr": ("help", "all"), "npm": ("-l",), "tmux": ("list-commands",)}
_SHORT_HELP_PROGRAMS = ("git",)
SETUP_COMMANDS = {"git": ("init", "-q")}  # some commands of the program print no help without it
_MAX_HELP_BYTES = 200_000  # bytes of one help text
_RUN_SCRIPT = f'cd "$1" && shift && "$@" </dev/null 2>&1 | head -c {_MAX_HELP_BYTES}'

_FLAG = re.compile(r"(?<![\w-])(--\[no-\][\w-]+|--?[A-Za-z0-9?][\w-]*)")
_ENTRY = re.compile(
    r"(?P<name>[a-z0-9][\w.:+-]*(?: [a-z][\w-]*)?)(?P<more>(?:, [a-z][\w-]*)+| \([a-z][\w, -]*\))?(?P<rest>\s{2,}\S.*)?"
)
_CHOICES = re.compile(r"\{([\w.:+-]+(?:,[\w.:+-]+)*)\}")
# A line that holds only names.
_ROW = re.compile(r"[a-z][\w:-]*(?:, [a-z][\w:-]*){2,},?|(?:[a-z][\w:-]*, )+[a-z][\w:-]*,")
_USAGE = re.compile(r"\s*usage|\s*or: | ?\[", re.IGNORECASE)
_LISTED = re.compile(r"(?P<name>[a-z][\w-]*)(?: \((?P<alias>[a-z][\w-]*)\))?(?= |$)(?P<usage>(?: [\[<(-].*)?)")
_REFUSED = re.compile(
    r"(unknown|unrecogni[sz]ed|no such|invalid|illegal)( long)? (option|argument|flag|switch)", re.IGNORECASE
)
_NO_COMMAND = re.compile(r"is not a \S+ command|(unknown|no such|invalid) (sub)?command", re.IGNORECASE)
_TEXTS = re.compile(r"example|start here|see also|environment|learn more|description|note|exit", re.IGNORECASE)


class ProgramCommand(Struct):
    """A command of the program. The program itself has no words."""

    words: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    options: tuple[tuple[str, ...], ...] = ()  # each with all its flags; without the options of parent commands
    is_group: bool = False


class NamedCommand(Struct):
    """A command that a help text names."""

    name: str
    aliases: tuple[str, ...] = ()
    has_own_line: bool = False  # it has its own line, instead of being one of several words in a line
    usage: str = ""  # the whole usage text of the command


class HelpText(Struct):
    """The options and commands that a help text lists."""

    options: tuple[tuple[str, ...], ...] = ()
    shared_options: tuple[tuple[str, ...], ...] = ()  # below a heading such as `Common options`: every command has them
    children: list[NamedCommand] = []


class _HelpRequest(Struct):
    """A command whose help must be read, and the help text that named it."""

    words: tuple[str, ...]
    child: NamedCommand
    parent_help: str


class CommandTree(Struct):
    """All commands of a program."""

    program: list[str]
    commands: list[ProgramCommand]
    problems: list[ReadProblem]


class HelpRunner:
    """Runs the program in an empty directory without the user's variables, with limits on time and calls."""

    def __init__(self, program: list[str], directory: str) -> None:
        self.program = program
        self.place = directory
        self.env = {
            "PATH": shell.get_path_without_relative_entries(),
            "HOME": directory,
            "TMPDIR": directory,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "MANPAGER": "cat",
            "MANWIDTH": "200",
            "TMUX_TMPDIR": directory,
        }
        self.name = os.path.basename(program[0])
        self.problems: list[ReadProblem] = []
        self._left = _MAX_CALLS
        self._deadline = time.monotonic() + _MAX_TOTAL_SECONDS

    def run_program(self, argv: list[str], **variables: str) -> str:
        """Return the output, or an empty string and a noted problem when a limit is exceeded."""
        if self._left <= 0 or time.monotonic() > self._deadline:
            self._add_problem("it has too many commands; mngr did not read the help of all of them")
            return ""
        self._left -= 1
        command = ["sh", "-c", _RUN_SCRIPT, "sh", self.place, *argv]
        try:
            out = shell.run(command, timeout=_CALL_TIMEOUT, env={**self.env, **variables}, display_argv=argv).out
        except TimedOut:
            self._add_problem(f"{shell.abbreviate(argv)} did not finish within {_CALL_TIMEOUT:g}s")
            return ""
        return out.decode("utf-8", "replace")

    def read_help_text(self, words: tuple[str, ...]) -> str:
        """Return the help of the program or of one of its commands."""
        if self.name in _SHORT_HELP_PROGRAMS:
            return self.run_program([*self.program, *words, "-h"])
        text = self.run_program([*self.program, *words, "--help"])
        return self.run_program([*self.program, *words, "-h"]) if _REFUSED.search(text) else text

    def _add_problem(self, text: str) -> None:
        problem = ReadProblem(path=self.name, line=0, message=text)
        if problem not in self.problems:
            self.problems.append(problem)

    def note_unreadable(self, unread: list[tuple[tuple[str, ...], str]]) -> None:
        """Note commands whose help lists neither options nor commands."""
        for words, text in unread[:_MAX_UNREAD_NAMES]:
            flag = "-h" if self.name in _SHORT_HELP_PROGRAMS else "--help"
            first_line = text.strip().partition("\n")[0]
            message = (
                f"mngr finds neither options nor commands in it: {first_line}" if first_line else "it prints nothing"
            )
            self.problems.append(ReadProblem(path=" ".join([self.name, *words, flag]), line=1, message=message))
        if len(unread) > _MAX_UNREAD_NAMES:
            self._add_problem(f"mngr cannot read the help of {len(unread) - _MAX_UNREAD_NAMES} more commands")


def get_program(name: str, root: str) -> str:
    """Return the path of a program. Raise MngrError when it is not installed."""
    if os.sep in name:
        candidates: list[str | None] = [os.path.join(root, name), os.path.abspath(name)]
    else:
        folders = [os.path.join(root, folder) for folder in (".venv/bin", "venv/bin", "node_modules/.bin")]
        candidates = [shutil.which(name, path=":".join([shell.get_path_without_relative_entries(), *folders]))]
    for path in candidates:
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise MngrError(f"the program {name} is not installed", "install it, or name another program: --program NAME")


def read_help(runner: HelpRunner) -> list[ProgramCommand]:
    """Read the help of the program and then of all its commands, level by level."""
    commands: dict[tuple[str, ...], ProgramCommand] = {}
    unread: list[tuple[tuple[str, ...], str]] = []
    shared_options: dict[tuple[str, ...], None] = {}
    listed = _list_commands(runner)
    described = {name for child in listed if child.usage for name in (child.name, *child.aliases)}
    requests = [_HelpRequest(words=(), child=NamedCommand(name=""), parent_help="")]
    for _ in range(_MAX_DEPTH):
        texts = map_parallel(lambda item: runner.read_help_text(item.words), requests, at_once=4)
        next_requests: list[_HelpRequest] = []
        for request, text in zip(requests, texts, strict=True):
            if isinstance(text, Exception):
                raise text
            is_same = text == request.parent_help
            if (is_same and not request.child.has_own_line) or (request.words and _NO_COMMAND.search(text)):
                continue  # It is a value of an argument, not a command.
            help = HelpText() if is_same else parse_help(text, (runner.name, *request.words))
            if not (is_same or help.options or help.children or re.search("usage", text, re.IGNORECASE)):
                unread.append((request.words, text))
            shared_options.update(dict.fromkeys(help.shared_options))
            command = ProgramCommand(words=request.words, aliases=request.child.aliases, options=help.options)
            commands.setdefault(request.words, command)
            for child in [*help.children, *(listed if not request.words else ())]:
                words = (*request.words, *child.name.split())
                if words not in commands and (request.words or child.name not in described):
                    next_requests.append(_HelpRequest(words=words, child=child, parent_help=text))
        requests = list({item.words: item for item in next_requests}.values())
    for child in listed:
        if child.usage:
            words = (child.name,)
            commands[words] = ProgramCommand(
                words=words, aliases=child.aliases, options=parse_usage_options(child.usage)
            )
    if () in commands:
        options = dict.fromkeys([*commands[()].options, *shared_options])
        commands[()] = commands[()].replace(options=tuple(options))
    runner.note_unreadable(unread)
    return list(commands.values())


def _list_commands(runner: HelpRunner) -> list[NamedCommand]:
    """Return the commands from the program's own list command, some with their usage."""
    if runner.name not in _LIST_COMMANDS:
        return []
    children = parse_command_list(runner.run_program([*runner.program, *_LIST_COMMANDS[runner.name]]))
    return [child for child in children if child.name != runner.name]


def parse_command_list(text: str) -> list[NamedCommand]:
    """Return the commands of a list.

    The lines look like `name  description`, possibly with more lines below, or like `name (alias) [-abc] [-t target]`.
    """
    children: list[NamedCommand] = []
    depth = 0
    for line in _iter_plain_lines(text):
        indent = len(line) - len(line.lstrip())
        match = None if indent else _LISTED.fullmatch(line)
        if match and match["usage"]:
            aliases = (match["alias"],) if match["alias"] else ()
            children.append(NamedCommand(name=match["name"], aliases=aliases, usage=match["usage"]))
        elif children and depth and indent > depth + 4:
            alias_line = re.match(r"\s+alias(?:es)?: (.+)", line)
            aliases_below = tuple(re.findall(r"[\w-]+", alias_line[1])) if alias_line else ()
            usage = f"{children[-1].usage}{line.strip()}\n"
            children[-1] = children[-1].replace(usage=usage, aliases=(*children[-1].aliases, *aliases_below))
        elif indent and (entry := re.match(r"\s+([a-z][\w-]*) +\S", line)):
            depth = indent
            children.append(NamedCommand(name=entry[1]))
    return children


def parse_help(text: str, words: tuple[str, ...]) -> HelpText:
    """Return the options and commands in the help text of the command `words`."""
    options: dict[tuple[str, ...], None] = {}
    shared_options: dict[tuple[str, ...], None] = {}
    children: dict[str, NamedCommand] = {}
    kind, depth = "text", 0
    continues = False
    for line in _iter_plain_lines(text):
        indent = len(line) - len(line.lstrip())
        if not indent:
            kind, depth = _classify_heading(line), 0
            continue
        entry = line.strip()
        if entry.startswith("-"):
            flags = tuple(_list_flags(re.split(r"\s{2,}", entry)[0]))
            is_listed = kind != "text" and (kind != "usage" or not entry.endswith("]"))
            (shared_options if kind == "shared options" else options).update(
                {flags: None} if flags and is_listed else {}
            )
            continue
        if kind not in ("commands", "arguments", "other"):
            continue
        if kind == "commands" and (continues or _ROW.fullmatch(entry)):
            continues = entry.endswith(",")
            children.update({name: NamedCommand(name=name) for name in re.findall(r"[a-z][\w:-]*", entry)})
            continue
        choices = _CHOICES.match(entry)
        if choices and kind != "other":
            children.update({name: NamedCommand(name=name) for name in choices[1].split(",")})
        is_head = not re.search(r"\S\s{2,}\S", entry) and not entry[0].islower()
        depth = indent if is_head or not depth else depth
        if indent > depth + 4 or (kind == "arguments" and (is_head or indent <= depth)):
            continue
        child = _find_entry_command(entry, words, allow_bare_name=kind != "other")
        if child:
            children[child.name] = child
    children.update(
        {name: NamedCommand(name=name) for name in _list_usage_commands(text, words) if name not in children}
    )
    aliases = {alias for child in children.values() for alias in child.aliases}
    return HelpText(
        options=tuple(options) or (() if shared_options else parse_usage_options(text)),
        shared_options=tuple(shared_options),
        children=[c for c in children.values() if c.name not in aliases],
    )


def parse_usage_options(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the options in brackets of a usage: `[-abc]`, `[-f file]`, `[-n | --dry-run]`."""
    options: dict[tuple[str, ...], None] = {}
    is_in_usage = False
    for line in _iter_plain_lines(text):
        is_in_usage = (is_in_usage and line[0] == " ") or bool(_USAGE.match(line))
        for group in re.findall(r"\[\s*(-[^\[\]]*)", line) if is_in_usage else []:
            flags = _list_flags(group)
            is_letter_group = len(flags) == 1 and group.strip() == flags[0] and re.fullmatch(r"-\w{2,}", flags[0])
            if is_letter_group and len(set(flags[0])) == len(flags[0]):
                options.update({(f"-{letter}",): None for letter in flags[0][1:]})
            else:
                options.update(dict.fromkeys(_group_flags(flags)))
    return tuple(options)


def _group_flags(flags: list[str]) -> list[tuple[str, ...]]:
    """Group a short flag with its long one, and a flag with its --no-flag, as one option."""
    groups: list[tuple[str, ...]] = []
    for flag in flags:
        previous = groups[-1] if groups else ()
        plain = flag.replace("--no-", "--", 1)
        is_long_of = flag.startswith("--") and len(previous) == 1 and not previous[0].startswith("--")
        if is_long_of or any(plain == other.replace("--no-", "--", 1) for other in previous):
            groups[-1] = (*previous, flag)
        else:
            groups.append((flag,))
    return groups


def _list_usage_commands(text: str, words: tuple[str, ...]) -> list[str]:
    """Return the commands that a usage names line by line, as git does: `or: git remote add <name>`."""
    usage_line = re.compile(rf"\s*(?:usage|or): {re.escape(' '.join(words))} (?:\[[^\[\]]*\] )*([a-z][a-z-]+)(?= |$)")
    names = [match[1] for line in _iter_plain_lines(text) if (match := usage_line.match(line))]
    return list(dict.fromkeys(names)) if len(words) > 1 and re.search(r"^\s*or: ", text, re.MULTILINE) else []


def _iter_plain_lines(text: str) -> Iterator[str]:
    """Yield the lines without colours and without the boxes that some programs draw around them."""
    for line in re.sub(r"\x1b\[[0-9;]*[A-Za-z]|.\x08", "", text).split("\n"):
        boxed = re.match(r"\s*[╭┌]─+ (.+?) ─+", line)
        line = boxed[1] if boxed else re.sub(r"^\s*│|│\s*$", "", line)
        if line.strip() and not re.match(r"\s*[╰└]─", line):
            yield line.rstrip()


def _classify_heading(heading: str) -> str:
    """Return what kind of lines follow a heading."""
    title = heading.strip().rstrip(":").lower()
    if re.search(r"\b(options|flags)\b", title) and not title.startswith("usage"):
        return "shared options" if re.match(r"(common|global|inherited|shared) ", title) else "options"
    if title.startswith("usage"):
        return "usage"
    if _TEXTS.match(title):
        return "text"
    if re.search(r"\b(sub)?commands?\b", title) and len(title.split()) <= 4:
        return "commands"
    if re.search(r"\barguments?\b|\bpositionals?\b", title):
        return "arguments"
    is_title = len(title.split()) <= 3 and not heading.rstrip().endswith((":", ".")) and heading[:1].isupper()
    return "other" if is_title else "arguments"


def _list_flags(column: str) -> list[str]:
    flags: list[str] = []
    for flag in _FLAG.findall(column):
        flags += [flag.replace("[no-]", ""), flag.replace("[", "").replace("]", "")] if "[" in flag else [flag]
    return flags


def _find_entry_command(entry: str, words: tuple[str, ...], *, allow_bare_name: bool) -> NamedCommand | None:
    """Return the command that a line describes. The line may begin with all words of the command."""
    for start in range(len(words)):
        own_words = " ".join(words[start:]) + " "
        if entry.startswith(own_words):
            entry = entry.removeprefix(own_words)
            break
    match = _ENTRY.fullmatch(entry)
    if not match or not (match["rest"] or allow_bare_name):
        return None
    return NamedCommand(
        name=match["name"], aliases=tuple(re.findall(r"[\w-]+", match["more"] or "")), has_own_line=True
    )


def drop_inherited_options(commands: list[ProgramCommand]) -> list[ProgramCommand]:
    """Return the commands, each without the options that a parent command already has."""
    by_words = {command.words: command for command in commands}
    result = []
    for command in commands:
        inherited = {
            flag
            for length in range(len(command.words))
            if command.words[:length] in by_words
            for option in by_words[command.words[:length]].options
            for flag in option
        }
        own_options = tuple(option for option in command.options if not _is_inherited(option, inherited))
        is_group = any(
            other.words[: len(command.words)] == command.words and len(other.words) > len(command.words)
            for other in commands
        )
        result.append(command.replace(options=own_options, is_group=is_group))
    return result


def _is_inherited(option: tuple[str, ...], inherited: set[str]) -> bool:
    """True when a parent has the option. A single letter usually means something else there, so it does not count."""
    return inherited.issuperset(option) and (option == ("-h",) or any(flag.startswith("--") for flag in option))
