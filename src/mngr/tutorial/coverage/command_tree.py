"""A program's commands and options, as its help tells them or its completion offers them."""

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
_MAX_UNREAD_NAMES = 5  # commands whose help cannot be read, by name
# Programs that list all their commands elsewhere than in their help, and those that tell their options only by -h.
_LIST_COMMANDS = {"git": ("help", "-a"), "npm": ("-l",), "tmux": ("list-commands",)}
_SHORT_HELP_PROGRAMS = ("git",)
SETUP_COMMANDS = {"git": ("init", "-q")}  # without which some of its commands say nothing
_MAX_HELP_BYTES = 200_000  # of one help
_RUN_SCRIPT = f'cd "$1" && shift && "$@" </dev/null 2>&1 | head -c {_MAX_HELP_BYTES}'

_FLAG = re.compile(r"(?<![\w-])(--\[no-\][\w-]+|--?[A-Za-z0-9?][\w-]*)")
_ENTRY = re.compile(
    r"(?P<name>[a-z0-9][\w.:+-]*(?: [a-z][\w-]*)?)(?P<more>(?:, [a-z][\w-]*)+| \([a-z][\w, -]*\))?(?P<rest>\s{2,}\S.*)?"
)
_CHOICES = re.compile(r"\{([\w.:+-]+(?:,[\w.:+-]+)*)\}")
_ROW = re.compile(r"[a-z][\w:-]*(?:, [a-z][\w:-]*){2,},?|(?:[a-z][\w:-]*, )+[a-z][\w:-]*,")  # of names and nothing else
_USAGE = re.compile(r"\s*usage|\s*or: | ?\[", re.IGNORECASE)
_LISTED = re.compile(r"(?P<name>[a-z][\w-]*)(?: \((?P<alias>[a-z][\w-]*)\))?(?= |$)(?P<usage>(?: [\[<(-].*)?)")
_REFUSED = re.compile(
    r"(unknown|unrecogni[sz]ed|no such|invalid|illegal)( long)? (option|argument|flag|switch)", re.IGNORECASE
)
_NO_COMMAND = re.compile(r"is not a \S+ command|(unknown|no such|invalid) (sub)?command", re.IGNORECASE)
_TEXTS = re.compile(r"example|start here|see also|environment|learn more|description|note|exit", re.IGNORECASE)


class ProgramCommand(Struct):
    """A command of the program's; the program itself has no words."""

    words: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    options: tuple[tuple[str, ...], ...] = ()  # each by all its flags; without those of the commands above it
    is_group: bool = False


class NamedCommand(Struct):
    """A command that a help text names."""

    name: str
    aliases: tuple[str, ...] = ()
    has_own_line: bool = False  # it has a line of its own, and is not only one of several words
    usage: str = ""  # all that is told of it


class HelpText(Struct):
    """What a help text lists."""

    options: tuple[tuple[str, ...], ...] = ()
    children: list[NamedCommand] = []


class _HelpRequest(Struct):
    """A command to ask for its help, and the text that named it."""

    words: tuple[str, ...]
    child: NamedCommand
    parent_help: str


class CommandTree(Struct):
    """All commands of a program."""

    program: list[str]
    commands: list[ProgramCommand]
    problems: list[ReadProblem]


