"""A program's commands and options by asking its completion for bash, as TAB would."""

from __future__ import annotations

import os
import re

from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.tutorial.coverage.command_tree import HelpRunner, ProgramCommand

_MAX_DEPTH = 3  # words of a command
_HELP = (("--help",),)
_SYSTEM_COMPLETIONS = "/usr/share/bash-completion"
_BATCH_SIZE = 8  # questions to one bash, which has the script to read first
_ANSWER_END = "\x1e"
_ANSWER_SCRIPT = (
    f"""
exec 2>/dev/null
grep -Eq '_init_completion|_get_comp_words_by_ref|_comp_' "$1" && . {_SYSTEM_COMPLETIONS}/bash_completion
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


def read_completion(asker: HelpRunner) -> list[ProgramCommand]:
    """Everything that is offered, command by command; raises MngrError when there is no completion."""
    script = os.path.join(asker.place, ".completion")  # hidden, or it would be offered too
    with open(script, "w", encoding="utf-8") as file:
        file.write(_get_completion_script(asker, asker.name))
    asker.env["PATH"] = os.path.dirname(asker.program[0]) + ":" + asker.env["PATH"]
    completion = _CompletionReader(asker, script)
    level = completion.read_commands([()])
    commands = list(level)
    for _ in range(_MAX_DEPTH):
        below = completion.list_subcommands(level)
        # Where the first word offered has the options of what is above it, they are values of an argument, and no commands.
        firsts = completion.read_commands([words[0] for words in below if words])
        known = {first.words: first for first in firsts}
        groups = [
            words
            for above, words in zip(level, below, strict=True)
            if words and not (above.words and known[words[0]].options == above.options != _HELP)
        ]
        rest = completion.read_commands([words for group in groups for words in group[1:]])
        known.update({command.words: command for command in rest})
        level = [known[words] for group in groups for words in group]
        commands += level
    return _hoist_common_options(commands)


class _CompletionReader:
    """What a completion answers, several questions at a time."""

    def __init__(self, asker: HelpRunner, script: str) -> None:
        self._asker = asker
        self._script = script

    def read_commands(self, all_words: list[Words]) -> list[ProgramCommand]:
        """These commands with their options."""
        found = self._list_offers(all_words, "-")
        again = [words for words, flags in zip(all_words, found, strict=True) if not flags]
        other = dict(zip(again, self._list_offers(again, "--"), strict=True))
        return [
            ProgramCommand(words=words, options=_select_options(flags or other[words]))
            for words, flags in zip(all_words, found, strict=True)
        ]

    def list_subcommands(self, commands: list[ProgramCommand]) -> list[list[Words]]:
        """The words that may follow each."""
        found = self._list_offers([command.words for command in commands], "")
        return [
            [(*command.words, word) for word in words if re.fullmatch(r"[A-Za-z0-9][\w:-]*", word)]
            for command, words in zip(commands, found, strict=True)
        ]

    def _list_offers(self, all_words: list[Words], current: str) -> list[list[str]]:
        chunks = [all_words[at : at + _BATCH_SIZE] for at in range(0, len(all_words), _BATCH_SIZE)]
        answers = map_parallel(lambda chunk: self._ask_batch(chunk, current), chunks, at_once=4)
        found: list[list[str]] = []
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            found += answer
        return found

    def _ask_batch(self, chunk: list[Words], current: str) -> list[list[str]]:
        start = [self._asker.name, *self._asker.program[1:]]
        questions = [word for words in chunk for word in (*start, *words, current, _ANSWER_END)]
        text = self._asker.run_program(["bash", "-c", _ANSWER_SCRIPT, "bash", self._script, *questions])
        parts = text.split(f"{_ANSWER_END}\n")[: len(chunk)]
        parts += [""] * (len(chunk) - len(parts))
        return [list(dict.fromkeys(row.strip() for row in part.split("\n") if row.strip())) for part in parts]


def _select_options(offered: list[str]) -> tuple[tuple[str, ...], ...]:
    """Which of them the short ones stand for is not told, so only the long ones count where there are any."""
    found = [word for word in offered if word.startswith("-")]
    long = [word for word in found if word.startswith("--")]
    return tuple((word.rstrip("="),) for word in long or found)


def _hoist_common_options(commands: list[ProgramCommand]) -> list[ProgramCommand]:
    """The same, with what every command offers told by the program itself."""
    leaves = [set(command.options) for command in commands if command.options]
    shared = set.intersection(*leaves) if len(leaves) > 2 else set()
    first = commands[0]
    options = dict.fromkeys((*first.options, *(option for option in commands[-1].options if option in shared)))
    return [first.replace(options=tuple(options)), *commands[1:]]


def _get_completion_script(asker: HelpRunner, name: str) -> str:
    """The completion that the program writes, in one of the usual ways, or that the system has."""
    variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
    for argv, env in (
        ([*asker.program, "completion", "bash"], {}),
        (asker.program, {variable: "bash_source"}),
        ([*asker.program, "completions", "bash"], {}),
    ):
        text = asker.run_program(argv, **env)
        if "complete " in text and "-F" in text and name in text:
            return text
    path = f"{_SYSTEM_COMPLETIONS}/completions/{name}"
    if os.path.isfile(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    raise MngrError(f"{name} has no completion for bash that could be found", "use --source help")
