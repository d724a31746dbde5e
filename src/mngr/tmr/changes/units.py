"""A claimed commit taken apart: what it does to tests and texts, and each of its fixes, as it stands on the base of the run."""

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

_MOST = 200  # commits that are told apart
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
        """Its first line."""
        return self.message.strip().partition("\n")[0]


class ClaimedWork(Struct):
    """What somebody made of a base."""

    base: str
    base_tree: str
    edits: list[UnitCommit]  # oldest first; only the last where they cannot be told apart
    rows: list[PathChange]  # what differs in the end
    rows_by_edit: list[list[PathChange]]  # what each edit did


class ChangeUnit(Struct):
    """A part of a claim that is taken or left as a whole."""

    is_fix: bool
    is_flagged: bool = False
    edits: list[UnitCommit]
    rows: list[PathChange]  # what it does to its parent
    parent: str

    @property
    def paths(self) -> list[str]:
        """What it touches."""
        return sorted(row.path for row in self.rows)


def read_claims(local: Host, repo: str, start: str, claims: Sequence[tuple[str, str]]) -> list[ClaimedWork]:
    """Each (base, commit) as what was done between the two; all of it since the start."""
    bases = sorted({base for base, _ in claims})
    known = _read_history(local, repo, [commit for _, commit in claims], start)
    trees = dict(zip(bases, list_trees(local, repo, bases), strict=True))
    found: list[ClaimedWork] = []
    pairs: list[tuple[str, str]] = []
    for base, commit in claims:
        tree = trees[base]
        if tree is None:
            raise MngrError(f"{base} is not in {repo}", "the run's repository is not whole: make a new run")
        edits = _list_commits(known, base, commit)
        before = [tree, *(edit.tree for edit in edits)]
        pairs += [(tree, edits[-1].tree if edits else tree)]
        pairs += [(old, edit.tree) for old, edit in zip(before, edits, strict=False)]
        found.append(ClaimedWork(base=base, base_tree=tree, edits=edits, rows=[], rows_by_edit=[]))
    rows = iter(diff_trees(local, repo, pairs))
    return [one.replace(rows=next(rows), rows_by_edit=[next(rows) for _ in one.edits]) for one in found]


def _read_history(local: Host, repo: str, commits: Sequence[str], start: str) -> dict[str, tuple[str, UnitCommit]]:
    """Every commit since the start, with its first parent."""
    words = (
        "log", "-z", "--no-show-signature", "--no-notes", "--no-color", "--encoding=UTF-8", "--date=raw", "--first-parent",
        "--max-count=50000", f"--format={_FIELDS}", "--stdin",
    )  # fmt: skip
    asked = "".join([*(f"{name}\n" for name in commits), f"^{start}\n"]).encode()
    fields = git.run_checked(local, repo, *GIT_SAFE_ARGS, *words, stdin=asked).split("\0") if commits else []
    found: dict[str, tuple[str, UnitCommit]] = {}
    for at in range(0, len(fields) - 6, 7):
        names, tree, name, mail, authored, committed, message = fields[at : at + 7]
        own, _, parents = names.partition(" ")
        edit = UnitCommit(
            commit=own, tree=tree, name=name, mail=mail, authored=authored, committed=committed, message=message
        )  # fmt: skip
        found[own] = parents.partition(" ")[0], edit
    return found


def _list_commits(known: Mapping[str, tuple[str, UnitCommit]], base: str, commit: str) -> list[UnitCommit]:
    """The commits from the base on; only the last where they do not lead there."""
    chain: list[UnitCommit] = []
    at = commit
    while at != base and at in known and len(chain) <= _MOST:
        at, edit = known[at]
        chain.append(edit)
    return chain[::-1] if at == base else chain[:1]