class HelpRunner:
    """Runs the program in an empty place, with nothing of the user's, not too long and not too often."""

    def __init__(self, program: list[str], place: str) -> None:
        self.program = program
        self.place = place
        self.env = {
            "PATH": shell.get_absolute_search_path(), "HOME": place, "TMPDIR": place, "LANG": "C.UTF-8", "TERM": "dumb", "COLUMNS": "200",
            "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "MANWIDTH": "200", "TMUX_TMPDIR": place,
        }  # fmt: skip
        self.name = os.path.basename(program[0])
        self.problems: list[ReadProblem] = []
        self._left = _MAX_CALLS
        self._deadline = time.monotonic() + _MAX_TOTAL_SECONDS

    def run_program(self, argv: list[str], **more: str) -> str:
        """What it prints, empty when it takes too long or was asked too often; that is noted."""
        if self._left <= 0 or time.monotonic() > self._deadline:
            self._add_problem("it has so many commands that not all of them were asked for")
            return ""
        self._left -= 1
        wrapped = ["sh", "-c", _RUN_SCRIPT, "sh", self.place, *argv]
        try:
            out = shell.run(wrapped, timeout=_CALL_TIMEOUT, env={**self.env, **more}, shown=argv).out
        except TimedOut:
            self._add_problem(f"{shell.abbreviate(argv)} did not end within {_CALL_TIMEOUT:g}s")
            return ""
        return out.decode("utf-8", "replace")

    def read_help_text(self, words: tuple[str, ...]) -> str:
        """What it says of itself, or of a command."""
        if self.name in _SHORT_HELP_PROGRAMS:
            return self.run_program([*self.program, *words, "-h"])
        text = self.run_program([*self.program, *words, "--help"])
        return self.run_program([*self.program, *words, "-h"]) if _REFUSED.search(text) else text

    def _add_problem(self, text: str) -> None:
        problem = ReadProblem(path=self.name, line=0, message=text)
        if problem not in self.problems:
            self.problems.append(problem)

    def note_unreadable(self, unread: list[tuple[tuple[str, ...], str]]) -> None:
        """Note commands of which the help says nothing that can be read."""
        for words, text in unread[:_MAX_UNREAD_NAMES]:
            flag = "-h" if self.name in _SHORT_HELP_PROGRAMS else "--help"
            said = text.strip().partition("\n")[0]
            message = f"neither options nor commands can be read in it: {said}" if said else "it prints nothing"
            self.problems.append(ReadProblem(path=" ".join([self.name, *words, flag]), line=1, message=message))
        if len(unread) > _MAX_UNREAD_NAMES:
            self._add_problem(f"the help of {len(unread) - _MAX_UNREAD_NAMES} more commands cannot be read")


def get_program(name: str, root: str) -> str:
    """Where a program is; raises MngrError when it is nowhere."""
    if os.sep in name:
        places: list[str | None] = [os.path.join(root, name), os.path.abspath(name)]
    else:
        folders = [os.path.join(root, folder) for folder in (".venv/bin", "venv/bin", "node_modules/.bin")]
        places = [shutil.which(name, path=":".join([shell.get_absolute_search_path(), *folders]))]
    for path in places:
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise MngrError(f"the program {name} is not installed", "install it, or name another one with --program")


def read_help(asker: HelpRunner) -> list[ProgramCommand]:
    """Ask every command for its help, beginning with the program, one level after the other."""
    commands: dict[tuple[str, ...], ProgramCommand] = {}
    unread: list[tuple[tuple[str, ...], str]] = []
    listed = _list_commands(asker)
    told = {name for child in listed if child.usage for name in (child.name, *child.aliases)}
    level = [_HelpRequest(words=(), child=NamedCommand(name=""), parent_help="")]
    for _ in range(_MAX_DEPTH):
        texts = map_parallel(lambda one: asker.read_help_text(one.words), level, at_once=4)
        deeper: list[_HelpRequest] = []
        for asked, text in zip(level, texts, strict=True):
            if isinstance(text, Exception):
                raise text
            is_same = text == asked.parent_help
            if (is_same and not asked.child.has_own_line) or (asked.words and _NO_COMMAND.search(text)):
                continue  # a choice of an argument's, and no command
            help = HelpText() if is_same else parse_help(text, (asker.name, *asked.words))
            if not (is_same or help.options or help.children or re.search("usage", text, re.IGNORECASE)):
                unread.append((asked.words, text))
            command = ProgramCommand(words=asked.words, aliases=asked.child.aliases, options=help.options)
            commands.setdefault(asked.words, command)
            for child in [*help.children, *(listed if not asked.words else ())]:
                words = (*asked.words, *child.name.split())
                if words not in commands and (asked.words or child.name not in told):
                    deeper.append(_HelpRequest(words=words, child=child, parent_help=text))
        level = list({one.words: one for one in deeper}.values())
    for child in listed:
        if child.usage:
            words = (child.name,)
            commands[words] = ProgramCommand(
                words=words, aliases=child.aliases, options=parse_usage_options(child.usage)
            )
    asker.note_unreadable(unread)
    return list(commands.values())


