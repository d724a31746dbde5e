"""Tracks what is still open at the end of a shell line: quotes, substitutions, here-documents, compound commands."""

from __future__ import annotations

from collections.abc import Callable

from mngr.base.model import Struct

_OPENING_WORDS = {"if", "case", "for", "while", "until", "select", "{"}
_CLOSING_WORDS = {"fi": "if", "esac": "case", "done": "for while until select", "}": "{"}
_COMMAND_PREFIX_WORDS = {"if", "then", "else", "elif", "do", "while", "until", "{", "!", "time", "function"}
_CODE_CONTEXTS = ("", "(", "$(", "`")  # contexts in which words are commands
_QUOTE_CONTEXTS = ("'", "$'", '"', "`", "$(", "${", "$((")  # an empty line inside these belongs to a word
_WORD_ENDS = set(" \t;&|<>()")


class HereDocument(Struct):
    """A here-document that a `<<` operator started."""

    line: int
    delimiter: str
    is_dedented: bool


class _Frame:
    """An open quote, substitution or parenthesis, and the compound commands inside it."""

    def __init__(self, kind: str, line: int) -> None:
        self.kind = kind
        self.line = line
        self.compounds: list[str] = []


class ShellLexer:
    """Reads a script line by line. After each line the properties say what is open."""

    def __init__(self) -> None:
        self._frames = [_Frame("", 0)]
        self._bodies: list[HereDocument] = []  # here-documents whose lines are being read
        self._announced: list[HereDocument] = []  # here-documents whose lines begin after this line
        self._escaped = False  # the line ended with a backslash
        self._operator = False  # the line ended with | or && or ||
        self._word = ""
        self._is_command = True  # the next word is in command position
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
        """The here-document whose lines come next, or None."""
        return self._bodies[0] if self._bodies else None

    @property
    def outermost_open_quote(self) -> tuple[int, str] | None:
        """The line and the sign of the outermost open quote or substitution, or None."""
        return next(((f.line, f.kind) for f in self._frames if f.kind in _QUOTE_CONTEXTS), None)

    @property
    def is_inside_open_text(self) -> bool:
        """True when an empty next line would continue the present command or text."""
        return bool(self._bodies or self._escaped or self._operator or self.outermost_open_quote)

    @property
    def is_escaped(self) -> bool:
        """True when a backslash joins the next line to this one."""
        return self._escaped

    @property
    def is_quoted(self) -> bool:
        """True when the next line begins inside a quote."""
        return self._frames[-1].kind not in _CODE_CONTEXTS

    @property
    def has_open_compound(self) -> bool:
        """True when a loop, a condition, a function or a subshell is open."""
        return len(self._frames) > 1 or bool(self._frames[0].compounds)

    def add_line(self, line: str, number: int) -> str:
        """Read the next line, and return its code without a trailing comment."""
        if self._bodies:
            body = self._bodies[0]
            if (line.lstrip("\t") if body.is_dedented else line) == body.delimiter:
                self._bodies.pop(0)
            return line
        if not self._escaped and self._frames[-1].kind in _CODE_CONTEXTS:
            self._word = ""
            self._is_command = True
        self._escaped = False
        code = self._scan_line(line, number)
        if not self._escaped and self._frames[-1].kind in _CODE_CONTEXTS:
            self._end_word()
            self._bodies, self._announced = self._announced, []
        return code

    def _scan_line(self, line: str, number: int) -> str:
        position = 0
        while position < len(line):
            frame = self._frames[-1]
            if line[position] == "#" and frame.kind in _CODE_CONTEXTS and not self._word:
                end = line.find("`", position) if frame.kind == "`" else -1
                if end < 0:
                    return line[:position].rstrip()
                position = end
                continue
            if line[position] == "\\" and frame.kind != "'":
                self._escaped = position + 1 == len(line) and frame.kind != "$'"
                self._word += line[position : position + 2]
                if not self._escaped:
                    self._operator = False
                position += 2
                continue
            position += self._consume_characters(frame, line, position, number)
        return line

    def _consume_characters(self, frame: _Frame, line: str, position: int, number: int) -> int:
        """Consume the characters at `position`, and return how many were consumed."""
        return self._rules.get(frame.kind, self._step_code)(frame, line, position, number)

    def _step_single_quote(self, frame: _Frame, line: str, position: int, number: int) -> int:
        if line[position] == "'":
            self._frames.pop()
        return 1

    def _step_double_quote(self, frame: _Frame, line: str, position: int, number: int) -> int:
        if line[position] == '"':
            self._frames.pop()
            return 1
        return self._step_substitution(line, position, number) or 1

    def _step_parameter(self, frame: _Frame, line: str, position: int, number: int) -> int:
        if line[position] == "}":
            self._frames.pop()
            return 1
        if line[position] == '"' or (line[position] == "'" and all(f.kind != '"' for f in self._frames)):
            return self._open_construct(line[position], number)
        return self._step_substitution(line, position, number) or 1

    def _step_arithmetic(self, frame: _Frame, line: str, position: int, number: int) -> int:
        if line[position] == "(":
            frame.compounds.append("(")
        elif line[position] == ")" and frame.compounds:
            frame.compounds.pop()
        elif line[position] == ")":
            self._frames.pop()
            return 2 if line[position : position + 2] == "))" else 1
        elif line[position] == '"':
            return self._open_construct('"', number)
        else:
            return self._step_substitution(line, position, number) or 1
        return 1

    def _step_code(self, frame: _Frame, line: str, position: int, number: int) -> int:
        char = line[position]
        if char not in " \t":
            self._operator = False
        if char in "'\"":
            self._word += char
            return self._open_construct("$'" if char == "'" and self._word.endswith("$'") else char, number)
        consumed = self._step_substitution(line, position, number)
        if consumed:
            if self._frames[-1].kind not in _CODE_CONTEXTS:
                self._word += line[position : position + consumed]
            return consumed
        if char not in _WORD_ENDS:
            self._word += char
            return 1
        return self._step_word_end(frame, line, position, number)

    def _step_word_end(self, frame: _Frame, line: str, position: int, number: int) -> int:
        """Consume white space, an operator or a parenthesis, and end the word before it."""
        char, two = line[position], line[position : position + 2]
        is_function = two == "()"
        self._end_word()
        if char in " \t":
            return 1
        if two == "<<":
            return self._step_here_document(line, position, number)
        if char in "<>":
            return 2 if two in ("<(", ">(") and self._open_construct("$(", number) else 1
        if two == "((" and self._is_command:
            return self._open_construct("((", number, 2)
        self._is_command = True
        if is_function:
            return 2
        if char == "(":
            return self._open_construct("(", number)
        if char == ")":
            if frame.kind in ("(", "$(") and frame.compounds[-1:] != ["case"]:
                self._frames.pop()
                self._word = ")" if frame.kind == "$(" else ""  # text after a substitution continues the same word
                self._is_command = frame.kind == "("
            return 1
        if two in ("&&", "||", "|&") or char == "|":
            self._operator = True
            return 2 if two in ("&&", "||", "|&") else 1
        return 1

    def _step_substitution(self, line: str, position: int, number: int) -> int:
        """Begin a `$(`, `${`, `$((` or backquote, or end a backquote. Return 0 when there is none."""
        for sign in ("$((", "$(", "${"):
            if line.startswith(sign, position):
                return self._open_construct(sign, number, len(sign))
        if line[position] != "`":
            return 0
        if self._frames[-1].kind == "`":
            self._end_word()
            self._frames.pop()
            self._word = "`"
            return 1
        return self._open_construct("`", number)

    def _open_construct(self, kind: str, number: int, length: int = 1) -> int:
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
        expects_command = word in _COMMAND_PREFIX_WORDS or word in _CLOSING_WORDS or self._names_function
        self._names_function = self._is_command and word == "function"
        self._is_command = self._is_command and expects_command

    def _step_here_document(self, line: str, position: int, number: int) -> int:
        """Consume `<<WORD` or `<<-WORD`. `<<<` starts no here-document."""
        if line.startswith("<<<", position):
            return 3
        end = position + 2
        is_dedented = line.startswith("-", end)
        end += is_dedented
        while end < len(line) and line[end] in " \t":
            end += 1
        delimiter, end = _read_unquoted_word(line, end)
        if delimiter is not None:
            self._announced.append(HereDocument(line=number, delimiter=delimiter, is_dedented=is_dedented))
        return end - position


def _read_unquoted_word(line: str, position: int) -> tuple[str | None, int]:
    """Return the word at `position` without its quotes, or None, and the position after it."""
    start, word, quote = position, "", ""
    while position < len(line):
        char = line[position]
        if quote:
            quote, word = ("", word) if char == quote else (quote, word + char)
        elif char in "'\"":
            quote = char
        elif char == "\\":
            position += 1
            word += line[position : position + 1]
        elif char in _WORD_ENDS:
            break
        else:
            word += char
        position += 1
    return (word if position > start else None), min(position, len(line))
