"""Splits a claimed commit into units, test edits and single fixes, each based on the run's base where possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.commits.trees import (
    GIT_SAFE_ARGS,
    CommitSpec,
    PathChange,
    PathSet,
    cherry_pick,
    diff_trees,
    list_trees,
    make_tree_row,
    merge_pairs,
    write_commits,
)
from mngr.tmr.verify.red_green import is_implementation

_MOST = 200  # commits of one claim that are read separately
_FIELDS = "%H %P|%T|%an|%ae|%ad|%cd|%B".replace("|", "%x00")


class UnitCommit(Struct):
    """One commit of a claim."""

    commit: str
    tree: str
    name: str
    mail: str
    authored: str  # seconds and zone
    committed: str
    message: str

    @property
    def subject(self) -> str:
        """Return the first line of the message."""
        return self.message.strip().partition("\n")[0]


class ClaimedWork(Struct):
    """The commits of a claim and what they change of its base."""

    base: str
    base_tree: str
    edits: list[UnitCommit]  # oldest first; only the last when they cannot be separated
    rows: list[PathChange]  # the whole difference from the base
    rows_by_edit: list[list[PathChange]]  # the difference of each commit


class ChangeUnit(Struct):
    """A part of a claim that is included or excluded as a whole."""

    is_fix: bool
    is_flagged: bool = False
    edits: list[UnitCommit]
    rows: list[PathChange]  # its changes to the parent
    parent: str

    @property
    def paths(self) -> list[str]:
        """Return the paths that it changes."""
        return sorted(row.path for row in self.rows)

    @property
    def commits(self) -> list[str]:
        """Return the agent's commits that it consists of."""
        return [edit.commit for edit in self.edits]


def read_claims(local: Host, repo: str, start: str, claims: Sequence[tuple[str, str]]) -> list[ClaimedWork]:
    """Read the work between base and commit of each claim; `start` is the run's base."""
    bases = sorted({base for base, _ in claims})
    history = _read_history(local, repo, [commit for _, commit in claims], start)
    trees = dict(zip(bases, list_trees(local, repo, bases), strict=True))
    works: list[ClaimedWork] = []
    pairs: list[tuple[str, str]] = []
    for base, commit in claims:
        tree = trees[base]
        if tree is None:
            raise MngrError(
                f"the commit {base} is not in {repo}",
                "the repository of the run is incomplete; start a new run: mngr tmr run",
            )
        edits = _list_commits(history, base, commit)
        trees_before = [tree, *(edit.tree for edit in edits)]
        pairs += [(tree, edits[-1].tree if edits else tree)]
        pairs += [(old, edit.tree) for old, edit in zip(trees_before, edits, strict=False)]
        works.append(ClaimedWork(base=base, base_tree=tree, edits=edits, rows=[], rows_by_edit=[]))
    rows = iter(diff_trees(local, repo, pairs))
    return [work.replace(rows=next(rows), rows_by_edit=[next(rows) for _ in work.edits]) for work in works]


def _read_history(local: Host, repo: str, commits: Sequence[str], start: str) -> dict[str, tuple[str, UnitCommit]]:
    """Return every commit since the start, with its first parent."""
    args = (
        "log",
        "-z",
        "--no-show-signature",
        "--no-notes",
        "--no-color",
        "--encoding=UTF-8",
        "--date=raw",
        "--first-parent",
        "--max-count=50000",
        f"--format={_FIELDS}",
        "--stdin",
    )
    request = "".join([*(f"{name}\n" for name in commits), f"^{start}\n"]).encode()
    fields = (
        git.run_checked(local, repo, *GIT_SAFE_ARGS, *args, stdin=request, git_command=git.ISOLATED_GIT).split("\0")
        if commits
        else []
    )
    history: dict[str, tuple[str, UnitCommit]] = {}
    for position in range(0, len(fields) - 6, 7):
        names, tree, name, mail, authored, committed, message = fields[position : position + 7]
        commit, _, parents = names.partition(" ")
        edit = UnitCommit(
            commit=commit, tree=tree, name=name, mail=mail, authored=authored, committed=committed, message=message
        )
        history[commit] = parents.partition(" ")[0], edit
    return history


def _list_commits(history: Mapping[str, tuple[str, UnitCommit]], base: str, commit: str) -> list[UnitCommit]:
    """Return the commits after the base, oldest first, or only the last one when they do not lead to the base."""
    chain: list[UnitCommit] = []
    current = commit
    while current != base and current in history and len(chain) <= _MOST:
        current, edit = history[current]
        chain.append(edit)
    return chain[::-1] if current == base else chain[:1]


