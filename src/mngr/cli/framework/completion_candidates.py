"""What could be written at a place of a command line. Imports no third-party package: it answers every TAB."""

from __future__ import annotations

import os

from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, get_module_name
from mngr.cli.framework.spec import COMMON_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.cli.framework.spec import CommandSpec, Option

    Candidates = list[tuple[str, str]]  # (word, what it is)

FILE_CANDIDATES = ":files"  # the shell knows better than we do


def list_candidates(ctx: Context, words: list[str]) -> Candidates:
    """Every word that fits in place of the last of `words`; FILES alone when that is a file."""
    *before, current = words
    found = _list_for_position(ctx, before, current)
    if found == [(FILE_CANDIDATES, "")]:
        return found
    return [(word, what) for word, what in found if word.startswith(current)]


def _list_for_position(ctx: Context, before: list[str], current: str) -> Candidates:
    command, rest = _find_command(before)
    if command is None:
        return _list_commands(rest)
    if "--" in rest:
        return [(FILE_CANDIDATES, "")] if command.trailing_help else _list_arguments(ctx, command, rest)
    options = {flag: option for option in (*command.options, *COMMON_OPTIONS) for flag in option.flags}
    if rest and rest[-1] in options and not options[rest[-1]].is_switch:
        return _list_option_values(ctx, options[rest[-1]])
    flag, eq, _ = current.partition("=")
    if eq and flag in options and not options[flag].is_switch:
        return [
            (word if word == FILE_CANDIDATES else f"{flag}={word}", what)
            for word, what in _list_option_values(ctx, options[flag])
        ]
    if current.startswith("-"):
        return _list_flags(command, rest)
    return _list_arguments(ctx, command, rest)


def _find_command(before: list[str]) -> tuple[CommandSpec | None, list[str]]:
    """The command that the words before the cursor name, and the words after its name."""
    import importlib

    at = 0
    valued = {flag for option in COMMON_OPTIONS if not option.is_switch for flag in option.flags}
    while at < len(before) and before[at].startswith("-"):
        at += 2 if before[at] in valued else 1
    words = before[at:]
    if not words:
        return None, []
    first = ALIASES.get(words[0], words[0])
    length = 2 if first in COMMAND_GROUPS else 1
    name = " ".join([first, *words[1:length]])
    if name not in COMMANDS:
        return None, words
    return importlib.import_module(get_module_name(name)).COMMAND, words[length:]


def _list_commands(words: list[str]) -> Candidates:
    """Commands and groups, or the commands of the group that is all of `words`."""
    if len(words) > 1:
        return []
    if words:
        start = words[0] + " "
        return [(name.removeprefix(start), what) for name, (_, what, _) in COMMANDS.items() if name.startswith(start)]
    groups = [(group, f"{', '.join(what for what, _ in _list_commands([group]))}") for group in COMMAND_GROUPS]
    return [(name, what) for name, (_, what, _) in COMMANDS.items() if " " not in name] + groups


def _list_flags(command: CommandSpec, given: list[str]) -> Candidates:
    found: Candidates = []
    for option in (*command.options, *COMMON_OPTIONS):
        if option.is_repeatable or not set(option.flags) & set(given):
            found.extend((flag, option.help) for flag in option.flags if flag.startswith("--"))
    return found


def _list_arguments(ctx: Context, command: CommandSpec, given: list[str]) -> Candidates:
    """What fits the argument that comes next; names that stand there already are left out."""
    valued = {flag for o in (*command.options, *COMMON_OPTIONS) if not o.is_switch for flag in o.flags}
    plain = [w for at, w in enumerate(given) if not w.startswith("-") and (at == 0 or given[at - 1] not in valued)]
    arguments = command.arguments
    place = min(len(plain), len(arguments) - 1)
    if place < 0 or (len(plain) >= len(arguments) and not arguments[-1].is_repeatable):
        return []
    argument = arguments[place]
    taken = plain if argument.is_repeatable else []
    return [(word, what) for word, what in _list_from_source(ctx, argument.complete) if word not in taken]


