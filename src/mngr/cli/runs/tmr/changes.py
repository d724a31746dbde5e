"""The command `mngr tmr changes`."""

from __future__ import annotations

from mngr.base.errors import MngrError, NotFound, UsageError, suggest_closest
from mngr.base.size_format import format_count
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import get_project_root
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.changes.collect_changes import Change
    from mngr.tmr.changes.current_changes import GatheredChanges
    from mngr.tmr.changes.integration_record import Integration
    from mngr.tmr.changes.list_exclusions import ExcludedGroup

_TITLE, _NAMES, _CAUSES = 60, 2, 5  # The most columns of a title, and the most names and reasons to show.
_MAX_DIFF_CHARACTERS = 1 << 20  # The most characters of a diff to show to people.

COMMAND = CommandSpec(
    name="tmr changes",
    summary=COMMANDS["tmr changes"][1],
    description=(
        "A change is a set of edits that you can include or exclude: either all edits that one task made to tests and "
        "documents, or one fix of the program. If several agents made the same edit, mngr lists it as one change. The "
        "list contains only confirmed changes. During a run, the list contains the changes of the finished tasks. "
        "After mngr tmr integrate, the list also shows which changes are in the branch, and why mngr left out the "
        "other changes."
    ),
    arguments=(
        RUN_ARGUMENT,
        Argument(
            name="CHANGE",
            help="Show the details of this change; the first digits of its id are enough",
            required=False,
            complete="changes",
        ),
    ),
    options=(Option(flags=("--diff",), help="Also show the diff of the change CHANGE"),),
    examples=(
        ("mngr tmr changes", "List the changes of the latest run"),
        ("mngr tmr changes nightly 3fa2 --diff", "Show the change 3fa2 with its diff"),
        ("mngr tmr changes --format '{id} {kind} {tasks} {title}'", "Print each row in your own format"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Gather the changes of a run and show all of them, or one."""
    from mngr.base.json_structs import encode
    from mngr.tmr.changes.conflict_graph import list_conflicts, map_conflicts
    from mngr.tmr.changes.current_changes import gather_changes
    from mngr.tmr.changes.integration_record import Integration, find_integration
    from mngr.tmr.changes.list_exclusions import group_by_reason

    run_dir, change_word = _resolve_arguments(cli, args)
    if args["diff"] and change_word is None:
        raise UsageError("--diff needs a change", "name a change: mngr tmr changes CHANGE --diff")
    gathered = gather_changes(cli.context.local_host, run_dir)
    conflicts_by_id = map_conflicts(list_conflicts(cli.context.local_host, run_dir.repo, gathered.changes))
    integration = find_integration(run_dir) or Integration()
    rows = {
        change.id: {
            **encode(change),
            "conflicts_with": sorted(conflicts_by_id.get(change.id, ())),
            "integration": _find_integration_result(change, integration),
        }
        for change in gathered.changes
    }
    if change_word is not None:
        change = _get_change(run_dir, gathered.changes, change_word, args["run"])
        row = {**rows[change.id], **({"diff": _read_diff(cli, run_dir, change)} if args["diff"] else {})}
        render.render_item(cli, row, terminal_text.strip_controls(_format_change(row)))
        return 0
    excluded = encode(gathered.excluded)
    human = terminal_text.strip_controls(_format_heading(run_dir, gathered)) + _format_table(list(rows.values()))
    human += terminal_text.strip_controls(_format_tasks_without_change(group_by_reason(gathered.excluded)))
    render.render_rows(cli, "changes", list(rows.values()), human, run=run_dir.name, excluded=excluded)
    return 0


# Arguments


def _resolve_arguments(cli: Cli, args: Args) -> tuple[RunDir, str | None]:
    """Return the run and the word for a change; a single word means a run if one has that name."""
    from mngr.mapreduce.run_dir import list_runs
    from mngr.mapreduce.run_repo import get_own_run

    local = cli.context.local_host
    root, word, change = get_project_root(cli), args["run"], args["change"]
    if word is not None and change is None and word not in list_runs(root):
        return get_own_run(local, root, kind="tmr"), word
    return get_own_run(local, root, word, "tmr"), change


def _get_change(run_dir: RunDir, changes: Sequence[Change], word: str, run_argument: str | None) -> Change:
    """Return the one change whose id begins with a word; raise an error if there is none or several."""
    from mngr.mapreduce.run_dir import list_runs
    from mngr.tmr.changes.find_changes import list_by_id_prefix

    matches = list_by_id_prefix(changes, word)
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(change.id for change in matches[:8]) + (" …" if len(matches) > 8 else "")
        raise MngrError(f"{len(matches)} change ids begin with {word!r}", f"give more digits of an id: {ids}")
    if run_argument == word:
        known = [*(change.id for change in changes), *list_runs(run_dir.root)]
        raise NotFound(
            f"there is no run {word!r}, and no change of {run_dir.name} begins with it",
            suggest_closest(word, known) or "list the runs and changes: mngr tmr list; mngr tmr changes",
        )
    hint = suggest_closest(word, [change.id for change in changes])
    raise NotFound(
        f"no change of {run_dir.name} begins with {word!r}",
        hint or f"list the changes: mngr tmr changes {run_dir.name}",
    )


def _find_integration_result(change: Change, integration: Integration) -> dict[str, Any] | None:
    """Return whether the integration took a change, and why not. Ids may have been shorter then."""
    for commit in integration.commits:
        if any(change.key.startswith(change_id) for change_id in commit.changes):
            return {"in": True, "commit": commit.commit, "why": None, "reason": None}
    for excluded in integration.excluded:
        if change.key.startswith(excluded.change):
            return {"in": False, "commit": None, "why": excluded.why, "reason": excluded.reason}
    return None


def _read_diff(cli: Cli, run_dir: RunDir, change: Change) -> str:
    """Return the diff of a change."""
    from mngr.host import git
    from mngr.tmr.commits.trees import GIT_SAFE_ARGS

    git_args = ("diff-tree", "-p", "-r", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
    result = git.run(
        cli.context.local_host,
        run_dir.repo,
        *GIT_SAFE_ARGS,
        *git_args,
        change.parent,
        change.commit,
        git_command=git.ISOLATED_GIT,
    )
    if result.code:
        raise MngrError(f"git cannot show {change.id}: {result.error_line}", git.suggest_hint(result.error_line))
    return result.out.decode("utf-8", "replace")


# Text for people


def _format_heading(run_dir: RunDir, gathered: GatheredChanges) -> str:
    unsettled = sum(task.state != "settled" for task in gathered.state.tasks.values())
    changes = format_count(len(gathered.changes), "change") if gathered.changes else "no changes"
    progress = f" so far, {format_count(unsettled, 'task')} not finished" if unsettled else ""
    return f"{run_dir.name}: {changes}{progress}\n"


def _format_table(rows: list[dict[str, Any]]) -> str:
    """Return one line per change, without empty columns."""
    if not rows:
        return ""
    columns = [
        ("ID", [row["id"] for row in rows]),
        ("KIND", [f"{row['kind']}{' flagged' if row['flagged'] else ''}" for row in rows]),
        ("VERDICT", [", ".join(row["verdicts"]) for row in rows]),
        ("SIZE", [_format_size(row) for row in rows]),
        ("AGENTS", [str(len(row["agents"])) for row in rows]),
        ("NEEDS", [", ".join(row["needs"]) for row in rows]),
        ("CONFLICTS WITH", [_format_names(row["conflicts_with"]) for row in rows]),
        ("BRANCH", [_format_short_result(row["integration"]) for row in rows]),
        ("TITLE", [terminal_text.fit_line(row["title"], _TITLE) for row in rows]),
        ("TASKS", [f"{len(row['tasks'])}: {_format_names(row['tasks'])}" for row in rows]),
    ]
    used_columns = [(name, cells) for name, cells in columns if any(cells)]
    return render.format_table(
        [name for name, _ in used_columns], list(zip(*(cells for _, cells in used_columns), strict=True))
    )


def _format_size(row: dict[str, Any]) -> str:
    size = row["size"]
    files = f"{size['files']} file" + ("" if size["files"] == 1 else "s")
    return f"+{size['added']} -{size['removed']} in {files}"


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES]) + (" …" if len(names) > _NAMES else "")


def _format_short_result(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    return str(result["commit"])[:10] if result["in"] else f"no: {result['why'].replace('_', ' ')}"


def _format_tasks_without_change(reasons: Sequence[ExcludedGroup]) -> str:
    """Return the tasks that led to no change, grouped by reason."""
    lines = [
        f"{row.count} {'task' if row.count == 1 else 'tasks'} without a change: {row.reason}"
        for row in reasons[:_CAUSES]
    ]
    hidden_count = len(reasons) - len(lines)
    return "\n".join(
        [*lines, f"and {hidden_count} more reasons: mngr tmr changes --format json"] if hidden_count else lines
    )


def _format_change(row: dict[str, Any]) -> str:
    """Return everything about one change."""
    from mngr.tmr.commits.clean_untrusted_text import clean_line

    text = f"{row['id']}: {row['kind']}{', flagged' if row['flagged'] else ''}, {_format_size(row)}\n{row['title']}\n"
    text += f"\n{row['body']}\n" if row["body"] else ""
    parts = (
        ("made by", [_format_author(author) for author in row["made_by"]]),
        ("files", [clean_line(path, 1000) for path in row["paths"]]),
        ("fixes", row["fixed_tests"]),
        ("needs", row["needs"]),
        ("conflicts with", row["conflicts_with"]),
        ("findings", [_format_finding(finding) for finding in row["findings"]]),
        ("in the branch", [_format_result(row["integration"])] if row["integration"] else []),
    )
    for name, lines in parts:
        text += f"\n{name}:\n" + "".join(f"  {line}\n" for line in lines) if lines else ""
    if diff := row.get("diff"):
        text += f"\n{diff[:_MAX_DIFF_CHARACTERS]}"
        text += (
            f"\n[{len(diff) - _MAX_DIFF_CHARACTERS} more characters: add --format json to see all]\n"
            if len(diff) > _MAX_DIFF_CHARACTERS
            else ""
        )
    return text


def _format_author(author: dict[str, Any]) -> str:
    variant_note = ", written differently" if author["variant"] else ""
    return f"{author['agent_kind'] or 'unknown'} agent {author['agent'] or 'unknown'} for task {author['task']} ({author['title']}): {author['verdict']}, {author['runs']} runs passed, commit {author['claimed_commit'][:12]}{variant_note}"


def _format_finding(row: dict[str, Any]) -> str:
    location = f"{row['path']}{':' + str(row['line']) if row.get('line') else ''}: " if row["path"] else ""
    return f"{row['level']} {location}{row['what']}"


def _format_result(result: dict[str, Any]) -> str:
    return f"yes, {result['commit']}" if result["in"] else f"no, {result['why'].replace('_', ' ')}: {result['reason']}"