class ClaimSplitter:
    """Makes units of claims."""

    def __init__(self, local: Host, repo: str, base: str) -> None:
        self._local, self._repo, self._base = local, repo, base
        self._base_tree = str(list_trees(local, repo, [base])[0])
        self._included_paths: dict[str, PathSet] = {}  # what the bases of later tasks have already

    def split_claim(self, claim: ClaimedWork, flagged: set[str]) -> list[ChangeUnit]:
        """A claim in parts; each stands on the run's base, or on the claim's own where it does not go without."""
        if not claim.edits:
            return []
        found = [*self._split_test_edits(claim, flagged), *self._split_fixes(claim)]
        if claim.base != self._base:
            found = [moved for unit in found for moved in self._rebase_unit(claim, unit)]
        return found

    def _split_test_edits(self, claim: ClaimedWork, flagged: set[str]) -> Iterator[ChangeUnit]:
        """All that is no implementation; what a person should look at apart."""
        rest = [row for row in claim.rows if not is_implementation(row.path)]
        for is_flagged in (False, True):
            rows = [row for row in rest if (row.path in flagged) == is_flagged]
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
        """Each commit that touches the implementation; one that builds on another goes with it."""
        units: list[ChangeUnit] = []
        is_exact = True
        for edit, step in zip(claim.edits, claim.rows_by_edit, strict=True):
            rows = [row for row in step if is_implementation(row.path)]
            if not rows:
                continue
            fresh = ChangeUnit(is_fix=True, edits=[edit], rows=rows, parent=claim.base)
            reach = PathSet(fresh.paths)
            if not any(PathSet(unit.paths).has_overlap(reach) for unit in units):
                units.append(fresh)
                continue
            is_exact = False
            units = self._add_unit(claim, units, fresh)
        if is_exact or self._is_complete(claim, units):
            return units
        rows = [row for row in claim.rows if is_implementation(row.path)]
        every = [edit for unit in units for edit in unit.edits]
        return [ChangeUnit(is_fix=True, edits=every, rows=rows, parent=claim.base)] if rows else []

    def _add_unit(self, claim: ClaimedWork, units: list[ChangeUnit], fresh: ChangeUnit) -> list[ChangeUnit]:
        """The units with one more, which touches what some of them touch: alone if it goes, else with the latest of those."""
        alone = self._rebase_rows(claim, fresh, claim.base_tree)
        if alone is not None:
            return [*units, fresh.replace(rows=alone)] if alone else units
        reach = PathSet(fresh.paths)
        at = max(number for number, unit in enumerate(units) if PathSet(unit.paths).has_overlap(reach))
        below = write_commits(self._local, self._repo, [CommitSpec(parent=claim.base, rows=units[at].rows)])
        tree = list_trees(self._local, self._repo, below)[0]
        both = self._rebase_rows(claim, fresh, str(tree))
        if both:
            units[at] = units[at].replace(rows=both, edits=[*units[at].edits, *fresh.edits])
            return units
        every = [edit for unit in units for edit in unit.edits] + fresh.edits
        until = diff_trees(self._local, self._repo, [(claim.base_tree, fresh.edits[-1].tree)])[0]
        rows = [row for row in until if is_implementation(row.path)]
        return [ChangeUnit(is_fix=True, edits=every, rows=rows, parent=claim.base)]

    def _rebase_rows(self, claim: ClaimedWork, unit: ChangeUnit, onto: str) -> list[PathChange] | None:
        """What a unit, whose rows are those of its own commit, does on another tree; None when it does not go."""
        specs = [
            CommitSpec(parent=claim.base, rows=[row.inverse for row in unit.rows]),
            CommitSpec(parent=":1", rows=unit.rows),
            CommitSpec(parent=":1", rows=[make_tree_row(onto)]),
        ]
        _, edited, stand = write_commits(self._local, self._repo, specs)
        merged = merge_pairs(self._local, self._repo, [(stand, edited)])[0]
        if merged.conflict_paths:
            return None
        return diff_trees(self._local, self._repo, [(claim.base_tree, merged.tree)])[0]

    def _is_complete(self, claim: ClaimedWork, units: Sequence[ChangeUnit]) -> bool:
        """Whether the units together do what the claim does."""
        specs = [CommitSpec(parent=unit.parent, rows=unit.rows) for unit in units]
        at, tree = claim.base, claim.base_tree
        for commit in write_commits(self._local, self._repo, specs):
            merged = merge_pairs(self._local, self._repo, [(at, commit)])[0]
            if merged.conflict_paths:
                return False
            tree = merged.tree
            at = write_commits(self._local, self._repo, [CommitSpec(parent=claim.base, rows=[make_tree_row(tree)])])[0]
        done = diff_trees(self._local, self._repo, [(claim.base_tree, tree)])[0]
        return done == [row for row in claim.rows if is_implementation(row.path)]

    def _rebase_unit(self, claim: ClaimedWork, unit: ChangeUnit) -> list[ChangeUnit]:
        """A unit of a claim with a later base, on the run's own if it goes there; nothing if it is there already."""
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
