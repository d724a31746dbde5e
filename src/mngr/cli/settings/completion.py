"""The command `mngr completion`: the completion script of a shell, and the candidates for each TAB."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="completion",
    summary=COMMANDS["completion"][1],
    description=(
        "Save the script in the directory from which your shell loads completion scripts. When you press Tab, mngr "
        "completes commands, options and the names of agents, snapshots, templates and settings."
    ),
    arguments=(Argument(name="SHELL", help="bash, zsh or fish", complete="shells"),),
    options=(
        Option(
            flags=("--index",),
            metavar="N",
            kind="int",
            help="Print the possible completions of word N of WORDS; only the completion scripts need this option",
        ),
    ),
    trailing=Argument(
        name="WORDS", help="The words of the command line to complete; only the completion scripts need this argument"
    ),
    examples=(
        (
            "mngr completion bash >~/.local/share/bash-completion/completions/mngr",
            "Install the script for bash; the next bash that you start uses it",
        ),
        (
            "mngr completion zsh >~/.zfunc/_mngr",
            "Install the script for zsh; add ~/.zfunc to fpath before you call compinit",
        ),
        (
            "mngr completion fish >~/.config/fish/completions/mngr.fish",
            "Install the script for fish, which uses it immediately",
        ),
        ("mngr completion bash --index 1 -- mngr cre", "Print all completions of the word cre"),
    ),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Print the completion script, or the candidates for one word."""
    shell = args["shell"]
    if shell not in _SCRIPTS:
        raise UsageError(f"mngr has no completion script for {shell!r}", "use one of: " + ", ".join(_SCRIPTS))
    if args["index"] is None:
        cli.print_data(_SCRIPTS[shell])
        return 0
    from mngr.cli.framework.completion_candidates import list_candidates

    words = [*(args.rest or []), ""][1 : args["index"] + 1]
    prefix = ""
    if shell == "bash":  # bash splits --state=RUN at the =.
        words, prefix = _rejoin_split_words(words)
    for word, description in list_candidates(cli.context, words or [""]):
        cli.print_data(word.removeprefix(prefix) if shell == "bash" else f"{word}\t{description}")
    return 0


def _rejoin_split_words(words: list[str]) -> tuple[list[str], str]:
    """Join `--state`, `=`, `RUN` into one word again; return also the part that bash has completed already."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1].startswith("--") and (word == "=" or joined[-1].endswith("=")):
            joined[-1] += word
        else:
            joined.append(word)
    flag, equals, _ = joined[-1].partition("=") if joined else ("", "", "")
    return joined, flag + equals if equals and words[-1] != joined[-1] else ""


_BASH = """\
# mngr completion for bash
_mngr() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        if [ "$word" = :files ]; then
            type compopt >/dev/null 2>&1 && compopt -o default
            COMPREPLY=()
            return
        fi
        COMPREPLY+=("$word")
    done < <(mngr completion bash --index "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null)
}
complete -F _mngr mngr
"""

_ZSH = """\
#compdef mngr
# mngr completion for zsh
_mngr() {
    local line
    local -a found items
    found=("${(@f)$(mngr completion zsh --index $((CURRENT - 1)) -- "${words[@]}" 2>/dev/null)}")
    if [[ $found[1] == :files* ]]; then
        _files
        return
    fi
    for line in $found; do
        [[ -n $line ]] && items+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    _describe mngr items
}
if [[ $funcstack[1] == _mngr ]]; then
    _mngr "$@"
else
    compdef _mngr mngr
fi
"""

_FISH = """\
# mngr completion for fish
function __mngr_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l found (mngr completion fish --index (count $before) -- $before $current 2>/dev/null)
    if string match -q ':files*' -- $found[1]
        __fish_complete_path $current
    else
        printf '%s\\n' $found
    end
end
complete -c mngr -f -a '(__mngr_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
