"""Splits a tutorial script into blocks: groups of lines without an empty line, under headings."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Iterator

from mngr.base import shell
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import Struct
from mngr.base.untrusted_json import parse_json
from mngr.tutorial.open_shell_constructs import ShellLexer

_MAX_PROBLEMS = 20  # after this number of problems, the rest is split only at empty lines
_OTHER_SCRIPT_HINT = "name the tutorial script; to save its name: mngr config set tutorial.file FILE"
_RULE_LINE = r"(?:={3,}|-{3,}|\*{3,}|~{3,}|_{3,}|\+{3,}|[─━═]{2,})"
_BARE_RULE = re.compile(rf"#+[ \t]*{_RULE_LINE}[ \t]*#*|#{{3,}}")  # `# ----`, `#####`
_TITLED_RULE = re.compile(rf"#+[ \t]*{_RULE_LINE}.*\w|#{{3,}}[ \t]*[^#\s]")  # `# --- x ---`, `### x`
_SET_COMMAND = re.compile(r"(set|shopt)([ \t]+[^;&|<>()`]*)?")
_SHELL_SHEBANG = re.compile(r"^#!.*\b(sh|bash|dash|zsh|ksh|mksh|ash|busybox|bats)\b")
# Bash cannot parse everything that these shells can.
_NON_BASH_SHEBANG = re.compile(r"#!.*\b(zsh|ksh|mksh|busybox|bats)\b")
_PYTHON_LINE = re.compile(r"^(import [\w.]+|from [\w.]+ import |(async )?def \w+\(|class \w+)", re.MULTILINE)


class Block(Struct):
    """A group of lines without an empty line between them."""

    id: str
    slug: str
    line: int
    section: str | None
    text: str
    commands: list[str]


class EmptyHeading(Struct):
    """A heading without a block under it, which someone still has to write."""

    line: int
    section: str | None
    title: str
    text: str


class ReadProblem(Struct):
    """A part of a file that could not be read, and why. Reading continued after it."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class TutorialScript(Struct):
    """A parsed tutorial script."""

    path: str
    blocks: list[Block]
    empty_headings: list[EmptyHeading]
    problems: list[ReadProblem]


class _Paragraph(Struct):
    """Lines without an empty line between them, and the commands in these lines."""

    line: int
    lines: list[str]
    commands: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_heading(self) -> bool:
        """True when every line is a comment. A shebang line is not a comment."""
        return all(line.lstrip().startswith("#") and not line.startswith("#!") for line in self.lines)


def read_script(path: str, display_path: str | None = None) -> TutorialScript:
    """Return the script in a file. Raise MngrError when the file is not a shell script."""
    display_path = display_path or path
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise NotFound(f"there is no tutorial script {display_path}", _OTHER_SCRIPT_HINT) from None
    except OSError as error:
        raise MngrError(f"cannot read {display_path}: {error.strerror}", _OTHER_SCRIPT_HINT) from None
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise MngrError(f"{display_path}:{line}: this is not text, so it is not a shell script", _OTHER_SCRIPT_HINT)
    problems = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        problems.append(ReadProblem(path=display_path, line=line, message="this is not UTF-8"))
        text = data.decode("utf-8-sig", "replace")
    language = _identify_other_language(text)
    if language:
        raise MngrError(f"{display_path}:1: this is {language}, not a shell script", _OTHER_SCRIPT_HINT)
    script = parse_script(text, display_path)
    problems += script.problems or _list_syntax_errors(text, display_path)
    return script.replace(problems=problems)


def parse_script(text: str, path: str = "-") -> TutorialScript:
    """Return the script in a text. It never raises."""
    paragraphs, problems = _split_paragraphs(split_lines(text), path)
    banners = [_find_section_title(paragraph) for paragraph in paragraphs]
    blocks: list[Block] = []
    empty_headings: list[EmptyHeading] = []
    section: str | None = None
    for index, (paragraph, banner) in enumerate(zip(paragraphs, banners, strict=True)):
        if banner is not None:
            section = banner
        elif paragraph.is_heading and not any(banners):
            section = _get_title(paragraph.lines)
        if not paragraph.is_heading:
            blocks.append(_build_block(paragraph, section))
        elif _is_empty_heading(index, paragraphs, banners):
            empty_headings.append(_build_empty_heading(paragraph, section))
    return TutorialScript(path=path, blocks=blocks, empty_headings=empty_headings, problems=problems)


