"""Lists the words that fit at a position of a command line.

It runs on every TAB, so it imports no third-party package.
"""

from __future__ import annotations

import os

from mngr.cli.framework.command_spec import COMMON_OPTIONS
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, get_module_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.cli.framework.command_spec import CommandSpec, Option

    Candidates = list[tuple[str, str]]  # (word, description)

FILE_CANDIDATES = ":files"  # The shell completes file names itself.


def list_candidates(ctx: Context, words: list[str]) -> Candidates:
    """Return every word that can replace the last of `words`; FILE_CANDIDATES alone means a file name."""
    *before, current = words
    candidates = _list_for_position(ctx, before, current)
    if candidates == [(FILE_CANDIDATES, "")]:
        return candidates
    return [(word, description) for word, description in candidates if word.startswith(current)]


def _list_for_position(ctx: Context, before: list[str], current: str) -> Candidates:
    """Return every candidate at the cursor, not yet filtered by the current word."""
    command, rest = _find_command(before)
    if command is None:
        return _list_commands(rest)
    if "--" in rest:
        return [(FILE_CANDIDATES, "")] if command.trailing else _list_arguments(ctx, command, rest)
    options = {flag: option for option in (*command.options, *COMMON_OPTIONS) for flag in option.flags}
    if rest and rest[-1] in options and not options[rest[-1]].is_switch:
        return _list_option_values(ctx, options[rest[-1]])
    flag, equals, _ = current.partition("=")
    if equals and flag in options and not options[flag].is_switch:
        return [
            (word if word == FILE_CANDIDATES else f"{flag}={word}", description)
            for word, description in _list_option_values(ctx, options[flag])
        ]
    if current.startswith("-"):
        return _list_flags(command, rest)
    return _list_arguments(ctx, command, rest)


def _find_command(before: list[str]) -> tuple[CommandSpec | None, list[str]]:
    """Return the command that the words before the cursor name, and the words after its name."""
    import importlib

    index = 0
    flags_with_value = {flag for option in COMMON_OPTIONS if not option.is_switch for flag in option.flags}
    while index < len(before) and before[index].startswith("-"):
        index += 2 if before[index] in flags_with_value else 1
    words = before[index:]
    if not words:
        return None, []
    first = ALIASES.get(words[0], words[0])
    length = 2 if first in COMMAND_GROUPS else 1
    name = " ".join([first, *words[1:length]])
    if name not in COMMANDS:
        return None, words
    return importlib.import_module(get_module_name(name)).COMMAND, words[length:]


def _list_commands(words: list[str]) -> Candidates:
    """Return all commands and groups, or the commands of the one group in `words`."""
    if len(words) > 1:
        return []
    if words:
        prefix = words[0] + " "
        return [
            (name.removeprefix(prefix), summary)
            for name, (_, summary, _) in COMMANDS.items()
            if name.startswith(prefix)
        ]
    groups = [(group, f"{', '.join(name for name, _ in _list_commands([group]))}") for group in COMMAND_GROUPS]
    return [(name, summary) for name, (_, summary, _) in COMMANDS.items() if " " not in name] + groups


def _list_flags(command: CommandSpec, words: list[str]) -> Candidates:
    """Return the long flags of a command that can still be given."""
    candidates: Candidates = []
    for option in (*command.options, *COMMON_OPTIONS):
        if option.is_repeatable or not set(option.flags) & set(words):
            candidates.extend((flag, option.help) for flag in option.flags if flag.startswith("--"))
    return candidates


def _list_arguments(ctx: Context, command: CommandSpec, words: list[str]) -> Candidates:
    """Return the candidates for the next argument, without names that the command line has already."""
    flags_with_value = {
        flag for option in (*command.options, *COMMON_OPTIONS) if not option.is_switch for flag in option.flags
    }
    plain_words = [
        word
        for index, word in enumerate(words)
        if not word.startswith("-") and (index == 0 or words[index - 1] not in flags_with_value)
    ]
    arguments = command.arguments
    position = min(len(plain_words), len(arguments) - 1)
    if position < 0 or (len(plain_words) >= len(arguments) and not arguments[-1].is_repeatable):
        return []
    argument = arguments[position]
    taken = plain_words if argument.is_repeatable else []
    return [(word, description) for word, description in _list_from_source(ctx, argument.complete) if word not in taken]