def _list_commands(asker: HelpRunner) -> list[NamedCommand]:
    """The commands that a program lists by one of its own, some with their usage."""
    if asker.name not in _LIST_COMMANDS:
        return []
    found = parse_list(asker.run_program([*asker.program, *_LIST_COMMANDS[asker.name]]))
    return [child for child in found if child.name != asker.name]


def parse_list(text: str) -> list[NamedCommand]:
    """Commands of lines such as `name  what it does`, perhaps with more under it, or `name (alias) [-abc] [-t target]`."""
    found: list[NamedCommand] = []
    depth = 0
    for line in _iter_plain_lines(text):
        indent = len(line) - len(line.lstrip())
        match = None if indent else _LISTED.fullmatch(line)
        if match and match["usage"]:
            aliases = (match["alias"],) if match["alias"] else ()
            found.append(NamedCommand(name=match["name"], aliases=aliases, usage=match["usage"]))
        elif found and depth and indent > depth + 4:
            named = re.match(r"\s+alias(?:es)?: (.+)", line)
            more = tuple(re.findall(r"[\w-]+", named[1])) if named else ()
            usage = f"{found[-1].usage}{line.strip()}\n"
            found[-1] = found[-1].replace(usage=usage, aliases=(*found[-1].aliases, *more))
        elif indent and (entry := re.match(r"\s+([a-z][\w-]*) +\S", line)):
            depth = indent
            found.append(NamedCommand(name=entry[1]))
    return found


def parse_help(text: str, words: tuple[str, ...]) -> HelpText:
    """What a help text lists. `words` is what it is the help of."""
    options: dict[tuple[str, ...], None] = {}
    children: dict[str, NamedCommand] = {}
    kind, depth = "text", 0
    goes_on = False
    for line in _iter_plain_lines(text):
        indent = len(line) - len(line.lstrip())
        if not indent:
            kind, depth = _classify_heading(line), 0
            continue
        entry = line.strip()
        if entry.startswith("-"):
            flags = tuple(_list_flags(re.split(r"\s{2,}", entry)[0]))
            is_told = kind != "text" and (kind != "usage" or not entry.endswith("]"))
            options.update({flags: None} if flags and is_told else {})
            continue
        if kind not in ("commands", "arguments", "other"):
            continue
        if kind == "commands" and (goes_on or _ROW.fullmatch(entry)):
            goes_on = entry.endswith(",")
            children.update({name: NamedCommand(name=name) for name in re.findall(r"[a-z][\w:-]*", entry)})
            continue
        choices = _CHOICES.match(entry)
        if choices and kind != "other":
            children.update({name: NamedCommand(name=name) for name in choices[1].split(",")})
        is_head = not re.search(r"\S\s{2,}\S", entry) and not entry[0].islower()
        depth = indent if is_head or not depth else depth
        if indent > depth + 4 or (kind == "arguments" and (is_head or indent <= depth)):
            continue
        found = _find_entry_command(entry, words, alone=kind != "other")
        if found:
            children[found.name] = found
    children.update(
        {name: NamedCommand(name=name) for name in _list_usage_commands(text, words) if name not in children}
    )
    others = {alias for child in children.values() for alias in child.aliases}
    return HelpText(
        options=tuple(options) or parse_usage_options(text),
        children=[c for c in children.values() if c.name not in others],
    )


def parse_usage_options(text: str) -> tuple[tuple[str, ...], ...]:
    """The options in brackets of a usage: `[-abc]`, `[-f file]`, `[-n | --dry-run]`."""
    found: dict[tuple[str, ...], None] = {}
    usage = False
    for line in _iter_plain_lines(text):
        usage = (usage and line[0] == " ") or bool(_USAGE.match(line))
        for group in re.findall(r"\[\s*(-[^\[\]]*)", line) if usage else []:
            flags = _list_flags(group)
            is_many = len(flags) == 1 and group.strip() == flags[0] and re.fullmatch(r"-\w{2,}", flags[0])
            if is_many and len(set(flags[0])) == len(flags[0]):
                found.update({(f"-{letter}",): None for letter in flags[0][1:]})
            else:
                found.update(dict.fromkeys(_group_flags(flags)))
    return tuple(found)


