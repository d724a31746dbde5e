"""Composes one branch from many changes: tests and texts in one commit, each fix in its own.

The same input always gives the same commit ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mngr.base.model import Struct
from mngr.base.size_format import format_count
from mngr.host.protocol import Host
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import BranchCommit
from mngr.tmr.commits.hunks import Hunk, apply_hunks, can_merge_hunks, list_file_edits
from mngr.tmr.commits.trees import (
    MNGR_AUTHOR,
    CommitSpec,
    PathChange,
    PathSet,
    cherry_pick,
    list_trees,
    make_tree_row,
    merge_pairs,
    read_blobs,
    write_commits,
)
from mngr.tmr.verify.rules.path_policy import get_path_rule

_MAX_TEXT_BYTES = 1 << 20  # larger files are merged by git only
_RISKY_FILE_TYPES = ("startup", "conftest", "ci", "lock", "config")


class ChangeConflict(Struct):
    """A change that does not merge with the changes before it."""

    change: str
    paths: list[str]
    others: list[str]  # ids of the changes that it conflicts with; empty: the base itself
    reason: str


class ComposedBranch(Struct):
    """A branch, and the changes that it does not contain."""

    base: str
    head: str
    tree: str
    commits: list[BranchCommit]
    conflicts: list[ChangeConflict]
    redundant: list[str]  # ids of changes whose content the branch already had


def rank_changes(
    changes: Sequence[Change],
    blocks: Mapping[str, Sequence[str]] | None = None,
    advised: Sequence[str] = (),
) -> list[Change]:
    """Return the changes by evidence, best first. Equal ones are in the order of `advised` keys, then by id.

    `blocks` holds the tutorial blocks that a test cites. The changes that a change needs come before it.
    """
    position = {key: number for number, key in enumerate(advised)}
    waiting = sorted(
        changes,
        key=lambda change: (
            *_compute_evidence(change, blocks or {}),
            position.get(change.key, len(position)),
            change.id,
        ),
    )
    all_ids = {change.id for change in changes}
    ranked: list[Change] = []
    ranked_ids: set[str] = set()
    while waiting:
        ready = (change for change in waiting if all_ids.intersection(change.needs) <= ranked_ids)
        best = next(ready, waiting[0])
        waiting.remove(best)
        ranked.append(best)
        ranked_ids.add(best.id)
    return ranked


def list_ties(changes: Sequence[Change], blocks: Mapping[str, Sequence[str]]) -> list[list[Change]]:
    """Return groups of fixes with equal evidence, best first."""
    groups: dict[tuple[int, ...], list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.id):
        if change.kind == "fix":
            groups.setdefault(_compute_evidence(change, blocks), []).append(change)
    return [group for _, group in sorted(groups.items(), key=lambda item: item[0]) if len(group) > 1]


def _compute_evidence(change: Change, blocks: Mapping[str, Sequence[str]]) -> tuple[int, ...]:
    """Return the evidence as a sort key: repaired tests, agents that found it, cited blocks, risk and size."""
    cited = {block for test in change.fixed_tests for block in blocks.get(test, ())}
    size = change.size.added + change.size.removed
    return -len(set(change.fixed_tests)), -len(change.agents), -len(cited), compute_risk(change), size


def compute_risk(change: Change) -> int:
    """Return how much care a change needs: its noted findings plus its files that affect others."""
    risky_paths = [path for path in change.paths if get_path_rule(path).name in _RISKY_FILE_TYPES]
    return len(change.notes) + len(risky_paths)


def compose_branch(local: Host, repo: str, base: str, chosen: Sequence[Change]) -> ComposedBranch:
    """Return the branch: one commit for plain tests and texts, then each flagged test, then each fix."""
    builder = _BranchBuilder(local, repo, base, chosen)
    plain = [change for change in chosen if change.kind == "test" and not change.flagged]
    builder.add_combined(plain)
    for kind in ("test", "fix"):
        for change in chosen:
            if change.kind == kind and (kind == "fix" or change.flagged):
                builder.add_single(change)
    return builder.build()


class _BranchBuilder:
    """Builds a branch. Commits that need no merge are written many at a time."""

    def __init__(self, local: Host, repo: str, base: str, chosen: Sequence[Change]) -> None:
        self._local, self._repo, self._base = local, repo, base
        names = [name for change in chosen for name in (change.parent, change.commit)]
        self._head_tree, *trees = map(str, list_trees(local, repo, [base, *names]))
        edits_by_change = list_file_edits(local, repo, list(zip(trees[::2], trees[1::2], strict=True)))
        self._files = {change.commit: files for change, files in zip(chosen, edits_by_change, strict=True)}
        self._texts = read_blobs(
            local,
            repo,
            {edit.row.old for edits in edits_by_change for edit in edits if edit.has_only_line_edits},
            _MAX_TEXT_BYTES,
        )
        # Path -> its hunks, for files to which only line edits were applied.
        self._applied_hunks: dict[str, list[Hunk]] = {}
        self._head = base
        self._pending_commits: list[tuple[CommitSpec, list[Change], str]] = []
        self._touched_paths = PathSet()
        self._included: dict[str, Change] = {}
        self._commits: list[BranchCommit] = []
        self._conflicts: list[ChangeConflict] = []
        self._redundant: list[str] = []

    def add_combined(self, changes: Sequence[Change]) -> None:
        """Add one commit with all changes that merge."""
        rows: list[PathChange] = []
        included: list[Change] = []
        for change in changes:
            extended = self._merge_into_rows(change, rows)
            if extended is not None:
                rows = extended
                included.append(change)
        if included:
            self._pending_commits.append((_make_combined_spec(included, rows), included, "test"))

    def add_single(self, change: Change) -> None:
        """Add one commit with one change."""
        rows = self._merge_into_rows(change, [])
        if rows is not None:
            kind = "flagged" if change.kind == "test" else "fix"
            self._pending_commits.append((_make_single_spec(change, rows), [change], kind))

    def build(self) -> ComposedBranch:
        """Write the pending commits and return the branch."""
        self._write_pending_commits()
        return ComposedBranch(
            base=self._base,
            head=self._head,
            tree=self._head_tree,
            commits=self._commits,
            conflicts=self._conflicts,
            redundant=self._redundant,
        )

    def _merge_into_rows(self, change: Change, rows: list[PathChange]) -> list[PathChange] | None:
        """Return the commit's rows with one more change, or None when it conflicts or is redundant."""
        missing = [name for name in change.needs if name not in self._included]
        if missing:
            reason = f"it needs {', '.join(missing)}, which is excluded"
            self._conflicts.append(ChangeConflict(change=change.id, paths=[], others=missing, reason=reason))
            return None
        unmerged_rows = self._find_rows_without_merge(change)
        if unmerged_rows is not None:
            self._record_change(change)
            return [*rows, *unmerged_rows]
        commit, tree = self._write_pending_commit(rows)
        if change.parent == self._base:
            merged = merge_pairs(self._local, self._repo, [(commit, change.commit)])[0]
        else:
            merged = cherry_pick(self._local, self._repo, tree, change.parent, change.commit)
        if merged.conflict_paths:
            self._conflicts.append(self._make_conflict(change, merged.conflict_paths))
            return None
        self._record_change(change)
        for path in change.paths:
            self._applied_hunks.pop(path, None)
        if merged.tree == tree:
            self._redundant.append(change.id)
            return None
        return [make_tree_row(merged.tree)]

    def _find_rows_without_merge(self, change: Change) -> list[PathChange] | None:
        """Return the rows of a change that touches new files or distant lines, or None when git must merge."""
        if change.parent != self._base:
            return None
        rows: list[PathChange] = []
        lines: dict[str, list[Hunk]] = {}
        for file in self._files[change.commit]:
            path = file.row.path
            is_plain = file.has_only_line_edits and file.row.old in self._texts
            if not PathSet([path]).has_overlap(self._touched_paths):
                rows.append(file.row)
                lines[path] = list(file.hunks or ()) if is_plain else []
            elif (
                is_plain
                and self._applied_hunks.get(path)
                and can_merge_hunks(self._applied_hunks[path], file.hunks or ())
            ):
                lines[path] = [*self._applied_hunks[path], *(file.hunks or ())]
                text = self._texts[file.row.old].decode("utf-8", "surrogateescape")
                data = apply_hunks(text, lines[path]).encode("utf-8", "surrogateescape")
                rows.append(file.row.replace(content=data))
            else:
                return None
        self._applied_hunks.update(lines)
        return rows

    def _record_change(self, change: Change) -> None:
        self._included[change.id] = change
        self._touched_paths.add(change.paths)

    def _write_pending_commit(self, rows: list[PathChange]) -> tuple[str, str]:
        """Write a commit with the branch and the unfinished rows. Return the commit and its tree."""
        self._write_pending_commits()
        if not rows:
            return self._head, self._head_tree
        commit = write_commits(self._local, self._repo, [CommitSpec(parent=self._head, rows=rows)])
        return commit[0], str(list_trees(self._local, self._repo, commit)[0])

    def _write_pending_commits(self) -> None:
        """Write the pending commits."""
        if not self._pending_commits:
            return
        specs = [
            spec.replace(parent=f":{number}" if number else self._head)
            for number, (spec, _, _) in enumerate(self._pending_commits)
        ]
        commits = write_commits(self._local, self._repo, specs)
        trees = list_trees(self._local, self._repo, commits)
        for (spec, changes, kind), commit, tree in zip(self._pending_commits, commits, trees, strict=True):
            ids, subject = [change.id for change in changes], spec.message.partition("\n")[0]
            self._commits.append(BranchCommit(commit=commit, tree=str(tree), changes=ids, kind=kind, subject=subject))
        self._head, self._head_tree = commits[-1], str(trees[-1])
        self._pending_commits = []

    def _make_conflict(self, change: Change, paths: list[str]) -> ChangeConflict:
        """Return the conflict with the changes that do not merge, or with all that touch the same paths."""
        conflict_paths = PathSet(paths)
        neighbours = [other for other in self._included.values() if PathSet(other.paths).has_overlap(conflict_paths)]
        merged = merge_pairs(self._local, self._repo, [(change.commit, other.commit) for other in neighbours])
        conflicting = [other.id for other, merge in zip(neighbours, merged, strict=True) if merge.conflict_paths]
        others = sorted(conflicting or [other.id for other in neighbours])
        opponent = ", ".join(others) or "the base"
        reason = f"it conflicts with {opponent} in {', '.join(paths)}"
        return ChangeConflict(change=change.id, paths=paths, others=others, reason=reason)


