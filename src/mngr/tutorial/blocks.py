"""A shell script as blocks: runs of lines that a reader takes in one go, under headings."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Iterator

from mngr.base import shell
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import Struct
from mngr.tutorial.shell_lexer import ShellLexer

_MAX_PROBLEMS = 20  # after so many the rest is cut at empty lines alone
_RULE_LINE = r"(?:={3,}|-{3,}|\*{3,}|~{3,}|_{3,}|\+{3,}|[─━═]{2,})"
_BARE_RULE = re.compile(rf"#+[ \t]*{_RULE_LINE}[ \t]*#*|#{{3,}}")  # `# ----`, `#####`
_TITLED_RULE = re.compile(rf"#+[ \t]*{_RULE_LINE}.*\w|#{{3,}}[ \t]*[^#\s]")  # `# --- x ---`, `### x`
_SET_COMMAND = re.compile(r"(set|shopt)([ \t]+[^;&|<>()`]*)?")
_SHELL_SHEBANG = re.compile(r"^#!.*\b(sh|bash|dash|zsh|ksh|mksh|ash|busybox|bats)\b")
_NON_BASH_SHEBANG = re.compile(r"#!.*\b(zsh|ksh|mksh|busybox|bats)\b")  # bash cannot read all that they can
_PYTHON_LINE = re.compile(r"^(import [\w.]+|from [\w.]+ import |(async )?def \w+\(|class \w+)", re.MULTILINE)


class Block(Struct):
    """A run of lines with no empty line between them."""

    id: str
    slug: str
    line: int
    section: str | None
    text: str
    commands: list[str]


class EmptyHeading(Struct):
    """A heading with no block under it: somebody must still write what it promises."""

    line: int
    section: str | None
    title: str
    text: str


class ReadProblem(Struct):
    """What could not be read, and where; the rest went on."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class TutorialScript(Struct):
    """A tutorial as it was read."""

    path: str
    blocks: list[Block]
    empty_headings: list[EmptyHeading]
    problems: list[ReadProblem]


class _Paragraph(Struct):
    """Lines as they stand, and the commands among them."""

    line: int
    lines: list[str]
    commands: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_heading(self) -> bool:
        """Whether all of it is comment; the line that names the shell is none."""
        return all(line.lstrip().startswith("#") and not line.startswith("#!") for line in self.lines)


def read_script(path: str, shown: str | None = None) -> TutorialScript:
    """The script in a file, by the name it is shown under; raises MngrError when it is none."""
    shown = shown or path
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        hint = "name another one, or write it down: mngr config set tutorial.file FILE"
        raise NotFound(f"there is no script {shown}", hint) from None
    except OSError as error:
        raise MngrError(f"cannot read {shown}: {error.strerror}", "name the tutorial script") from None
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise MngrError(f"{shown}:{line}: this is no text, so it is no shell script", "name the tutorial script")
    problems = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        problems.append(ReadProblem(path=shown, line=line, message="this is not UTF-8"))
        text = data.decode("utf-8-sig", "replace")
    strange = _identify_other_language(text)
    if strange:
        raise MngrError(f"{shown}:1: this is {strange}, not a shell script", "name the tutorial script")
    script = parse_script(text, shown)
    problems += script.problems or _list_syntax_errors(text, shown)
    return script.replace(problems=problems)


def parse_script(text: str, path: str = "-") -> TutorialScript:
    """A script that is at hand as text; never raises."""
    paragraphs, problems = _split_paragraphs(split_lines(text), path)
    banners = [_find_section_title(paragraph) for paragraph in paragraphs]
    blocks: list[Block] = []
    blanks: list[EmptyHeading] = []
    section: str | None = None
    for at, (paragraph, banner) in enumerate(zip(paragraphs, banners, strict=True)):
        if banner is not None:
            section = banner
        elif paragraph.is_heading and not any(banners):
            section = _get_title(paragraph.lines)
        if not paragraph.is_heading:
            blocks.append(_build_block(paragraph, section))
        elif _is_empty_heading(at, paragraphs, banners):
            blanks.append(_build_empty_heading(paragraph, section))
    return TutorialScript(path=path, blocks=blocks, empty_headings=blanks, problems=problems)


def _is_empty_heading(at: int, paragraphs: list[_Paragraph], banners: list[str | None]) -> bool:
    """Whether the heading at `at` has no block under it."""
    if at + 1 == len(paragraphs):
        return True
    this, following = paragraphs[at], paragraphs[at + 1]
    if following.is_heading:
        return banners[at] is None or banners[at + 1] is not None
    # Where banners are the headings, a line such as `# by label` above a block with a comment of its own waits for one too.
    said = this.lines[0].strip()
    is_short = banners[at] is None and len(this.lines) == 1 and said[-1] not in ".:!?"
    return is_short and any(banners) and following.lines[0].lstrip().startswith("# ")