def _group_flags(flags: list[str]) -> list[tuple[str, ...]]:
    """Flags between bars: a short one and its long one are one option, and so is a flag with its --no-flag."""
    found: list[tuple[str, ...]] = []
    for flag in flags:
        last = found[-1] if found else ()
        plain = flag.replace("--no-", "--", 1)
        is_long_of = flag.startswith("--") and len(last) == 1 and not last[0].startswith("--")
        if is_long_of or any(plain == other.replace("--no-", "--", 1) for other in last):
            found[-1] = (*last, flag)
        else:
            found.append((flag,))
    return found


def _list_usage_commands(text: str, words: tuple[str, ...]) -> list[str]:
    """The commands that a usage names line by line, as git does: `or: git remote add <name>`."""
    start = re.compile(rf"\s*(?:usage|or): {re.escape(' '.join(words))} (?:\[[^\[\]]*\] )*([a-z][a-z-]+)(?= |$)")
    found = [match[1] for line in _iter_plain_lines(text) if (match := start.match(line))]
    return list(dict.fromkeys(found)) if len(words) > 1 and re.search(r"^\s*or: ", text, re.MULTILINE) else []


def _iter_plain_lines(text: str) -> Iterator[str]:
    """Lines without colours and without the boxes that some programs draw around them."""
    for line in re.sub(r"\x1b\[[0-9;]*[A-Za-z]|.\x08", "", text).split("\n"):
        boxed = re.match(r"\s*[╭┌]─+ (.+?) ─+", line)
        line = boxed[1] if boxed else re.sub(r"^\s*│|│\s*$", "", line)
        if line.strip() and not re.match(r"\s*[╰└]─", line):
            yield line.rstrip()


def _classify_heading(heading: str) -> str:
    """What stands under a heading."""
    said = heading.strip().rstrip(":").lower()
    if re.search(r"\b(options|flags)\b", said) and not said.startswith("usage"):
        return "options"
    if said.startswith("usage"):
        return "usage"
    if _TEXTS.match(said):
        return "text"
    if re.search(r"\b(sub)?commands?\b", said) and len(said.split()) <= 4:
        return "commands"
    if re.search(r"\barguments?\b|\bpositionals?\b", said):
        return "arguments"
    is_title = len(said.split()) <= 3 and not heading.rstrip().endswith((":", ".")) and heading[:1].isupper()
    return "other" if is_title else "arguments"


def _list_flags(column: str) -> list[str]:
    found: list[str] = []
    for flag in _FLAG.findall(column):
        found += [flag.replace("[no-]", ""), flag.replace("[", "").replace("]", "")] if "[" in flag else [flag]
    return found


def _find_entry_command(entry: str, words: tuple[str, ...], *, alone: bool) -> NamedCommand | None:
    """The command that a line is about. It may be told by all its words."""
    for start in range(len(words)):
        own = " ".join(words[start:]) + " "
        if entry.startswith(own):
            entry = entry.removeprefix(own)
            break
    match = _ENTRY.fullmatch(entry)
    if not match or not (match["rest"] or alone):
        return None
    return NamedCommand(
        name=match["name"], aliases=tuple(re.findall(r"[\w-]+", match["more"] or "")), has_own_line=True
    )


def drop_inherited_options(commands: list[ProgramCommand]) -> list[ProgramCommand]:
    """The same, with every option only where it is told first: at the program itself, or at a group."""
    by_words = {command.words: command for command in commands}
    found = []
    for command in commands:
        above = {
            flag
            for length in range(len(command.words))
            if command.words[:length] in by_words
            for option in by_words[command.words[:length]].options
            for flag in option
        }
        own = tuple(option for option in command.options if not _is_inherited(option, above))
        is_group = any(
            other.words[: len(command.words)] == command.words and len(other.words) > len(command.words)
            for other in commands
        )
        found.append(command.replace(options=own, is_group=is_group))
    return found


def _is_inherited(option: tuple[str, ...], above: set[str]) -> bool:
    """Whether it is one of those above; a letter alone mostly means something else there."""
    return above.issuperset(option) and (option == ("-h",) or any(flag.startswith("--") for flag in option))