class ClaimSplitter:
    """Splits claims into units."""

    def __init__(self, local: Host, repo: str, base: str) -> None:
        self._local, self._repo, self._base = local, repo, base
        self._base_tree = str(list_trees(local, repo, [base])[0])
        self._included_paths: dict[str, PathSet] = {}  # by base of later tasks: the paths of the fixes in it

    def split_claim(self, claim: ClaimedWork, flagged: set[str]) -> list[ChangeUnit]:
        """Return the units of a claim.

        Each is on the run's base, or on the claim's base where it conflicts with the run's.
        """
        if not claim.edits:
            return []
        units = [*self._split_test_edits(claim, flagged), *self._split_fixes(claim)]
        if claim.base != self._base:
            units = [rebased for unit in units for rebased in self._move_to_run_base(claim, unit)]
        return units

    def _split_test_edits(self, claim: ClaimedWork, flagged: set[str]) -> Iterator[ChangeUnit]:
        """Yield all edits outside the implementation; those in flagged files become a separate unit."""
        test_rows = [row for row in claim.rows if not is_implementation(row.path)]
        for is_flagged in (False, True):
            rows = [row for row in test_rows if (row.path in flagged) == is_flagged]
            names = {row.path for row in rows}
            edits = [
                edit
                for edit, step in zip(claim.edits, claim.rows_by_edit, strict=True)
                if any(row.path in names for row in step)
            ]
            if rows:
                yield ChangeUnit(
                    is_fix=False,
                    is_flagged=is_flagged,
                    edits=edits or claim.edits[-1:],
                    rows=rows,
                    parent=claim.base,
                )

    def _split_fixes(self, claim: ClaimedWork) -> list[ChangeUnit]:
        """Return one unit per commit that changes the implementation.

        A commit that builds on another joins that commit's unit.
        """
        units: list[ChangeUnit] = []
        is_exact = True
        for edit, step in zip(claim.edits, claim.rows_by_edit, strict=True):
            rows = [row for row in step if is_implementation(row.path)]
            if not rows:
                continue
            new_unit = ChangeUnit(is_fix=True, edits=[edit], rows=rows, parent=claim.base)
            paths = PathSet(new_unit.paths)
            if not any(PathSet(unit.paths).has_overlap(paths) for unit in units):
                units.append(new_unit)
                continue
            is_exact = False
            units = self._add_unit(claim, units, new_unit)
        if is_exact or self._is_complete(claim, units):
            return units
        rows = [row for row in claim.rows if is_implementation(row.path)]
        all_edits = [edit for unit in units for edit in unit.edits]
        return [ChangeUnit(is_fix=True, edits=all_edits, rows=rows, parent=claim.base)] if rows else []

    def _add_unit(self, claim: ClaimedWork, units: list[ChangeUnit], new_unit: ChangeUnit) -> list[ChangeUnit]:
        """Return the units with one more, whose paths overlap with some of them.

        It stays separate if it applies alone. Otherwise it joins the latest overlapping unit, or all units become one.
        """
        rows_alone = self._rebase_rows(claim, new_unit, claim.base_tree)
        if rows_alone is not None:
            return [*units, new_unit.replace(rows=rows_alone)] if rows_alone else units
        paths = PathSet(new_unit.paths)
        latest = max(number for number, unit in enumerate(units) if PathSet(unit.paths).has_overlap(paths))
        base_commits = write_commits(self._local, self._repo, [CommitSpec(parent=claim.base, rows=units[latest].rows)])
        tree = list_trees(self._local, self._repo, base_commits)[0]
        rows_together = self._rebase_rows(claim, new_unit, str(tree))
        if rows_together:
            units[latest] = units[latest].replace(rows=rows_together, edits=[*units[latest].edits, *new_unit.edits])
            return units
        all_edits = [edit for unit in units for edit in unit.edits] + new_unit.edits
        all_rows = diff_trees(self._local, self._repo, [(claim.base_tree, new_unit.edits[-1].tree)])[0]
        rows = [row for row in all_rows if is_implementation(row.path)]
        return [ChangeUnit(is_fix=True, edits=all_edits, rows=rows, parent=claim.base)]

    def _rebase_rows(self, claim: ClaimedWork, unit: ChangeUnit, onto: str) -> list[PathChange] | None:
        """Return what a unit does on another tree, or None when it conflicts.

        The unit's rows must be those of its own commit.
        """
        specs = [
            CommitSpec(parent=claim.base, rows=[row.inverse for row in unit.rows]),
            CommitSpec(parent=":1", rows=unit.rows),
            CommitSpec(parent=":1", rows=[make_tree_row(onto)]),
        ]
        _, edited, target_commit = write_commits(self._local, self._repo, specs)
        merged = merge_pairs(self._local, self._repo, [(target_commit, edited)])[0]
        if merged.conflict_paths:
            return None
        return diff_trees(self._local, self._repo, [(claim.base_tree, merged.tree)])[0]

    def _is_complete(self, claim: ClaimedWork, units: Sequence[ChangeUnit]) -> bool:
        """True when the units together make the same implementation changes as the claim."""
        specs = [CommitSpec(parent=unit.parent, rows=unit.rows) for unit in units]
        head, tree = claim.base, claim.base_tree
        for commit in write_commits(self._local, self._repo, specs):
            merged = merge_pairs(self._local, self._repo, [(head, commit)])[0]
            if merged.conflict_paths:
                return False
            tree = merged.tree
            head = write_commits(self._local, self._repo, [CommitSpec(parent=claim.base, rows=[make_tree_row(tree)])])[
                0
            ]
        result_rows = diff_trees(self._local, self._repo, [(claim.base_tree, tree)])[0]
        return result_rows == [row for row in claim.rows if is_implementation(row.path)]

    def _move_to_run_base(self, claim: ClaimedWork, unit: ChangeUnit) -> list[ChangeUnit]:
        """Move a unit from a later base to the run's base.

        Returns the unit unchanged when it conflicts, and nothing when the run's base already has it.
        """
        if claim.base not in self._included_paths:
            delta = diff_trees(self._local, self._repo, [(self._base_tree, claim.base_tree)])[0]
            self._included_paths[claim.base] = PathSet(row.path for row in delta)
        if not PathSet(unit.paths).has_overlap(self._included_paths[claim.base]):
            return [unit.replace(parent=self._base)]
        commit = write_commits(self._local, self._repo, [CommitSpec(parent=claim.base, rows=unit.rows)])[0]
        merged = cherry_pick(self._local, self._repo, self._base_tree, claim.base, commit)
        if merged.conflict_paths:
            return [unit]
        rows = diff_trees(self._local, self._repo, [(self._base_tree, merged.tree)])[0]
        return [unit.replace(rows=rows, parent=self._base)] if rows else []
