"""A program's commands and options, as its help tells them or its completion offers them."""

from __future__ import annotations

import os
import re
import time

from mngr import shell
from mngr.errors import MngrError, TimedOut
from mngr.fanout import fanout
from mngr.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_CALLS = 300
_ALL_SECONDS = 120.0
_SECONDS = 20.0
_DEEPEST = 4
_MOST_BYTES = 200_000  # of one help
_RUN = f'cd "$1" && shift && "$@" </dev/null 2>&1 | head -c {_MOST_BYTES}'

_FLAG = re.compile(r"(?<![\w-])(--\[no-\][\w-]+|--?[A-Za-z0-9?][\w-]*)")
_ENTRY = re.compile(
    r"(?P<name>[a-z0-9][\w.:+-]*(?: [a-z][\w-]*)?)(?P<more>(?:, [a-z][\w-]*)+| \([a-z][\w, -]*\))?(?P<rest>\s{2,}\S.*)?"
)
_CHOICES = re.compile(r"\{([\w.:+-]+(?:,[\w.:+-]+)*)\}")
_TEXTS = re.compile(
    r"usage|example|start here|see also|environment|learn more|description|note|exit", re.IGNORECASE
)


class Command(Record):
    """A command of the program's; the program itself has no words."""

    words: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    options: tuple[tuple[str, ...], ...] = ()  # each by all its flags; without those of the commands above it
    is_group: bool = False


class Child(Record):
    """A command that a help text names."""

    name: str
    aliases: tuple[str, ...] = ()
    is_sure: bool = False  # it has a line of its own, and is not only one of several words


class Help(Record):
    """What a help text lists."""

    options: tuple[tuple[str, ...], ...] = ()
    children: list[Child] = []


class _Asked(Record):
    """A command to ask for its help, and the text that named it."""

    words: tuple[str, ...]
    child: Child
    above: str


class Tree(Record):
    """All commands of a program."""

    program: list[str]
    commands: list[Command]
    problems: list[str]


class Asker:
    """Runs the program in an empty place, with nothing of the user's, not too long and not too often."""

    def __init__(self, program: list[str], place: str) -> None:
        self.program = program
        self.place = place
        self.env = {
            "PATH": shell.fixed_path(), "HOME": place, "TMPDIR": place, "LANG": "C.UTF-8", "TERM": "dumb", "COLUMNS": "200",
            "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "MANWIDTH": "200",
        }  # fmt: skip
        self.problems: list[str] = []
        self._left = _MOST_CALLS
        self._deadline = time.monotonic() + _ALL_SECONDS

    def ask(self, argv: list[str], **more: str) -> str:
        """What it prints, empty when it takes too long or was asked too often; that is noted."""
        if self._left <= 0 or time.monotonic() > self._deadline:
            self._note("it has so many commands that not all of them were asked for")
            return ""
        self._left -= 1
        wrapped = ["sh", "-c", _RUN, "sh", self.place, *argv]
        try:
            out = shell.run(wrapped, timeout=_SECONDS, env={**self.env, **more}, shown=argv).out
        except TimedOut:
            self._note(f"{shell.abbreviate(argv)} did not end within {_SECONDS:g}s")
            return ""
        return out.decode("utf-8", "replace")

    def _note(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)


def read_tree(program: list[str], root: str, source: str = "help") -> Tree:
    """The commands of a program that is on PATH or in the project's `.venv`; raises MngrError when it is nowhere."""
    import tempfile

    from mngr.tutorial.completions import read_completion

    found = _find(program[0], root)
    with tempfile.TemporaryDirectory(prefix="mngr-") as place:
        asker = Asker([found, *program[1:]], place)
        commands = read_completion(asker) if source == "completion" else _read_help(asker)
    if not any(command.options or command.words for command in commands):
        why = asker.problems[:1] or [f"{program[0]} does not tell its commands and options by {source}"]
        raise MngrError(
            why[0],
            "try the other one: --source " + ("help" if source == "completion" else "completion"),
        )
    return Tree(program=program, commands=without_inherited(commands), problems=asker.problems)


def _find(name: str, root: str) -> str:
    import shutil

    if os.sep in name:
        places: list[str | None] = [os.path.join(root, name), os.path.abspath(name)]
    else:
        folders = [os.path.join(root, folder) for folder in (".venv/bin", "venv/bin", "node_modules/.bin")]
        places = [shutil.which(name, path=":".join([shell.fixed_path(), *folders]))]
    for path in places:
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise MngrError(f"the program {name} is not installed", "install it, or name another one with --program")