# Commit messages


def _make_combined_spec(changes: Sequence[Change], rows: list[PathChange]) -> CommitSpec:
    authors = {change.author for change in changes}
    tasks = {task for change in changes for task in change.tasks}
    last = max((change.committed for change in changes), key=_parse_date)
    subject = f"[TEST/DOC] {format_count(len(changes), 'change')} from {format_count(len(tasks), 'task')}"
    body = "\n".join(f"- {change.id} {change.title}" for change in changes)
    return CommitSpec(
        parent="",
        rows=rows,
        author=f"{authors.pop() if len(authors) == 1 else MNGR_AUTHOR} {last}",
        committer=f"{MNGR_AUTHOR} {last}",
        message=_format_message(subject, body, changes),
    )


def _make_single_spec(change: Change, rows: list[PathChange]) -> CommitSpec:
    body = change.body
    if change.flagged:
        body += "\n\nPlease review:\n" + "\n".join(f"- {note.path}: {note.what}" for note in change.notes)
    return CommitSpec(
        parent="",
        rows=rows,
        author=f"{change.author} {change.authored}",
        committer=f"{MNGR_AUTHOR} {change.committed}",
        message=_format_message(change.title, body, [change]),
    )


def _format_message(subject: str, body: str, changes: Sequence[Change]) -> str:
    authors = {author.task: author for change in changes for author in change.made_by}
    rows = [f"Mngr-Change: {change.id}" for change in changes]
    rows += [f"Mngr-Task: {task}" for task in sorted(authors)]
    rows += [f"Mngr-Agent: {agent}" for agent in sorted({author.agent for author in authors.values()}) if agent]
    for task in sorted(authors):
        author_row = authors[task]
        rows.append(f"Mngr-Receipt: {task} {author_row.verdict} {author_row.runs} {author_row.claimed_commit[:12]}")
    return "\n\n".join(filter(None, [subject, body.strip(), "\n".join(rows)])) + "\n"


def _parse_date(date: str) -> tuple[int, str]:
    return int(date.partition(" ")[0]), date
