"""A program's commands and options by asking its completion for bash, as TAB would."""

from __future__ import annotations

import os
import re

from mngr.base.errors import MngrError
from mngr.base.fanout import fanout
from mngr.tutorial.coverage.command_tree import Asker, Command

_DEEPEST = 3  # words of a command
_HELP = (("--help",),)
_SYSTEM = "/usr/share/bash-completion"
_AT_ONCE = 8  # questions to one bash, which has the script to read first
_END = "\x1e"
_ANSWER = (
    f"""
exec 2>/dev/null
grep -Eq '_init_completion|_get_comp_words_by_ref|_comp_' "$1" && . {_SYSTEM}/bash_completion
"""
    + """. "$1"
shift
compopt() { :; }
answer() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMP_KEY=9
    [[ $(complete -p "$1") =~ -F\\ ([^ ]+) ]] || return
    "${BASH_REMATCH[1]}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}" >/dev/null
    printf '%s\\n' "${COMPREPLY[@]}"
}
question=()
for word; do
    if [[ $word == $'\\x1e' ]]; then (answer "${question[@]}"); printf '\\x1e\\n'; question=(); else question+=("$word"); fi
done
"""
)
Words = tuple[str, ...]


def read_completion(asker: Asker) -> list[Command]:
    """Everything that is offered, command by command; raises MngrError when there is no completion."""
    script = os.path.join(asker.place, ".completion")  # hidden, or it would be offered too
    with open(script, "w", encoding="utf-8") as file:
        file.write(_script(asker, asker.name))
    asker.env["PATH"] = os.path.dirname(asker.program[0]) + ":" + asker.env["PATH"]
    completion = _Completion(asker, script)
    level = completion.commands([()])
    commands = list(level)
    for _ in range(_DEEPEST):
        below = completion.below(level)
        # Where the first word offered has the options of what is above it, they are values of an argument, and no commands.
        firsts = completion.commands([words[0] for words in below if words])
        known = {first.words: first for first in firsts}
        groups = [
            words
            for above, words in zip(level, below, strict=True)
            if words and not (above.words and known[words[0]].options == above.options != _HELP)
        ]
        rest = completion.commands([words for group in groups for words in group[1:]])
        known.update({command.words: command for command in rest})
        level = [known[words] for group in groups for words in group]
        commands += level
    return _hoisted(commands)


class _Completion:
    """What a completion answers, several questions at a time."""

    def __init__(self, asker: Asker, script: str) -> None:
        self._asker = asker
        self._script = script

    def commands(self, all_words: list[Words]) -> list[Command]:
        """These commands with their options."""
        found = self._offered(all_words, "-")
        again = [words for words, flags in zip(all_words, found, strict=True) if not flags]
        other = dict(zip(again, self._offered(again, "--"), strict=True))
        return [
            Command(words=words, options=_options(flags or other[words]))
            for words, flags in zip(all_words, found, strict=True)
        ]

    def below(self, commands: list[Command]) -> list[list[Words]]:
        """The words that may follow each."""
        found = self._offered([command.words for command in commands], "")
        return [
            [(*command.words, word) for word in words if re.fullmatch(r"[A-Za-z0-9][\w:-]*", word)]
            for command, words in zip(commands, found, strict=True)
        ]

    def _offered(self, all_words: list[Words], current: str) -> list[list[str]]:
        chunks = [all_words[at : at + _AT_ONCE] for at in range(0, len(all_words), _AT_ONCE)]
        answers = fanout(lambda chunk: self._ask(chunk, current), chunks, at_once=4)
        found: list[list[str]] = []
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            found += answer
        return found

    def _ask(self, chunk: list[Words], current: str) -> list[list[str]]:
        start = [self._asker.name, *self._asker.program[1:]]
        questions = [word for words in chunk for word in (*start, *words, current, _END)]
        text = self._asker.ask(["bash", "-c", _ANSWER, "bash", self._script, *questions])
        parts = text.split(f"{_END}\n")[: len(chunk)]
        parts += [""] * (len(chunk) - len(parts))
        return [list(dict.fromkeys(row.strip() for row in part.split("\n") if row.strip())) for part in parts]


def _options(offered: list[str]) -> tuple[tuple[str, ...], ...]:
    """Which of them the short ones stand for is not told, so only the long ones count where there are any."""
    found = [word for word in offered if word.startswith("-")]
    long = [word for word in found if word.startswith("--")]
    return tuple((word.rstrip("="),) for word in long or found)


def _hoisted(commands: list[Command]) -> list[Command]:
    """The same, with what every command offers told by the program itself."""
    leaves = [set(command.options) for command in commands if command.options]
    shared = set.intersection(*leaves) if len(leaves) > 2 else set()
    first = commands[0]
    options = dict.fromkeys(
        (*first.options, *(option for option in commands[-1].options if option in shared))
    )
    return [first.replace(options=tuple(options)), *commands[1:]]


def _script(asker: Asker, name: str) -> str:
    """The completion that the program writes, in one of the usual ways, or that the system has."""
    variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
    for argv, env in (
        ([*asker.program, "completion", "bash"], {}),
        (asker.program, {variable: "bash_source"}),
        ([*asker.program, "completions", "bash"], {}),
    ):
        text = asker.ask(argv, **env)
        if "complete " in text and "-F" in text and name in text:
            return text
    path = f"{_SYSTEM}/completions/{name}"
    if os.path.isfile(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    raise MngrError(f"{name} has no completion for bash that could be found", "use --source help")
