"""Reads a program's commands and options from its bash completion, as TAB would show them."""

from __future__ import annotations

import os
import re

from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.tutorial.coverage.help_text_reader import HelpRunner, ProgramCommand

_MAX_DEPTH = 3  # the largest number of words in a command
_HELP = (("--help",),)
_SYSTEM_COMPLETIONS = "/usr/share/bash-completion"
_BATCH_SIZE = 8  # questions per bash process, because each must first read the script
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


def read_completion(runner: HelpRunner) -> list[ProgramCommand]:
    """Return every command that the completion offers. Raise MngrError when there is no completion."""
    script = os.path.join(runner.place, ".completion")  # hidden, so that the completion does not offer it
    with open(script, "w", encoding="utf-8") as file:
        file.write(_get_completion_script(runner, runner.name))
    runner.env["PATH"] = os.path.dirname(runner.program[0]) + ":" + runner.env["PATH"]
    completion = _CompletionReader(runner, script)
    commands_at_level = completion.read_commands([()])
    commands = list(commands_at_level)
    for _ in range(_MAX_DEPTH):
        subcommands = completion.list_subcommands(commands_at_level)
        # If the first word has the same options as its parent, the words are values of an argument, not commands.
        first_commands = completion.read_commands([words[0] for words in subcommands if words])
        known = {first.words: first for first in first_commands}
        groups = [
            words
            for parent, words in zip(commands_at_level, subcommands, strict=True)
            if words and not (parent.words and known[words[0]].options == parent.options != _HELP)
        ]
        rest = completion.read_commands([words for group in groups for words in group[1:]])
        known.update({command.words: command for command in rest})
        commands_at_level = [known[words] for group in groups for words in group]
        commands += commands_at_level
    return _hoist_common_options(commands)


class _CompletionReader:
    """Asks a completion several questions at a time."""

    def __init__(self, runner: HelpRunner, script: str) -> None:
        self._asker = runner
        self._script = script

    def read_commands(self, all_words: list[Words]) -> list[ProgramCommand]:
        """Return these commands with their options."""
        offers = self._list_offers(all_words, "-")
        without_flags = [words for words, flags in zip(all_words, offers, strict=True) if not flags]
        long_flags = dict(zip(without_flags, self._list_offers(without_flags, "--"), strict=True))
        return [
            ProgramCommand(words=words, options=_select_options(flags or long_flags[words]))
            for words, flags in zip(all_words, offers, strict=True)
        ]

    def list_subcommands(self, commands: list[ProgramCommand]) -> list[list[Words]]:
        """Return the words that may follow each command."""
        offers = self._list_offers([command.words for command in commands], "")
        return [
            [(*command.words, word) for word in words if re.fullmatch(r"[A-Za-z0-9][\w:-]*", word)]
            for command, words in zip(commands, offers, strict=True)
        ]

    def _list_offers(self, all_words: list[Words], current: str) -> list[list[str]]:
        chunks = [all_words[start : start + _BATCH_SIZE] for start in range(0, len(all_words), _BATCH_SIZE)]
        answers = map_parallel(lambda chunk: self._ask_batch(chunk, current), chunks, at_once=4)
        offers: list[list[str]] = []
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            offers += answer
        return offers

    def _ask_batch(self, chunk: list[Words], current: str) -> list[list[str]]:
        start = [self._asker.name, *self._asker.program[1:]]
        questions = [word for words in chunk for word in (*start, *words, current, _ANSWER_END)]
        text = self._asker.run_program(["bash", "-c", _ANSWER_SCRIPT, "bash", self._script, *questions])
        parts = text.split(f"{_ANSWER_END}\n")[: len(chunk)]
        parts += [""] * (len(chunk) - len(parts))
        return [list(dict.fromkeys(row.strip() for row in part.split("\n") if row.strip())) for part in parts]


def _select_options(words: list[str]) -> tuple[tuple[str, ...], ...]:
    """Return the long options, or the short ones when there are no long ones.

    The completion does not say which short option belongs to which long one.
    """
    flags = [word for word in words if word.startswith("-")]
    long_flags = [word for word in flags if word.startswith("--")]
    return tuple((word.rstrip("="),) for word in long_flags or flags)


def _hoist_common_options(commands: list[ProgramCommand]) -> list[ProgramCommand]:
    """Return the commands, with the options that all of them share added to the program itself."""
    option_sets = [set(command.options) for command in commands if command.options]
    shared = set.intersection(*option_sets) if len(option_sets) > 2 else set()
    program = commands[0]
    options = dict.fromkeys((*program.options, *(option for option in commands[-1].options if option in shared)))
    return [program.replace(options=tuple(options)), *commands[1:]]


def _get_completion_script(runner: HelpRunner, name: str) -> str:
    """Return the completion script that the program prints, or the one that the system has installed."""
    variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
    for argv, env in (
        ([*runner.program, "completion", "bash"], {}),
        (runner.program, {variable: "bash_source"}),
        ([*runner.program, "completions", "bash"], {}),
    ):
        text = runner.run_program(argv, **env)
        if "complete " in text and "-F" in text and name in text:
            return text
    path = f"{_SYSTEM_COMPLETIONS}/completions/{name}"
    if os.path.isfile(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    raise MngrError(
        f"there is no bash completion for {name}",
        f"use its --help texts instead: mngr tutorial coverage --program {shell.quote(shell.join(runner.program))} --source help",
    )