def _list_option_values(ctx: Context, option: Option) -> Candidates:
    if option.choices:
        return [(choice, "") for choice in option.choices]
    return _list_from_source(ctx, option.complete)


def _list_from_source(ctx: Context, what: str | None) -> Candidates:
    if what == "files":
        return [(FILE_CANDIDATES, "")]
    source = _CANDIDATE_SOURCES.get(what or "")
    return source(ctx) if source is not None else []


def _list_agents(ctx: Context) -> Candidates:
    from mngr.host import store

    return [(name, "an agent") for name in store.list_names(ctx.home)]


def _list_kinds(ctx: Context) -> Candidates:
    from mngr.plugins.loader import KIND_MODULES

    return [(name, "a kind of agent") for name in KIND_MODULES]


def _list_states(ctx: Context) -> Candidates:
    from mngr.base.model import STATES

    return [(state, "") for state in STATES]


def _list_templates(ctx: Context) -> Candidates:
    found = dict.fromkeys(key.split(".")[1] for key in _list_set_keys(ctx) if key.startswith("templates."))
    return [(name, "a template") for name in found]


def _list_snapshots(ctx: Context) -> Candidates:
    try:
        found = sorted(os.listdir(ctx.home.snapshots))
    except OSError:
        return []
    return [(name, "a snapshot") for name in found if not name.startswith(".")]


def _list_trash(ctx: Context) -> Candidates:
    from mngr.agents.inspect.trash import list_trash
    from mngr.base.errors import MngrError

    try:
        graves = list_trash(ctx)
    except MngrError:
        return []
    known = [grave.name for grave in graves]
    return [(g.name if known.count(g.name) == 1 else g.id, f"{g.name}, destroyed {g.destroyed_at}") for g in graves]


def _list_runs(ctx: Context) -> Candidates:
    from mngr.base.paths import find_project_root
    from mngr.mapreduce.run_dir import list_runs

    return [(name, "a run") for name in reversed(list_runs(find_project_root(ctx.cwd) or ctx.cwd))]


def _list_changes(ctx: Context) -> Candidates:
    """Of the latest run, as they were when somebody looked."""
    from mngr.base.errors import MngrError
    from mngr.base.paths import find_project_root
    from mngr.mapreduce.run_dir import get_run
    from mngr.tmr.changes.changes import load_changes

    try:
        return [(one.id, one.title) for one in load_changes(get_run(find_project_root(ctx.cwd) or ctx.cwd, kind="tmr"))]
    except (MngrError, ValueError):
        return []


def _list_topics(ctx: Context) -> Candidates:
    from mngr.cli.framework.topics import TOPICS

    return [*_list_commands([]), *((name, "a topic") for name in TOPICS)]


def _list_settings(ctx: Context) -> Candidates:
    from mngr.base.config import SCHEMA

    known = {key: what for key, (_, what) in SCHEMA.items() if "*" not in key}
    return sorted({**dict.fromkeys(_list_set_keys(ctx), "set now"), **known}.items())


def _list_doctor_targets(ctx: Context) -> Candidates:
    return [("@local", "this machine"), *_list_kinds(ctx)]


def _list_shells(ctx: Context) -> Candidates:
    return [(shell, "") for shell in ("bash", "zsh", "fish")]


def _list_set_keys(ctx: Context) -> list[str]:
    from mngr.base.errors import MngrError

    try:
        return list(ctx.settings.values)
    except MngrError:
        return []


_CANDIDATE_SOURCES = {
    "agents": _list_agents, "kinds": _list_kinds, "states": _list_states, "templates": _list_templates, "snapshots": _list_snapshots,
    "graves": _list_trash, "commands": _list_topics, "settings": _list_settings, "targets": _list_doctor_targets, "shells": _list_shells,
    "runs": _list_runs, "changes": _list_changes,
}  # fmt: skip
