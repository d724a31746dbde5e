"""A program's commands and options by asking its completion for bash, as TAB would."""

from __future__ import annotations

import os

from mngr.errors import MngrError
from mngr.tutorial.tree import Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.tutorial.tree import Asker

_DEEPEST = 3
_HELP = (("--help",),)
_SYSTEM = "/usr/share/bash-completion"
_ANSWER = """
grep -Eq '_init_completion|_get_comp_words_by_ref|_comp_' "$1" && . /usr/share/bash-completion/bash_completion
. "$1"
shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMP_KEY=9
[[ $(complete -p "$1") =~ -F\\ ([^ ]+) ]] || exit 1
compopt() { :; }
"${BASH_REMATCH[1]}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}" >/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


def read_completion(asker: Asker) -> list[Command]:
    """Everything that is offered, command by command; raises MngrError when there is no completion."""
    name = os.path.basename(asker.program[0])
    script = os.path.join(asker.place, "completion")
    with open(script, "w", encoding="utf-8") as file:
        file.write(_script(asker, name))
    asker.env["PATH"] = os.path.dirname(asker.program[0]) + ":" + asker.env["PATH"]

    def offered(words: tuple[str, ...], current: str) -> list[str]:
        text = asker.ask(["bash", "-c", _ANSWER, "bash", script, name, *asker.program[1:], *words, current])
        return list(dict.fromkeys(word.strip() for word in text.split("\n") if word.strip()))

    def options_of(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        found = [word for word in offered(words, "-") or offered(words, "--") if word.startswith("-")]
        long = [
            word for word in found if word.startswith("--")
        ]  # which of them the short ones stand for is not told
        return tuple((word.rstrip("="),) for word in long or found)

    commands = [Command(words=(), options=options_of(()))]
    for above in commands:  # which grows meanwhile
        if len(above.words) >= _DEEPEST:
            continue
        for word in offered(above.words, ""):
            if word.startswith("-") or not word[:1].isalnum():
                continue
            words = (*above.words, word)
            options = options_of(words)
            if above.words and options == above.options and options != _HELP:
                break  # the values of an argument, and no commands
            commands.append(Command(words=words, options=options))
    return _hoisted(commands)


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