def _is_empty_heading(index: int, paragraphs: list[_Paragraph], banners: list[str | None]) -> bool:
    """True when the heading at `index` has no block under it."""
    if index + 1 == len(paragraphs):
        return True
    heading, following = paragraphs[index], paragraphs[index + 1]
    if following.is_heading:
        return banners[index] is None or banners[index + 1] is not None
    # With banners, a short line such as `# by label` above a block with its own comment is an empty heading, too.
    title = heading.lines[0].strip()
    is_short = banners[index] is None and len(heading.lines) == 1 and title[-1] not in ".:!?"
    return is_short and any(banners) and following.lines[0].lstrip().startswith("# ")


def split_lines(text: str) -> list[str]:
    """Return the lines of a text with any line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def normalize_text(text: str) -> str:
    """Return `text` without indentation, line ends and surrounding empty lines."""
    return "\n".join(line.strip() for line in split_lines(text)).strip("\n")


def compute_block_id(text: str) -> str:
    """Return the id of a block: a hash of its normalized text."""
    return hashlib.sha256(normalize_text(text).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _identify_other_language(text: str) -> str | None:
    """Return the language of a text that is not a shell script, or None when it may be one."""
    first_line = text.split("\n", 1)[0].strip()
    if first_line.startswith("#!") and not _SHELL_SHEBANG.match(first_line):
        return f"a script for {first_line[2:].strip()}"
    if text.lstrip()[:1] in ("{", "["):
        try:
            parse_json(text)
        except ValueError:
            return None
        return "JSON"
    if not _PYTHON_LINE.search(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return "Python"


def _list_syntax_errors(text: str, display_path: str) -> list[ReadProblem]:
    """Return the syntax errors that `bash -n` reports, if bash is installed. mngr runs nothing of the script."""
    if _NON_BASH_SHEBANG.match(text):
        return []
    outcome = shell.run(
        ["sh", "-c", "command -v bash >/dev/null && LC_ALL=C exec bash -O extglob -n"],
        stdin="\n".join(split_lines(text)).encode("utf-8", "replace"),
    )
    match = re.search(r"line (\d+): (syntax error.*)", outcome.err.decode("utf-8", "replace"))
    return (
        [ReadProblem(path=display_path, line=int(match[1]), message=f"this is not valid shell: {match[2]}")]
        if match
        else []
    )


def _split_paragraphs(lines: list[str], path: str) -> tuple[list[_Paragraph], list[ReadProblem]]:
    """Split the script into paragraphs.

    If a quote or here-document is never closed, note it, end it with its line and continue after it.
    """
    paragraphs: list[_Paragraph] = []
    problems: list[ReadProblem] = []
    unclosed_lines: set[int] = set()
    index = 0
    while index < len(lines):
        if not lines[index].strip():
            index += 1
            continue
        paragraph, unclosed = _read_paragraph(lines, index, unclosed_lines, join_lines=len(problems) < _MAX_PROBLEMS)
        if unclosed:
            problems.append(ReadProblem(path=path, line=unclosed[0], message=unclosed[1]))
            unclosed_lines.add(unclosed[0])
            continue
        paragraphs.append(paragraph)
        index += len(paragraph.lines)
    return paragraphs, problems


def _read_paragraph(
    lines: list[str], start: int, unclosed_lines: set[int], *, join_lines: bool
) -> tuple[_Paragraph, tuple[int, str] | None]:
    """Return the paragraph at `start`, and the line and description of anything in it that is never closed."""
    lexer = ShellLexer()
    suspect: tuple[int, str] | None = None  # the first quote that spans an empty line
    commands = _CommandBuilder()
    end = start
    for number in range(start + 1, len(lines) + 1):
        line = lines[number - 1]
        if not line.strip():
            if not lexer.is_inside_open_text:
                break
            suspect = suspect or lexer.outermost_open_quote
        is_joined = lexer.is_escaped
        is_quoted = lexer.is_quoted or lexer.pending_here_document is not None
        code = lexer.add_line(line, number)
        if number in unclosed_lines or not join_lines:
            lexer = ShellLexer()
        commands.add_line(
            code,
            is_joined=is_joined,
            is_quoted=is_quoted,
            continues=lexer.is_inside_open_text or lexer.has_open_compound,
        )
        end = number
    paragraph = _Paragraph(line=start + 1, lines=lines[start:end], commands=commands.finish())
    here_document = lexer.pending_here_document
    if here_document:
        return paragraph, (here_document.line, f"the here-document {here_document.delimiter!r} has no end")
    if lexer.outermost_open_quote:
        start_line, sign = suspect or lexer.outermost_open_quote
        return paragraph, (start_line, f"the {sign} is never closed")
    return paragraph, None


class _CommandBuilder:
    """Joins lines of code to commands."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._current = ""
        self._is_open = False

    def add_line(self, code: str, *, is_joined: bool, is_quoted: bool, continues: bool) -> None:
        """Add the next line. A backslash may join it to the line before, and it may begin inside a quote."""
        if not self._is_open:
            self._current = code.lstrip()
        elif is_joined and is_quoted:
            self._current = self._current[:-1] + code
        elif is_joined:
            gap = " " if self._current[-2:-1].isspace() or code[:1].isspace() else ""
            self._current = self._current[:-1].rstrip() + gap + code.lstrip()
        elif code.strip() or is_quoted:
            self._current += "\n" + code
        self._is_open = continues
        if not continues:
            self._finish_command()

    def finish(self) -> list[str]:
        """Return all commands, including one that is still open."""
        self._finish_command()
        commands = [command for command in self._done if not command.startswith("#!")]
        return [] if all(_is_only_set(command) for command in commands) else commands

    def _finish_command(self) -> None:
        command, self._current = self._current.rstrip(), ""
        if command:
            self._done.append(command)


