"""Writes docs/reference and docs/man from the code: `python scripts/reference.py DIRECTORY`."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import re
import sys
from pathlib import Path

from schemas import DOCUMENTS, derive_schema  # type: ignore[import-not-found]

from mngr import __version__, api
from mngr.base import config
from mngr.base.trust.setting_trust_levels import SAFE, SAFE_OPTIONS, TRUSTED, USER_ONLY, classify_setting
from mngr.cli.framework.command_spec import COMMON_OPTIONS, CommandSpec
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, HELP_SECTIONS, get_module_name
from mngr.cli.framework.help import (
    format_flags,
    format_option_help,
    format_trailing,
    format_usage,
    group_options,
)
from mngr.cli.framework.topics import TOPICS
from mngr.plugins import hooks

MADE = "<!-- Made from the code by `make docs`; changes here are lost. -->\n"


def declared(name: str) -> CommandSpec:
    """Return the specification of a command."""
    command: CommandSpec = importlib.import_module(get_module_name(name)).COMMAND
    return command


def page_of(name: str) -> str:
    """Return the name of the page with a command: its own page, or that of its group."""
    return name.split(maxsplit=1)[0]


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


# Markdown


def markdown(text: str) -> str:
    """Return a description as Markdown: paragraphs, and indented lines as a block."""
    parts: list[str] = []
    for is_block, lines in itertools.groupby(text.split("\n"), key=lambda line: line.startswith(" ")):
        text_lines = list(lines)
        parts += ["```\n" + "\n".join(text_lines) + "\n```"] if is_block else text_lines
    return "\n\n".join(parts)


def table(header: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    """Return a Markdown table with two columns."""
    cells = [(f"`{term}`".replace("|", "\\|"), text.replace("|", "\\|")) for term, text in rows]
    return (
        "\n".join(
            [
                f"| {header[0]} | {header[1]} |",
                "|---|---|",
                *(f"| {term_cell} | {text_cell} |" for term_cell, text_cell in cells),
            ]
        )
        + "\n"
    )


def command_text(name: str, level: str) -> str:
    """Return the Markdown section about one command."""
    command = declared(name)
    parts = [
        f"{level} mngr {name}\n",
        sentence(command.summary) + "\n",
        f"```\n{format_usage(command)}\n```\n",
    ]
    aliases = [alias for alias, target in ALIASES.items() if target == name]
    if aliases:
        parts.append(f"Also: {', '.join(f'`mngr {alias}`' for alias in aliases)}.\n")
    if command.description:
        parts.append(markdown(command.description) + "\n")
    if command.examples:
        parts.append(
            "```sh\n" + "\n".join(f"# {description}\n{line}" for line, description in command.examples) + "\n```\n"
        )
    rows = [*((argument.name, argument.help) for argument in command.arguments), *format_trailing(command)]
    if rows:
        parts.append(table(("argument", "what it is"), rows))
    for heading, options in group_options(command.options):
        term = "option" if heading == "Options" else heading
        parts.append(table((term, "what it does"), [(format_flags(o), format_option_help(o)) for o in options]))
    return "\n".join(parts)


def command_pages() -> dict[str, str]:
    """Return the Markdown pages of all commands by path."""
    pages: dict[str, list[str]] = {}
    for name in COMMANDS:
        page = page_of(name)
        if page not in pages:
            pages[page] = [f"# mngr {page}\n"] if page in COMMAND_GROUPS else []
        pages[page].append(command_text(name, "##" if page in COMMAND_GROUPS else "#"))
    footer = "Every command also has the [common options](README.md#common-options).\n"
    return {f"reference/{name}.md": "\n".join([MADE, *parts, footer]) for name, parts in pages.items()}


def index_page() -> str:
    """Return the index of the reference."""
    parts = [MADE, "# Reference\n"]
    for section, heading in HELP_SECTIONS.items():
        rows = [
            f"- [`mngr {name}`]({page_of(name)}.md): {summary}"
            for name, (command_section, summary, _) in COMMANDS.items()
            if command_section == section
        ]
        parts.append(f"## {heading}\n\n" + "\n".join(rows) + "\n")
    parts.append(
        "## Common options\n\n"
        + table(("option", "what it does"), [(format_flags(o), format_option_help(o)) for o in COMMON_OPTIONS])
    )
    parts.append(
        "## More\n\n- [settings](settings.md): all settings\n- [hooks](hooks.md): the functions that a plugin can "
        "implement\n"
        "- [Fleet](fleet.md): the Python API\n- [JSON schemas](schemas.md): the format of the JSON data that mngr "
        "reads and writes\n- [topics](topics.md): addresses, exit codes, filters, formats, states\n"
    )
    return "\n".join(parts)


def settings_page() -> str:
    """Return the page about all settings."""
    rows = []
    for key, (kind, description) in config.SCHEMA.items():
        table_name, _, name = key.partition(".")
        default = config.DEFAULTS.get(table_name, {}).get(name)
        kind_name = {
            bool: "true or false",
            str: "text",
            int: "number",
            list: "list",
            object: "the type depends on the option",
        }[kind]
        rows.append((key, f"{description} ({kind_name}{f'; default: {default}' if default else ''})"))
    return "\n".join([
        MADE,
        "# Settings\n",
        "[Settings and where they come from](../concepts/settings.md) explains the files and their order. `mngr config list` shows every",
        "value with its source.\n",
        table(("key", "what it is"), rows),
        "A `*` stands for a name that you choose. A key with `+=` extends a list instead of replacing it:\n",
        '```toml\n[project]\n"carry+=" = [".env"]\n```\n',
        "`[commands.CMD]` sets the default of an option of that command, for example `commands.create.connect = false`.",
        "`[templates.NAME]` sets options of `create`. `mngr create -t NAME` uses them.\n",
        *setting_classes_section(),
    ])  # fmt: skip


def setting_classes_section() -> list[str]:
    """Return the section that lists which settings a project's files may contain."""
    keys: dict[str, list[str]] = {SAFE: [], TRUSTED: [], USER_ONLY: []}
    for key in config.SCHEMA:
        keys[classify_setting(key)].append(key)
    options = [(f"commands.{name.replace(' ', '.')}", ", ".join(names)) for name, names in SAFE_OPTIONS.items()]
    return [
        "## Settings that a project may contain\n",
        "[Trust a project's settings](../guide/project-trust.md) explains the classes.\n",
        table(
            ("class", "settings"),
            [
                (SAFE, ", ".join(f"`{key}`" for key in keys[SAFE]) + ", and the options in the next table"),
                (TRUSTED, ", ".join(f"`{key}`" for key in keys[TRUSTED])),
                (
                    "user only",
                    ", ".join(f"`{key}`" for key in keys[USER_ONLY]) + ", and every setting that is not listed",
                ),
            ],
        ),
        "A project may set the defaults of these options in `[commands.CMD]`. Those of `create` may also be in",
        "`[templates.NAME]`, and those of `tmr run` in `[tmr]`.\n",
        table(("command", "options"), options),
        "A provider reads only some of its options from a project, such as an image.\n",
    ]


