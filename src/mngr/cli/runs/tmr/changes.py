"""`mngr tmr changes`."""

from __future__ import annotations

from mngr.base.errors import MngrError, NotFound, UsageError, suggest_closest
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import Argument, CommandSpec, Option
from mngr.cli.runs.run_options import get_project_root
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.changes.changes import Change
    from mngr.tmr.changes.gather import GatheredChanges

_TITLE, _NAMES, _CAUSES = 60, 2, 5  # columns; names and reasons that are shown
_MAX_DIFF_CHARACTERS = 1 << 20  # characters that are shown to people

COMMAND = CommandSpec(
    name="tmr changes",
    summary=COMMANDS["tmr changes"][1],
    description=(
        "A change is what is merged as a whole or not at all: what a task did to tests and texts, or one fix of the program. The same\n"
        "edit by several agents is one change. Only what a receipt confirms is a change; while the run goes on, what is settled so far.\n"
        "After `tmr integrate` it is also said which of them are in the branch, and why others are not."
    ),
    arguments=(
        RUN_ARGUMENT,
        Argument(
            name="CHANGE",
            help="all about one: the beginning of its id is enough",
            required=False,
            complete="changes",
        ),
    ),
    options=(Option(flags=("--diff",), help="what it does, line by line"),),
    examples=(
        ("mngr tmr changes", "what the latest run has to offer"),
        ("mngr tmr changes nightly 3fa2 --diff", "one of them, with what it does"),
        ("mngr tmr changes --format '{id} {kind} {tasks} {title}'", "as you like it"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Find out what there is, and show it."""
    from mngr.tmr.changes.conflict_graph import list_conflicts, map_conflicts
    from mngr.tmr.changes.excluded import group_by_reason
    from mngr.tmr.changes.gather import find_integration, gather_changes

    place, named = _resolve_arguments(cli, args)
    if args["diff"] and named is None:
        raise UsageError("--diff needs a change", "name one: mngr tmr changes CHANGE --diff")
    found = gather_changes(cli.context.local_host, place)
    near = map_conflicts(list_conflicts(cli.context.local_host, place.repo, found.changes))
    done = find_integration(place)
    rows = {
        change.id: {**change.to_dict(), "clashes": sorted(near.get(change.id, ())), "integration": _find_integration_result(change, done)}
        for change in found.changes
    }  # fmt: skip
    if named is not None:
        change = _get_change(place, found.changes, named, args["run"])
        row = {**rows[change.id], **({"diff": _read_diff(cli, place, change)} if args["diff"] else {})}
        render.render_item(cli, row, terminal_text.strip_controls(_format_change(row)))
        return 0
    left = [one.to_dict() for one in found.excluded]
    human = terminal_text.strip_controls(_format_heading(place, found)) + _format_table(list(rows.values()))
    human += terminal_text.strip_controls(_format_tasks_without_change(group_by_reason(found.excluded)))
    render.render_rows(cli, "changes", list(rows.values()), human, run=place.name, left_out=left)
    return 0


# What is meant


def _resolve_arguments(cli: Cli, args: Args) -> tuple[RunDir, str | None]:
    """The run, and the word for a change; one word alone is a run if there is one of that name."""
    from mngr.mapreduce.run_dir import get_run, list_runs

    root, word, change = get_project_root(cli), args["run"], args["change"]
    if word is not None and change is None and word not in list_runs(root):
        return get_run(root, kind="tmr"), word
    return get_run(root, word, "tmr"), change


def _get_change(place: RunDir, changes: Sequence[Change], word: str, given: str | None) -> Change:
    """The change that a word is the beginning of."""
    from mngr.mapreduce.run_dir import list_runs
    from mngr.tmr.changes.selection import list_by_id_prefix

    found = list_by_id_prefix(changes, word)
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(change.id for change in found[:8]) + (" …" if len(found) > 8 else "")
        raise MngrError(f"{word!r} is the beginning of {len(found)} changes", f"one of: {ids}")
    if given == word:
        known = [*(change.id for change in changes), *list_runs(place.root)]
        raise NotFound(
            f"there is no run {word!r}, and no change of {place.name} that begins so",
            suggest_closest(word, known) or "see: mngr tmr changes, and mngr tmr list",
        )
    near = suggest_closest(word, [change.id for change in changes])
    raise NotFound(f"no change of {place.name} begins with {word!r}", near or f"see: mngr tmr changes {place.name}")


def _find_integration_result(change: Change, done: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the integration made of a change; ids may have been shorter then."""
    for row in (done or {}).get("commits", ()):
        if any(change.key.startswith(name) for name in row["changes"]):
            return {"in": True, "commit": row["commit"], "why": None, "reason": None}
    for row in (done or {}).get("left_out", ()):
        if change.key.startswith(row["change"]):
            return {"in": False, "commit": None, "why": row["why"], "reason": row["reason"]}
    return None


def _read_diff(cli: Cli, place: RunDir, change: Change) -> str:
    from mngr.host import git
    from mngr.tmr.commits.trees import GIT_SAFE_ARGS

    words = ("diff-tree", "-p", "-r", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
    done = git.run(cli.context.local_host, place.repo, *GIT_SAFE_ARGS, *words, change.parent, change.commit)
    if done.code:
        raise MngrError(f"git cannot show {change.id}: {done.error_line}", git.suggest_hint(done.error_line))
    return done.out.decode("utf-8", "replace")


# What people see


def _format_heading(place: RunDir, found: GatheredChanges) -> str:
    coming = sum(one.state != "settled" for one in found.state.tasks.values())
    text = f"{place.name}: {len(found.changes) or 'no'} changes"
    return text + (f" so far; not settled: {coming}\n" if coming else "\n")


def _format_table(rows: list[dict[str, Any]]) -> str:
    """A line each, without columns in which nothing would stand."""
    if not rows:
        return ""
    columns = [
        ("ID", [row["id"] for row in rows]),
        ("KIND", [f"{row['kind']}{' flagged' if row['flagged'] else ''}" for row in rows]),
        ("SEEN", [", ".join(row["verdicts"]) for row in rows]),
        ("SIZE", [_format_size(row) for row in rows]),
        ("AGENTS", [str(len(row["agents"])) for row in rows]),
        ("NEEDS", [", ".join(row["needs"]) for row in rows]),
        ("CLASHES WITH", [_format_names(row["clashes"]) for row in rows]),
        ("BRANCH", [_format_short_result(row["integration"]) for row in rows]),
        ("TITLE", [terminal_text.fit_line(row["title"], _TITLE) for row in rows]),
        ("TASKS", [f"{len(row['tasks'])}: {_format_names(row['tasks'])}" for row in rows]),
    ]
    shown = [(name, cells) for name, cells in columns if any(cells)]
    return render.format_table([name for name, _ in shown], list(zip(*(cells for _, cells in shown), strict=True)))


def _format_size(row: dict[str, Any]) -> str:
    size = row["size"]
    files = f"{size['files']} file" + ("" if size["files"] == 1 else "s")
    return f"+{size['added']} -{size['removed']} in {files}"


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES]) + (" …" if len(names) > _NAMES else "")


def _format_short_result(became: dict[str, Any] | None) -> str:
    if became is None:
        return ""
    return str(became["commit"])[:10] if became["in"] else f"no: {became['why']}"


def _format_tasks_without_change(causes: list[dict[str, Any]]) -> str:
    """What is no change, by cause."""
    lines = [f"not taken, {row['count']}: {row['reason']}" for row in causes[:_CAUSES]]
    more = len(causes) - len(lines)
    return "\n".join([*lines, f"and for {more} more reasons: --format json"] if more else lines)


def _format_change(row: dict[str, Any]) -> str:
    """All about one change."""
    from mngr.tmr.commits.untrusted import clean_line

    text = f"{row['id']}: {row['kind']}{', flagged' if row['flagged'] else ''}, {_format_size(row)}\n{row['title']}\n"
    text += f"\n{row['body']}\n" if row["body"] else ""
    parts = (
        ("made by", [_format_author(one) for one in row["made_by"]]),
        ("files", [clean_line(path, 1000) for path in row["paths"]]),
        ("turns green", row["turned"]),
        ("needs", row["needs"]),
        ("clashes with", row["clashes"]),
        ("look at", [_format_finding(one) for one in row["findings"]]),
        ("in the branch", [_format_result(row["integration"])] if row["integration"] else []),
    )
    for name, lines in parts:
        text += f"\n{name}:\n" + "".join(f"  {line}\n" for line in lines) if lines else ""
    if diff := row.get("diff"):
        text += f"\n{diff[:_MAX_DIFF_CHARACTERS]}"
        text += (
            f"\n[{len(diff) - _MAX_DIFF_CHARACTERS} characters more: --format json has all]\n"
            if len(diff) > _MAX_DIFF_CHARACTERS
            else ""
        )
    return text


def _format_author(one: dict[str, Any]) -> str:
    own = ", in other words" if one["variant"] else ""
    return f"{one['task']} ({one['title']}) by {one['agent'] or 'nobody'}: {one['verdict']}, passed {one['runs']}, {one['claimed'][:12]}{own}"


def _format_finding(row: dict[str, Any]) -> str:
    where = f"{row['path']}{':' + str(row['line']) if row.get('line') else ''}: " if row["path"] else ""
    return f"{row['level']} {where}{row['what']}"


def _format_result(became: dict[str, Any]) -> str:
    return f"yes, {became['commit']}" if became["in"] else f"no, {became['why']}: {became['reason']}"