def _is_only_set(command: str) -> bool:
    return all(_SET_COMMAND.fullmatch(part.strip()) for part in re.split(r";|&&|\|\|", command) if part.strip())


def _build_block(paragraph: _Paragraph, section: str | None) -> Block:
    return Block(
        id=compute_block_id(paragraph.text),
        slug=build_slug(paragraph.lines),
        line=paragraph.line,
        section=section,
        text=paragraph.text,
        commands=paragraph.commands,
    )


def _build_empty_heading(paragraph: _Paragraph, section: str | None) -> EmptyHeading:
    title = _get_title(paragraph.lines)
    return EmptyHeading(line=paragraph.line, section=section, title=title, text=paragraph.text)


def _find_section_title(paragraph: _Paragraph) -> str | None:
    """Return the title of the section that a paragraph begins, or None."""
    first_line, *next_lines = [line.strip() for line in paragraph.lines[:3]]
    if not first_line.startswith("#") or first_line.startswith("#!"):
        return None
    if _BARE_RULE.fullmatch(first_line):  # a rule, the title, and usually another rule
        titles = [line for line in next_lines if line.startswith("#") and not _BARE_RULE.fullmatch(line)]
        return _strip_comment_signs(titles[0]) or None if titles else None
    is_underlined = bool(next_lines) and _BARE_RULE.fullmatch(next_lines[0])
    is_marked = first_line.startswith("##") and paragraph.is_heading
    return (
        _strip_comment_signs(first_line) or None
        if is_underlined or is_marked or _TITLED_RULE.match(first_line)
        else None
    )


def _strip_comment_signs(line: str) -> str:
    """Return a comment without the signs around it."""
    text = line.strip("# \t")
    return re.sub(rf"^{_RULE_LINE}|{_RULE_LINE}$", "", text).strip()


def _get_title(lines: list[str]) -> str:
    """Return the first line with text."""
    titles = (_strip_comment_signs(line.strip()) for line in lines if not _BARE_RULE.fullmatch(line.strip()))
    return next((title for title in titles if title), "")


def build_slug(lines: list[str]) -> str:
    """Return a short name from the first comment, or else from the first command."""
    for text in _iter_meaningful_lines(lines):
        words = re.findall(r"[a-z0-9]+", text.lower().replace("'", ""))
        slug = ""
        for word in words:
            if slug and len(slug) + len(word) >= 48:
                break
            slug += ("-" if slug else "") + word[:48]
        if slug:
            return slug
    return "block"


def _iter_meaningful_lines(lines: list[str]) -> Iterator[str]:
    comments = [line.strip() for line in lines if line.lstrip().startswith("#") and not line.startswith("#!")]
    yield from (_strip_comment_signs(line) for line in comments if not _BARE_RULE.fullmatch(line))
    yield from (line for line in lines if not line.lstrip().startswith("#"))
    yield from (line[2:].strip() for line in lines if line.startswith("#!"))