def functions(owner: object) -> list[tuple[str, str, str]]:
    """Return (name, signature, docstring) of the public functions of a module or class, in source order."""
    entries = []
    for name, function in vars(owner).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function))).replace("builtins.", "")
            entries.append(
                (
                    name,
                    signature.replace("(self, ", "(").replace("(self)", "()"),
                    inspect.getdoc(function) or "",
                )
            )
    return entries


def hooks_page() -> str:
    """Return the page about the plugin hooks."""
    parts = [MADE, "# Hooks\n", (inspect.getdoc(hooks) or "") + "\n"]
    for name, signature, text in functions(hooks):
        if name.startswith("mngr_"):
            parts.append(f"## {name}\n\n```python\n{name}{signature}\n```\n\n{text}\n")
    parts.append("[An example plugin](../../examples/mngr-example/README.md) uses all of them.\n")
    return "\n".join(parts)


def fleet_page() -> str:
    """Return the page about the Python API."""
    parts = [
        MADE,
        "# Fleet\n",
        "```python\nfrom mngr import Fleet\n```\n",
        (inspect.getdoc(api.Fleet) or "") + "\n",
    ]
    for name, signature, text in functions(api.Fleet):
        parts.append(f"## {name}\n\n```python\nFleet.{name}{signature}\n```\n\n{text}\n")
    return "\n".join(parts)


def topics_page() -> str:
    """Return the page with all help topics."""
    return "\n".join([MADE, "# Topics\n", *(f"## {name}\n\n```\n{text}```\n" for name, text in TOPICS.items())])