def _list_option_values(ctx: Context, option: Option) -> Candidates:
    """Return the choices of an option, or the candidates from its source."""
    if option.choices:
        return [(choice, "") for choice in option.choices]
    return _list_from_source(ctx, option.complete)


def _list_from_source(ctx: Context, source_name: str | None) -> Candidates:
    """Return the candidates from a named source, or nothing if there is no such source."""
    if source_name == "files":
        return [(FILE_CANDIDATES, "")]
    source = _CANDIDATE_SOURCES.get(source_name or "")
    return source(ctx) if source is not None else []


def _list_agents(ctx: Context) -> Candidates:
    from mngr.host import record_store

    return [(name, "an agent") for name in record_store.list_names(ctx.home)]


def _list_kinds(ctx: Context) -> Candidates:
    from mngr.plugins.loader import KIND_MODULES

    return [(name, "a kind of agent") for name in KIND_MODULES]


def _list_states(ctx: Context) -> Candidates:
    from mngr.base.model import STATES

    return [(state, "") for state in STATES]


def _list_templates(ctx: Context) -> Candidates:
    names = dict.fromkeys(key.split(".")[1] for key in _list_set_keys(ctx) if key.startswith("templates."))
    return [(name, "a template") for name in names]


def _list_snapshots(ctx: Context) -> Candidates:
    try:
        names = sorted(os.listdir(ctx.home.snapshots))
    except OSError:
        return []
    return [(name, "a snapshot") for name in names if not name.startswith(".")]


def _list_trash(ctx: Context) -> Candidates:
    from mngr.agents.inspect.trash import list_trash
    from mngr.base.errors import MngrError

    try:
        trashed_agents = list_trash(ctx)
    except MngrError:
        return []
    names = [trashed.name for trashed in trashed_agents]
    return [
        (
            trashed.name if names.count(trashed.name) == 1 else trashed.id,
            f"{trashed.name}, destroyed {trashed.destroyed_at}",
        )
        for trashed in trashed_agents
    ]


def _list_runs(ctx: Context) -> Candidates:
    from mngr.base.paths import find_project_root
    from mngr.mapreduce.run_dir import list_runs

    return [(name, "a run") for name in reversed(list_runs(find_project_root(ctx.cwd) or ctx.cwd))]


def _list_changes(ctx: Context) -> Candidates:
    """Return the changes of the latest run, as last saved."""
    from mngr.base.errors import MngrError
    from mngr.base.paths import find_project_root
    from mngr.mapreduce.run_dir import get_run
    from mngr.tmr.changes.changes_file import load_changes

    try:
        return [
            (change.id, change.title)
            for change in load_changes(get_run(find_project_root(ctx.cwd) or ctx.cwd, kind="tmr")).changes
        ]
    except (MngrError, ValueError):
        return []


def _list_topics(ctx: Context) -> Candidates:
    from mngr.cli.framework.topics import TOPICS

    return [*_list_commands([]), *((name, "a topic") for name in TOPICS)]


def _list_settings(ctx: Context) -> Candidates:
    """Return the settings that mngr knows and those that are set now."""
    from mngr.base.config import SCHEMA

    known = {key: description for key, (_, description) in SCHEMA.items() if "*" not in key}
    return sorted({**dict.fromkeys(_list_set_keys(ctx), "set now"), **known}.items())


def _list_doctor_targets(ctx: Context) -> Candidates:
    return [("@local", "this machine"), *_list_kinds(ctx)]


def _list_shells(ctx: Context) -> Candidates:
    return [(shell, "") for shell in ("bash", "zsh", "fish")]


def _list_set_keys(ctx: Context) -> list[str]:
    """Return the keys of all settings that have a value, or nothing if the settings are broken."""
    from mngr.base.errors import MngrError

    try:
        return list(ctx.settings.values)
    except MngrError:
        return []


_CANDIDATE_SOURCES = {
    "agents": _list_agents,
    "kinds": _list_kinds,
    "states": _list_states,
    "templates": _list_templates,
    "snapshots": _list_snapshots,
    "trash": _list_trash,
    "commands": _list_topics,
    "settings": _list_settings,
    "targets": _list_doctor_targets,
    "shells": _list_shells,
    "runs": _list_runs,
    "changes": _list_changes,
}
