"""The one renderer: tables, JSON, templates. What an agent wrote is never passed to a terminal raw."""

from __future__ import annotations

import sys

from mngr.base.errors import UsageError, closest
from mngr.cli.framework.terminal_text import clean, colour_state, coloured, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mngr.base.model import Outcome
    from mngr.cli.framework.command_line import Cli

_FIELD = r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, state_column: int | None = None) -> str:
    """Columns as wide as they must be; the last one is cut at the terminal's edge."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    sizes = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
    limit = width()
    colour = coloured(sys.stdout)
    lines = []
    for number, line in enumerate([list(head), *cells]):
        text = "  ".join(cell.ljust(size) for cell, size in zip(line, sizes, strict=True)).rstrip()[:limit]
        if colour and number == 0:
            text = f"\x1b[1m{text}\x1b[0m"
        elif colour and state_column is not None:
            text = text.replace(line[state_column], colour_state(line[state_column]), 1)
        lines.append(text)
    return "\n".join(lines) + "\n"


def dump(value: Any, *, pretty: bool = False) -> str:
    """JSON that is plain ASCII, so that no terminal obeys it."""
    import json

    return json.dumps(value, indent=2 if pretty else None, default=str)


def rows(cli: Cli, key: str, items: Sequence[dict[str, Any]], human: str | None = None, **more: Any) -> None:
    """A list in the format asked for; `human` is what people see."""
    if cli.format == "json":
        cli.out(dump({"v": 1, key: list(items), **more}, pretty=sys.stdout.isatty()))
    elif cli.format == "jsonl":
        for item in items:
            cli.out(dump({"v": 1, **item}))
    elif cli.format == "human":
        if human is not None:
            cli.out(human)
    else:
        for item in items:
            cli.out(fill(cli.format, item))


def one(cli: Cli, item: dict[str, Any], human: str) -> None:
    """One object in the format asked for; `human` is what people see."""
    if cli.format in ("json", "jsonl"):
        cli.out(dump({"v": 1, **item}, pretty=cli.format == "json" and sys.stdout.isatty()))
    else:
        cli.out(human if cli.format == "human" else fill(cli.format, item))


def done(cli: Cli, name: str, human: str | None = None, **more: Any) -> None:
    """What became of one agent, when it is more than a state; `human` is what people see."""
    if cli.format == "human":
        rows(cli, "results", [], None if cli.quiet else human)
    else:
        agent = cli.fleet.get(name)
        rows(cli, "results", [{"id": agent.id, "name": agent.name, "ok": True, "error": None, **more}])


def follow(cli: Cli, items: Iterator[dict[str, Any]], human: Callable[[dict[str, Any]], str]) -> None:
    """Items as they come, each in the format asked for and at once."""
    if cli.format == "json":
        raise UsageError("what is followed has no end, so it is no JSON document", "use --format jsonl")
    for item in items:
        one(cli, item, human(item) if cli.format == "human" else "")
        sys.stdout.flush()


def fill(template: str, item: dict[str, Any]) -> str:
    """`{field}` and `{labels.team}` replaced; a field that does not exist is an error."""

    import re

    def one(match: re.Match[str]) -> str:
        value = field(item, match[1])
        if value is None:
            return ""
        return clean(value if isinstance(value, str) else dump(value))

    return re.sub(_FIELD, one, template.replace("\\t", "\t").replace("\\n", "\n"))


def fields(template: str) -> list[str]:
    """What a template asks for."""
    if "{" not in template:
        return []
    import re

    return re.findall(_FIELD, template)


def field(item: dict[str, Any], path: str) -> Any:
    """The value at `a` or `a.b`; unknown first parts are an error, missing deeper ones are None."""
    first, _, rest = path.partition(".")
    if first not in item:
        raise UsageError(
            f"there is no field {first!r}", closest(first, list(item)) or "fields: " + ", ".join(item)
        )
    value = item[first]
    while rest:
        part, _, rest = (
            rest.partition(".") if not isinstance(value, dict) or rest not in value else (rest, "", "")
        )
        value = value.get(part) if isinstance(value, dict) else None
    return value


def results(cli: Cli, outcomes: Sequence[Outcome], human: Any = None) -> int:
    """Several targets: a line each for people, `results` for programs; the exit code."""
    from mngr.cli.framework.command_line import code_of, raise_if_alone

    if cli.format == "human":
        raise_if_alone(outcomes)
        for outcome in outcomes:
            if outcome.ok and human is not None:
                text = human(outcome)
                if text and not cli.quiet:
                    cli.out(clean(text))
            for note in outcome.notes:
                cli.say(note)
            if not outcome.ok:
                error = outcome.error or "failed"
                named = error if error.startswith(f"{outcome.name} ") else f"{outcome.name}: {error}"
                print(f"Error: {clean(named)}", file=sys.stderr)
                if outcome.hint:
                    print(f"Hint: {clean(outcome.hint)}", file=sys.stderr)
        return code_of(outcomes)
    rows(cli, "results", [outcome.to_dict() for outcome in outcomes])
    raise_if_alone(outcomes)
    return code_of(outcomes)