def schema_pages() -> dict[str, str]:
    """Return the JSON Schemas and the page about them, by path."""
    schemas = {name: derive_schema(name) for name in DOCUMENTS}
    parts = [
        MADE,
        "# JSON schemas\n",
        "These schemas describe the format of the JSON data that mngr reads and writes. New versions may add fields, "
        "except to `result.json`.\n",
    ]
    for name, schema in schemas.items():
        rows = [
            (field, describe_field(field_schema, is_optional=field not in schema["required"]))
            for field, field_schema in schema["properties"].items()
        ]
        parts.append(f"## {name}\n\n{schema['description']} Schema: [{name}.json](schemas/{name}.json)\n")
        parts.append(table(("field", "meaning"), rows))
    files = {f"reference/schemas/{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}
    return {"reference/schemas.md": "\n".join(parts), **files}


def describe_field(schema: dict[str, object], *, is_optional: bool) -> str:
    """Return the meaning of a field with its choices."""
    choices = schema.get("enum")
    details = [f"one of: {', '.join(map(str, choices))}"] if isinstance(choices, list) else []
    details += ["optional"] if is_optional else []
    return "; ".join([str(schema.get("description", "")), *details])


# Manual pages


def roff(text: str) -> str:
    """Return the text escaped for roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    lines = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped).splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


def roff_list(rows: list[tuple[str, str]]) -> list[str]:
    """Return the roff lines of a definition list."""
    return [line for term, text in rows for line in (".TP", f".B {roff(term)}", roff(text))]


def roff_head(name: str, summary: str) -> list[str]:
    """Return the first roff lines of a manual page."""
    return [
        '.\\" Made from the code by make docs; changes here are lost.',
        f'.TH "{roff(name.upper())}" 1 "" "mngr {__version__}" "mngr manual"',
        ".SH NAME",
        f"{roff(name)} \\- {roff(summary)}",
    ]


def roff_block(text: str) -> list[str]:
    """Return the roff lines of preformatted text."""
    return [".nf", roff(text.rstrip("\n")), ".fi"]


def command_man(name: str) -> str:
    """Return the manual page of one command."""
    command = declared(name)
    lines = roff_head("mngr-" + name.replace(" ", "-"), command.summary)
    lines += [".SH SYNOPSIS", f".B {roff(format_usage(command))}"]
    if command.description:
        lines.append(".SH DESCRIPTION")
        for line in command.description.split("\n"):
            lines += roff_block(line) if line.startswith(" ") else [".PP", roff(line)]
    rows = [*((argument.name, argument.help) for argument in command.arguments), *format_trailing(command)]
    if rows:
        lines += [".SH ARGUMENTS", *roff_list(rows)]
    lines.append(".SH OPTIONS")
    for heading, options in [*group_options(command.options), ("Common options", list(COMMON_OPTIONS))]:
        lines += [f".SS {heading}", *roff_list([(format_flags(o), format_option_help(o)) for o in options])]
    if command.examples:
        lines.append(".SH EXAMPLES")
        for line, description in command.examples:
            lines += [".PP", roff(sentence(description)), ".PP", ".RS 4", *roff_block(line), ".RE"]
    lines += [".SH SEE ALSO", ".BR mngr (1)"]
    return "\n".join(lines) + "\n"


def main_man() -> str:
    """Return the manual page of mngr itself."""
    lines = roff_head("mngr", "run coding agents, many at a time, each with its own copy of your project")
    lines += [".SH SYNOPSIS", ".B mngr COMMAND [NAME] [OPTIONS]", ".SH COMMANDS"]
    for section, heading in HELP_SECTIONS.items():
        rows = [
            (f"mngr {name}", summary)
            for name, (command_section, summary, _) in COMMANDS.items()
            if command_section == section
        ]
        lines += [f".SS {heading}", *roff_list(rows)]
    lines += [".SH OPTIONS", *roff_list([(format_flags(o), format_option_help(o)) for o in COMMON_OPTIONS])]
    for name, text in TOPICS.items():
        lines += [f".SH {roff(name.replace('-', ' ').upper())}", *roff_block(text)]
    lines += [".SH ENVIRONMENT", *roff_list([
        ("MNGR_HOME", "the directory in which mngr keeps its files (default: ~/.mngr)"),
        ("MNGR__A__B", "the setting a.b"),
        ("NO_COLOR", "turns colours off"),
        ("FORCE_COLOR", "turns colours on where the output is no terminal"),
        ("COLUMNS", "limits the width of tables"),
    ])]  # fmt: skip
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return every page by its path below docs."""
    pages_by_path = {
        **command_pages(),
        "reference/README.md": index_page(),
        "reference/settings.md": settings_page(),
        "reference/hooks.md": hooks_page(),
        "reference/fleet.md": fleet_page(),
        "reference/topics.md": topics_page(),
        **schema_pages(),
        "man/mngr.1": main_man(),
    }
    pages_by_path.update({f"man/mngr-{name.replace(' ', '-')}.1": command_man(name) for name in COMMANDS})
    return pages_by_path


def main(folder: str) -> None:
    """Write all pages, and remove the pages of commands that no longer exist."""
    pages_by_path = {Path(folder) / name: text for name, text in pages().items()}
    for subfolder in ("reference", "reference/schemas", "man"):
        (Path(folder) / subfolder).mkdir(parents=True, exist_ok=True)
        for existing in (Path(folder) / subfolder).iterdir():
            if existing.is_file() and existing not in pages_by_path:
                existing.unlink()
    for path, text in pages_by_path.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
