"""What could be written at a place of a command line. Imports no third-party package: it answers every TAB."""

from __future__ import annotations

import os

from mngr.cli.framework.spec import COMMON
from mngr.cli.framework.table import ALIASES, COMMANDS, GROUPS, module_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.cli.framework.spec import Command, Option

    Candidates = list[tuple[str, str]]  # (word, what it is)

FILES = ":files"  # the shell knows better than we do


def candidates(ctx: Context, words: list[str]) -> Candidates:
    """Every word that fits in place of the last of `words`; FILES alone when that is a file."""
    *before, current = words
    found = _find(ctx, before, current)
    if found == [(FILES, "")]:
        return found
    return [(word, what) for word, what in found if word.startswith(current)]


def _find(ctx: Context, before: list[str], current: str) -> Candidates:
    command, rest = _command(before)
    if command is None:
        return _commands(rest)
    if "--" in rest:
        return [(FILES, "")] if command.rest else _arguments(ctx, command, rest)
    options = {flag: option for option in (*command.options, *COMMON) for flag in option.flags}
    if rest and rest[-1] in options and not options[rest[-1]].is_switch:
        return _values(ctx, options[rest[-1]])
    flag, eq, _ = current.partition("=")
    if eq and flag in options and not options[flag].is_switch:
        return [
            (word if word == FILES else f"{flag}={word}", what) for word, what in _values(ctx, options[flag])
        ]
    if current.startswith("-"):
        return _flags(command, rest)
    return _arguments(ctx, command, rest)


def _command(before: list[str]) -> tuple[Command | None, list[str]]:
    """The command that the words before the cursor name, and the words after its name."""
    import importlib

    at = 0
    valued = {flag for option in COMMON if not option.is_switch for flag in option.flags}
    while at < len(before) and before[at].startswith("-"):
        at += 2 if before[at] in valued else 1
    words = before[at:]
    if not words:
        return None, []
    first = ALIASES.get(words[0], words[0])
    length = 2 if first in GROUPS else 1
    name = " ".join([first, *words[1:length]])
    if name not in COMMANDS:
        return None, words
    return importlib.import_module(module_name(name)).COMMAND, words[length:]


def _commands(words: list[str]) -> Candidates:
    """Commands and groups, or the commands of the group that is all of `words`."""
    if len(words) > 1:
        return []
    if words:
        start = words[0] + " "
        return [
            (name.removeprefix(start), what)
            for name, (_, what, _) in COMMANDS.items()
            if name.startswith(start)
        ]
    groups = [(group, f"{', '.join(what for what, _ in _commands([group]))}") for group in GROUPS]
    return [(name, what) for name, (_, what, _) in COMMANDS.items() if " " not in name] + groups


def _flags(command: Command, given: list[str]) -> Candidates:
    found: Candidates = []
    for option in (*command.options, *COMMON):
        if option.many or not set(option.flags) & set(given):
            found.extend((flag, option.help) for flag in option.flags if flag.startswith("--"))
    return found


def _arguments(ctx: Context, command: Command, given: list[str]) -> Candidates:
    """What fits the argument that comes next; names that stand there already are left out."""
    valued = {flag for o in (*command.options, *COMMON) if not o.is_switch for flag in o.flags}
    plain = [
        w for at, w in enumerate(given) if not w.startswith("-") and (at == 0 or given[at - 1] not in valued)
    ]
    arguments = command.arguments
    place = min(len(plain), len(arguments) - 1)
    if place < 0 or (len(plain) >= len(arguments) and not arguments[-1].many):
        return []
    argument = arguments[place]
    taken = plain if argument.many else []
    return [(word, what) for word, what in _known(ctx, argument.complete) if word not in taken]


def _values(ctx: Context, option: Option) -> Candidates:
    if option.choices:
        return [(choice, "") for choice in option.choices]
    return _known(ctx, option.complete)


def _known(ctx: Context, what: str | None) -> Candidates:
    if what == "files":
        return [(FILES, "")]
    source = _SOURCES.get(what or "")
    return source(ctx) if source is not None else []


def _agents(ctx: Context) -> Candidates:
    from mngr.host import store

    return [(name, "an agent") for name in store.list_names(ctx.home)]


def _kinds(ctx: Context) -> Candidates:
    from mngr.plugins.loader import KINDS

    return [(name, "a kind of agent") for name in KINDS]


def _states(ctx: Context) -> Candidates:
    from mngr.base.model import STATES

    return [(state, "") for state in STATES]


def _templates(ctx: Context) -> Candidates:
    found = dict.fromkeys(key.split(".")[1] for key in _values_set(ctx) if key.startswith("templates."))
    return [(name, "a template") for name in found]


def _snapshots(ctx: Context) -> Candidates:
    try:
        found = sorted(os.listdir(ctx.home.snapshots))
    except OSError:
        return []
    return [(name, "a snapshot") for name in found if not name.startswith(".")]


def _graves(ctx: Context) -> Candidates:
    from mngr.agents.inspect.trash import list_graves
    from mngr.base.errors import MngrError

    try:
        graves = list_graves(ctx)
    except MngrError:
        return []
    known = [grave.name for grave in graves]
    return [
        (g.name if known.count(g.name) == 1 else g.id, f"{g.name}, destroyed {g.destroyed_at}")
        for g in graves
    ]


def _runs(ctx: Context) -> Candidates:
    from mngr.base.paths import find_project_root
    from mngr.mapreduce.run_dir import list_runs

    return [(name, "a run") for name in reversed(list_runs(find_project_root(ctx.cwd) or ctx.cwd))]


def _changes(ctx: Context) -> Candidates:
    """Of the latest run, as they were when somebody looked."""
    from mngr.base.errors import MngrError
    from mngr.base.paths import find_project_root
    from mngr.mapreduce.run_dir import find_run
    from mngr.tmr.changes.changes import load

    try:
        return [
            (one.id, one.title) for one in load(find_run(find_project_root(ctx.cwd) or ctx.cwd, kind="tmr"))
        ]
    except (MngrError, ValueError):
        return []


def _topics(ctx: Context) -> Candidates:
    from mngr.cli.framework.topics import TOPICS

    return [*_commands([]), *((name, "a topic") for name in TOPICS)]


def _settings(ctx: Context) -> Candidates:
    from mngr.base.config import SCHEMA

    known = {key: what for key, (_, what) in SCHEMA.items() if "*" not in key}
    return sorted({**dict.fromkeys(_values_set(ctx), "set now"), **known}.items())


def _targets(ctx: Context) -> Candidates:
    return [("@local", "this machine"), *_kinds(ctx)]


def _shells(ctx: Context) -> Candidates:
    return [(shell, "") for shell in ("bash", "zsh", "fish")]


def _values_set(ctx: Context) -> list[str]:
    from mngr.base.errors import MngrError

    try:
        return list(ctx.settings.values)
    except MngrError:
        return []


_SOURCES = {
    "agents": _agents, "kinds": _kinds, "states": _states, "templates": _templates, "snapshots": _snapshots,
    "graves": _graves, "commands": _topics, "settings": _settings, "targets": _targets, "shells": _shells,
    "runs": _runs, "changes": _changes,
}  # fmt: skip