def _read_help(asker: Asker) -> list[Command]:
    """Ask every command for its help, beginning with the program, one level after the other."""
    commands: dict[tuple[str, ...], Command] = {}
    level = [_Asked(words=(), child=Child(name=""), above="")]
    for _ in range(_DEEPEST):
        texts = fanout(lambda one: asker.ask([*asker.program, *one.words, "--help"]), level, at_once=4)
        deeper: list[_Asked] = []
        for asked, text in zip(level, texts, strict=True):
            if isinstance(text, Exception):
                raise text
            is_same = text == asked.above
            if is_same and not asked.child.is_sure:
                continue  # a choice of an argument's, and no command
            name = os.path.basename(asker.program[0])
            help = Help() if is_same else parse_help(text, (name, *asked.words))
            commands.setdefault(
                asked.words,
                Command(words=asked.words, aliases=asked.child.aliases, options=help.options),
            )
            for child in help.children:
                words = (*asked.words, *child.name.split())
                if words not in commands:
                    deeper.append(_Asked(words=words, child=child, above=text))
        level = deeper
    return list(commands.values())


def parse_help(text: str, words: tuple[str, ...]) -> Help:
    """What a help text lists. `words` is what it is the help of."""
    options: dict[tuple[str, ...], None] = {}
    children: dict[str, Child] = {}
    kind, depth = "text", 0
    for line in _plain_lines(text):
        indent = len(line) - len(line.lstrip())
        if not indent:
            kind, depth = _kind(line), 0
            continue
        entry = line.strip()
        if entry.startswith("-"):
            flags = tuple(_flags(re.split(r"\s{2,}", entry)[0]))
            options.update({flags: None} if flags and kind != "text" else {})
            continue
        if kind not in ("commands", "arguments", "other"):
            continue
        choices = _CHOICES.match(entry)
        if choices and kind != "other":
            children.update({name: Child(name=name) for name in choices[1].split(",")})
        is_head = not re.search(r"\S\s{2,}\S", entry) and not entry[0].islower()
        depth = indent if is_head or not depth else depth
        if indent > depth + 4 or (kind == "arguments" and (is_head or indent <= depth)):
            continue
        found = _entry(entry, words, alone=kind != "other")
        if found:
            children[found.name] = found
    others = {alias for child in children.values() for alias in child.aliases}
    return Help(options=tuple(options), children=[c for c in children.values() if c.name not in others])


def _plain_lines(text: str) -> Iterator[str]:
    """Lines without colours and without the boxes that some programs draw around them."""
    for line in re.sub(r"\x1b\[[0-9;]*[A-Za-z]|.\x08", "", text).split("\n"):
        boxed = re.match(r"\s*[╭┌]─+ (.+?) ─+", line)
        line = boxed[1] if boxed else re.sub(r"^\s*│|│\s*$", "", line)
        if line.strip() and not re.match(r"\s*[╰└]─", line):
            yield line.rstrip()


def _kind(heading: str) -> str:
    """What stands under a heading."""
    said = heading.strip().rstrip(":").lower()
    if re.search(r"\b(options|flags)\b", said) and not said.startswith("usage"):
        return "options"
    if _TEXTS.match(said):
        return "text"
    if re.search(r"\b(sub)?commands?\b", said) and len(said.split()) <= 4:
        return "commands"
    if re.search(r"\barguments?\b|\bpositionals?\b", said):
        return "arguments"
    is_title = len(said.split()) <= 3 and not heading.rstrip().endswith((":", ".")) and heading[:1].isupper()
    return "other" if is_title else "arguments"


def _flags(column: str) -> list[str]:
    found: list[str] = []
    for flag in _FLAG.findall(column):
        found += (
            [flag.replace("[no-]", ""), flag.replace("[", "").replace("]", "")] if "[" in flag else [flag]
        )
    return found


def _entry(entry: str, words: tuple[str, ...], *, alone: bool) -> Child | None:
    """The command that a line is about. It may be told by all its words."""
    for start in range(len(words)):
        own = " ".join(words[start:]) + " "
        if entry.startswith(own):
            entry = entry.removeprefix(own)
            break
    match = _ENTRY.fullmatch(entry)
    if not match or not (match["rest"] or alone):
        return None
    return Child(name=match["name"], aliases=tuple(re.findall(r"[\w-]+", match["more"] or "")), is_sure=True)


def without_inherited(commands: list[Command]) -> list[Command]:
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
        own = tuple(option for option in command.options if not above.issuperset(option))
        is_group = any(
            other.words[: len(command.words)] == command.words and len(other.words) > len(command.words)
            for other in commands
        )
        found.append(command.replace(options=own, is_group=is_group))
    return found
