"""What of a shell script is still open at the end of a line: quotes, substitutions, here-documents, compound commands."""

from __future__ import annotations

from collections.abc import Callable

from mngr.base.model import Struct

_OPENING_WORDS = {"if", "case", "for", "while", "until", "select", "{"}
_CLOSING_WORDS = {"fi": "if", "esac": "case", "done": "for while until select", "}": "{"}
_COMMAND_PREFIX_WORDS = {"if", "then", "else", "elif", "do", "while", "until", "{", "!", "time", "function"}
_CODE_CONTEXTS = ("", "(", "$(", "`")  # where words are commands
_QUOTE_CONTEXTS = ("'", "$'", '"', "`", "$(", "${", "$((")  # a blank line inside of these belongs to a word
_WORD_ENDS = set(" \t;&|<>()")


class HereDocument(Struct):
    """A here-document that was announced."""

    line: int
    delimiter: str
    is_dedented: bool


class _Frame:
    """A quote, a substitution or a pair of parentheses that is open, and the compound commands inside it."""

    def __init__(self, kind: str, line: int) -> None:
        self.kind = kind
        self.line = line
        self.compounds: list[str] = []


class ShellLexer:
    """Takes a script line by line. After each line the properties say what is open."""

    def __init__(self) -> None:
        self._frames = [_Frame("", 0)]
        self._bodies: list[HereDocument] = []  # whose lines come now
        self._announced: list[HereDocument] = []  # whose lines come after this line
        self._escaped = False  # the line ended with a backslash
        self._operator = False  # the line ended with | or && or ||
        self._word = ""
        self._is_command = True  # the next word is in the place of a command
        self._names_function = False  # the next word follows `function`
        self._rules: dict[str, Callable[[_Frame, str, int, int], int]] = {
            "'": self._step_single_quote,
            "$'": self._step_single_quote,
            '"': self._step_double_quote,
            "${": self._step_parameter,
            "$((": self._step_arithmetic,
            "((": self._step_arithmetic,
        }

    @property
    def pending_here_document(self) -> HereDocument | None:
        """The here-document whose lines come next."""
        return self._bodies[0] if self._bodies else None

    @property
    def outermost_open_quote(self) -> tuple[int, str] | None:
        """The outermost quote or substitution that is open: the line it began in, and its sign."""
        return next(((f.line, f.kind) for f in self._frames if f.kind in _QUOTE_CONTEXTS), None)

    @property
    def is_inside_open_text(self) -> bool:
        """Whether an empty line that comes next would be inside of something that goes on."""
        return bool(self._bodies or self._escaped or self._operator or self.outermost_open_quote)

    @property
    def is_escaped(self) -> bool:
        """Whether the line that comes next is joined to this one."""
        return self._escaped

    @property
    def is_quoted(self) -> bool:
        """Whether the line that comes next begins inside a quote."""
        return self._frames[-1].kind not in _CODE_CONTEXTS

    @property
    def is_compound(self) -> bool:
        """Whether a loop, a condition, a function or a subshell is open."""
        return len(self._frames) > 1 or bool(self._frames[0].compounds)

    def add_line(self, line: str, number: int) -> str:
        """Take the next line; what of it is code, which is all but a comment."""
        if self._bodies:
            body = self._bodies[0]
            if (line.lstrip("\t") if body.is_dedented else line) == body.delimiter:
                self._bodies.pop(0)
            return line
        if not self._escaped and self._frames[-1].kind in _CODE_CONTEXTS:
            self._word = ""
            self._is_command = True
        self._escaped = False
        code = self._scan(line, number)
        if not self._escaped and self._frames[-1].kind in _CODE_CONTEXTS:
            self._end_word()
            self._bodies, self._announced = self._announced, []
        return code

    def _scan(self, line: str, number: int) -> str:
        at = 0
        while at < len(line):
            frame = self._frames[-1]
            if line[at] == "#" and frame.kind in _CODE_CONTEXTS and not self._word:
                end = line.find("`", at) if frame.kind == "`" else -1
                if end < 0:
                    return line[:at].rstrip()
                at = end
                continue
            if line[at] == "\\" and frame.kind != "'":
                self._escaped = at + 1 == len(line) and frame.kind != "$'"
                self._word += line[at : at + 2]
                if not self._escaped:
                    self._operator = False
                at += 2
                continue
            at += self._step(frame, line, at, number)
        return line

    def _step(self, frame: _Frame, line: str, at: int, number: int) -> int:
        """Take the character at `at` and what belongs to it; how many that were."""
        return self._rules.get(frame.kind, self._step_code)(frame, line, at, number)

    def _step_single_quote(self, frame: _Frame, line: str, at: int, number: int) -> int:
        if line[at] == "'":
            self._frames.pop()
        return 1

    def _step_double_quote(self, frame: _Frame, line: str, at: int, number: int) -> int:
        if line[at] == '"':
            self._frames.pop()
            return 1
        return self._step_substitution(line, at, number) or 1

    def _step_parameter(self, frame: _Frame, line: str, at: int, number: int) -> int:
        if line[at] == "}":
            self._frames.pop()
            return 1
        if line[at] == '"' or (line[at] == "'" and all(f.kind != '"' for f in self._frames)):
            return self._push(line[at], number)
        return self._step_substitution(line, at, number) or 1

    def _step_arithmetic(self, frame: _Frame, line: str, at: int, number: int) -> int:
        if line[at] == "(":
            frame.compounds.append("(")
        elif line[at] == ")" and frame.compounds:
            frame.compounds.pop()
        elif line[at] == ")":
            self._frames.pop()
            return 2 if line[at : at + 2] == "))" else 1
        elif line[at] == '"':
            return self._push('"', number)
        else:
            return self._step_substitution(line, at, number) or 1
        return 1

    def _step_code(self, frame: _Frame, line: str, at: int, number: int) -> int:
        char = line[at]
        if char not in " \t":
            self._operator = False
        if char in "'\"":
            self._word += char
            return self._push("$'" if char == "'" and self._word.endswith("$'") else char, number)
        taken = self._step_substitution(line, at, number)
        if taken:
            if self._frames[-1].kind not in _CODE_CONTEXTS:
                self._word += line[at : at + taken]
            return taken
        if char not in _WORD_ENDS:
            self._word += char
            return 1
        return self._step_word_end(frame, line, at, number)

    def _step_word_end(self, frame: _Frame, line: str, at: int, number: int) -> int:
        """White space, an operator or a parenthesis: the word before it is complete."""
        char, two = line[at], line[at : at + 2]
        function = two == "()"
        self._end_word()
        if char in " \t":
            return 1
        if two == "<<":
            return self._step_here_document(line, at, number)
        if char in "<>":
            return 2 if two in ("<(", ">(") and self._push("$(", number) else 1
        if two == "((" and self._is_command:
            return self._push("((", number, 2)
        self._is_command = True
        if function:
            return 2
        if char == "(":
            return self._push("(", number)
        if char == ")":
            if frame.kind in ("(", "$(") and frame.compounds[-1:] != ["case"]:
                self._frames.pop()
                self._word = ")" if frame.kind == "$(" else ""  # what follows a substitution is the same word
                self._is_command = frame.kind == "("
            return 1
        if two in ("&&", "||", "|&") or char == "|":
            self._operator = True
            return 2 if two in ("&&", "||", "|&") else 1
        return 1

    def _step_substitution(self, line: str, at: int, number: int) -> int:
        """Begin a `$(`, `${`, `$((` or backquote, or end the last; 0 when there is none."""
        for sign in ("$((", "$(", "${"):
            if line.startswith(sign, at):
                return self._push(sign, number, len(sign))
        if line[at] != "`":
            return 0
        if self._frames[-1].kind == "`":
            self._end_word()
            self._frames.pop()
            self._word = "`"
            return 1
        return self._push("`", number)

    def _push(self, kind: str, number: int, length: int = 1) -> int:
        self._frames.append(_Frame(kind, number))
        if kind in _CODE_CONTEXTS:
            self._word = ""
            self._is_command = True
        return length

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        compounds = self._frames[-1].compounds
        if self._is_command and word in _OPENING_WORDS:
            compounds.append(word)
        elif (
            self._is_command and word in _CLOSING_WORDS and compounds and compounds[-1] in _CLOSING_WORDS[word].split()
        ):
            compounds.pop()
        goes_on = word in _COMMAND_PREFIX_WORDS or word in _CLOSING_WORDS or self._names_function
        self._names_function = self._is_command and word == "function"
        self._is_command = self._is_command and goes_on

    def _step_here_document(self, line: str, at: int, number: int) -> int:
        """`<<WORD`, `<<-WORD`; `<<<` is no here-document."""
        if line.startswith("<<<", at):
            return 3
        end = at + 2
        dedents = line.startswith("-", end)
        end += dedents
        while end < len(line) and line[end] in " \t":
            end += 1
        mark, end = _read_unquoted_word(line, end)
        if mark is not None:
            self._announced.append(HereDocument(line=number, delimiter=mark, is_dedented=dedents))
        return end - at


def _read_unquoted_word(line: str, at: int) -> tuple[str | None, int]:
    """The word at `at` without its quotes, and where it ends; None when there is none."""
    start, word, quote = at, "", ""
    while at < len(line):
        char = line[at]
        if quote:
            quote, word = ("", word) if char == quote else (quote, word + char)
        elif char in "'\"":
            quote = char
        elif char == "\\":
            at += 1
            word += line[at : at + 1]
        elif char in _WORD_ENDS:
            break
        else:
            word += char
        at += 1
    return (word if at > start else None), min(at, len(line))
