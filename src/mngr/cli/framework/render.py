"""The one renderer: tables, JSON, templates. It removes control characters from everything that agents wrote."""

from __future__ import annotations

import sys

from mngr.base.errors import UsageError, suggest_closest
from mngr.base.untrusted_json import as_object
from mngr.cli.framework.terminal_text import (
    colour_state,
    count_columns,
    fit_line,
    get_width,
    is_coloured,
    strip_controls,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from mngr.base.model import Outcome, Struct
    from mngr.cli.framework.cli_invocation import Cli

    AnyStruct = TypeVar("AnyStruct", bound=Struct)

_MAX_CELL_COLUMNS = 10_000
_FIELD_PATTERN = r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, state_column: int | None = None) -> str:
    """Return a table with columns as wide as needed, and lines cut at the width of the terminal."""
    terminal_width = get_width()
    cells = [[fit_line(str(cell), _MAX_CELL_COLUMNS) for cell in row] for row in rows]
    widths = [max(count_columns(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
    if not is_coloured(sys.stdout):
        state_column, heading = None, "{}"
    else:
        heading = "\x1b[1m{}\x1b[0m"
    lines = [heading.format(_format_line(head, widths, terminal_width))]
    lines += [_format_line(line, widths, terminal_width, state_column) for line in cells]
    return "\n".join(lines) + "\n"


def _format_line(cells: Sequence[str], widths: Sequence[int], max_columns: int, state_column: int | None = None) -> str:
    """Return one line of a table, cut at the number of columns, with the cell of the state in its colour."""
    text, used = "", 0
    last = max((index for index, cell in enumerate(cells) if cell.rstrip()), default=-1)
    for index, cell in enumerate(cells[: last + 1]):
        visible = fit_line(cell.rstrip(), max_columns - used)
        padding = "" if index == last else " " * (widths[index] - count_columns(visible) + 2)
        text += (colour_state(visible) if index == state_column and visible else visible) + padding
        used += widths[index] + 2
        if used >= max_columns:
            break
    return text.rstrip()


def format_json(value: object, *, pretty: bool = False) -> str:
    """Return JSON in plain ASCII, which contains no control characters."""
    import json

    return json.dumps(value, indent=2 if pretty else None, default=str)


def render_rows(
    cli: Cli, key: str, items: Sequence[Mapping[str, object]], human: str | None = None, **more: object
) -> None:
    """Print a list in the requested format; `human` is the text for people."""
    if cli.format == "json":
        cli.print_data(format_json({"v": 1, key: list(items), **more}, pretty=sys.stdout.isatty()))
    elif cli.format == "jsonl":
        for item in items:
            cli.print_data(format_json({"v": 1, **item}))
    elif cli.format == "human":
        if human is not None:
            cli.print_data(human)
    else:
        for item in items:
            cli.print_data(fill_template(cli.format, item))


def render_item(cli: Cli, item: Mapping[str, object], human: str) -> None:
    """Print one object in the requested format; `human` is the text for people."""
    if cli.format in ("json", "jsonl"):
        cli.print_data(format_json({"v": 1, **item}, pretty=cli.format == "json" and sys.stdout.isatty()))
    else:
        cli.print_data(human if cli.format == "human" else fill_template(cli.format, item))


def render_agent_result(cli: Cli, name: str, human: str | None = None, **more: object) -> None:
    """Print the result of a command on one agent; `human` is the text for people."""
    if cli.format == "human":
        render_rows(cli, "results", [], None if cli.quiet else human)
    else:
        agent = cli.fleet.get(name)
        render_rows(cli, "results", [{"id": agent.id, "name": agent.name, "ok": True, "error": None, **more}])


def render_stream(cli: Cli, items: Iterator[AnyStruct], human: Callable[[AnyStruct], str]) -> None:
    """Print each item as soon as it arrives, in the requested format."""
    if cli.format == "json":
        raise UsageError(
            "--follow and --format json cannot be combined, because the output never ends", "use --format jsonl"
        )
    for item in items:
        render_item(cli, item.to_dict(), human(item) if cli.format == "human" else "")
        sys.stdout.flush()


def fill_template(template: str, item: Mapping[str, object]) -> str:
    """Return the template with `{field}` and `{labels.team}` replaced; raise UsageError for an unknown field."""

    import re

    def replace_field(match: re.Match[str]) -> str:
        value = get_field(item, match[1])
        if value is None:
            return ""
        return strip_controls(value if isinstance(value, str) else format_json(value))

    return re.sub(_FIELD_PATTERN, replace_field, template.replace("\\t", "\t").replace("\\n", "\n"))


def list_template_fields(template: str) -> list[str]:
    """Return the fields that a template uses."""
    if "{" not in template:
        return []
    import re

    return re.findall(_FIELD_PATTERN, template)


def get_field(item: Mapping[str, object], path: str) -> object:
    """Return the value at `a` or `a.b`; raise UsageError if `a` is unknown, return None if only `b` is missing."""
    first, _, rest = path.partition(".")
    if first not in item:
        hint = suggest_closest(first, list(item)) or "use one of: " + ", ".join(item)
        raise UsageError(f"there is no field {first!r}", hint)
    value = item[first]
    while rest:
        table = as_object(value)
        if rest in table:  # A key may contain dots.
            return table[rest]
        part, _, rest = rest.partition(".")
        value = table.get(part)
    return value


def render_outcomes(cli: Cli, outcomes: Sequence[Outcome], human: Callable[[Outcome], str | None] | None = None) -> int:
    """Print a line for each target, or `results` for programs, and return the exit code."""
    from mngr.cli.framework.cli_invocation import compute_exit_code, raise_single_failure

    if cli.format == "human":
        raise_single_failure(outcomes)
        for outcome in outcomes:
            text = human(outcome) if outcome.ok and human is not None else None
            if text and not cli.quiet:
                cli.print_data(strip_controls(text))
            for note in outcome.notes:
                cli.print_message(note)
            if not outcome.ok:
                _print_failure(outcome)
        return compute_exit_code(outcomes)
    render_rows(cli, "results", [outcome.to_dict() for outcome in outcomes])
    raise_single_failure(outcomes)
    return compute_exit_code(outcomes)


def _print_failure(outcome: Outcome) -> None:
    """Print the error and the hint of a failed target to standard error."""
    error = outcome.error or "failed"
    message = error if error.startswith(f"{outcome.name} ") else f"{outcome.name}: {error}"
    print(f"Error: {strip_controls(message)}", file=sys.stderr)
    if outcome.hint:
        print(f"Hint: {strip_controls(outcome.hint)}", file=sys.stderr)