def split_lines(text: str) -> list[str]:
    """The lines, whatever ends them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def normalize_text(text: str) -> str:
    """`text` without what does not matter: indentation, line ends, empty lines around it."""
    return "\n".join(line.strip() for line in split_lines(text)).strip("\n")


def compute_block_id(text: str) -> str:
    """What a block is known by: the hash of what it says."""
    return hashlib.sha256(normalize_text(text).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _identify_other_language(text: str) -> str | None:
    """What a text is that is no shell script, None when it may be one."""
    first = text.split("\n", 1)[0].strip()
    if first.startswith("#!") and not _SHELL_SHEBANG.match(first):
        return f"a script for {first[2:].strip()}"
    if text.lstrip()[:1] in ("{", "["):
        import json

        try:
            json.loads(text)
        except (ValueError, RecursionError):
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


def _list_syntax_errors(text: str, shown: str) -> list[ReadProblem]:
    """What bash says that is no shell, where it is there to ask; nothing of the script is run."""
    if _NON_BASH_SHEBANG.match(text):
        return []
    said = shell.run(
        ["sh", "-c", "command -v bash >/dev/null && LC_ALL=C exec bash -O extglob -n"],
        stdin="\n".join(split_lines(text)).encode("utf-8", "replace"),
    )
    found = re.search(r"line (\d+): (syntax error.*)", said.err.decode("utf-8", "replace"))
    return [ReadProblem(path=shown, line=int(found[1]), message=f"this is no shell: {found[2]}")] if found else []


def _split_paragraphs(lines: list[str], path: str) -> tuple[list[_Paragraph], list[ReadProblem]]:
    """The script in pieces. What is never closed is named, held to end with its line, and the reading goes on after it."""
    paragraphs: list[_Paragraph] = []
    problems: list[ReadProblem] = []
    cut: set[int] = set()
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        paragraph, culprit = _read_paragraph(lines, at, cut, carries=len(problems) < _MAX_PROBLEMS)
        if culprit:
            problems.append(ReadProblem(path=path, line=culprit[0], message=culprit[1]))
            cut.add(culprit[0])
            continue
        paragraphs.append(paragraph)
        at += len(paragraph.lines)
    return paragraphs, problems


def _read_paragraph(
    lines: list[str], start: int, cut: set[int], *, carries: bool
) -> tuple[_Paragraph, tuple[int, str] | None]:
    """The paragraph at `start`, and what is never closed in it: the line it begins in, and what to say of it."""
    lexer = ShellLexer()
    suspect: tuple[int, str] | None = None  # the first quote that goes over an empty line
    commands = _CommandBuilder()
    end = start
    for number in range(start + 1, len(lines) + 1):
        line = lines[number - 1]
        if not line.strip():
            if not lexer.is_inside_open_text:
                break
            suspect = suspect or lexer.outermost_open_quote
        joined, quoted = lexer.is_escaped, lexer.is_quoted or lexer.pending_here_document is not None
        code = lexer.add_line(line, number)
        if number in cut or not carries:
            lexer = ShellLexer()
        commands.add_line(code, joined=joined, quoted=quoted, goes_on=lexer.is_inside_open_text or lexer.is_compound)
        end = number
    paragraph = _Paragraph(line=start + 1, lines=lines[start:end], commands=commands.finish())
    document = lexer.pending_here_document
    if document:
        return paragraph, (document.line, f"the here-document {document.delimiter!r} has no end")
    if lexer.outermost_open_quote:
        line_of, sign = suspect or lexer.outermost_open_quote
        return paragraph, (line_of, f"the {sign} is never closed")
    return paragraph, None


class _CommandBuilder:
    """Lines of code put together to commands."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._current = ""
        self._is_open = False

    def add_line(self, code: str, *, joined: bool, quoted: bool, goes_on: bool) -> None:
        """The next line: `joined` by a backslash to the one before, or begun inside a quote."""
        if not self._is_open:
            self._current = code.lstrip()
        elif joined and quoted:
            self._current = self._current[:-1] + code
        elif joined:
            gap = " " if self._current[-2:-1].isspace() or code[:1].isspace() else ""
            self._current = self._current[:-1].rstrip() + gap + code.lstrip()
        elif code.strip() or quoted:
            self._current += "\n" + code
        self._is_open = goes_on
        if not goes_on:
            self._finish_command()

    def finish(self) -> list[str]:
        """All commands; what is still open is one too."""
        self._finish_command()
        shown = [command for command in self._done if not command.startswith("#!")]
        return [] if all(_is_only_set(command) for command in shown) else shown

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
    """The title at the head of a paragraph that begins a section, None when it begins none."""
    first, *more = [line.strip() for line in paragraph.lines[:3]]
    if not first.startswith("#") or first.startswith("#!"):
        return None
    if _BARE_RULE.fullmatch(first):  # a rule, the title, and mostly another rule
        titles = [line for line in more if line.startswith("#") and not _BARE_RULE.fullmatch(line)]
        return _strip_comment_signs(titles[0]) or None if titles else None
    underlined = bool(more) and _BARE_RULE.fullmatch(more[0])
    marked = first.startswith("##") and paragraph.is_heading
    return _strip_comment_signs(first) or None if underlined or marked or _TITLED_RULE.match(first) else None


def _strip_comment_signs(line: str) -> str:
    """A comment without the signs around it."""
    said = line.strip("# \t")
    return re.sub(rf"^{_RULE_LINE}|{_RULE_LINE}$", "", said).strip()


def _get_title(lines: list[str]) -> str:
    """The first line that says something."""
    said = (_strip_comment_signs(line.strip()) for line in lines if not _BARE_RULE.fullmatch(line.strip()))
    return next((title for title in said if title), "")


def build_slug(lines: list[str]) -> str:
    """A short name from the first comment, else from the first command."""
    for text in _iter_meaningful_lines(lines):
        words = re.findall(r"[a-z0-9]+", text.lower().replace("'", ""))
        short = ""
        for word in words:
            if short and len(short) + len(word) >= 48:
                break
            short += ("-" if short else "") + word[:48]
        if short:
            return short
    return "block"


def _iter_meaningful_lines(lines: list[str]) -> Iterator[str]:
    comments = [line.strip() for line in lines if line.lstrip().startswith("#") and not line.startswith("#!")]
    yield from (_strip_comment_signs(line) for line in comments if not _BARE_RULE.fullmatch(line))
    yield from (line for line in lines if not line.lstrip().startswith("#"))
    yield from (line[2:].strip() for line in lines if line.startswith("#!"))
