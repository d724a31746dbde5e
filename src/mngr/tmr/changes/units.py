"""A claimed commit taken apart: what it does to tests and texts, and each of its fixes, as it stands on the base of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mngr.base.errors import MngrError
from mngr.base.model import Record
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.commits.trees import PLAIN, Reach, Row, Spec, merge_all, pick, rows_of, trees_of, whole, write
from mngr.tmr.verify.red_green import is_implementation

_MOST = 200  # commits that are told apart
_FIELDS = "%H %P|%T|%an|%ae|%ad|%cd|%B".replace("|", "%x00")


class Edit(Record):
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


class Claimed(Record):
    """What somebody made of a base."""

    base: str
    base_tree: str
    edits: list[Edit]  # oldest first; only the last where they cannot be told apart
    all: list[Row]  # what differs in the end
    steps: list[list[Row]]  # what each edit did


class Unit(Record):
    """A part of a claim that is taken or left as a whole."""

    is_fix: bool
    is_flagged: bool = False
    edits: list[Edit]
    rows: list[Row]  # what it does to its parent
    parent: str

    @property
    def paths(self) -> list[str]:
        """What it touches."""
        return sorted(row.path for row in self.rows)


def read_claims(local: Host, repo: str, start: str, claims: Sequence[tuple[str, str]]) -> list[Claimed]:
    """Each (base, commit) as what was done between the two; all of it since the start."""
    bases = sorted({base for base, _ in claims})
    known = _history(local, repo, [commit for _, commit in claims], start)
    trees = dict(zip(bases, trees_of(local, repo, bases), strict=True))
    found: list[Claimed] = []
    pairs: list[tuple[str, str]] = []
    for base, commit in claims:
        tree = trees[base]
        if tree is None:
            raise MngrError(f"{base} is not in {repo}", "the run's repository is not whole: make a new run")
        edits = _chain(known, base, commit)
        before = [tree, *(edit.tree for edit in edits)]
        pairs += [(tree, edits[-1].tree if edits else tree)]
        pairs += [(old, edit.tree) for old, edit in zip(before, edits, strict=False)]
        found.append(Claimed(base=base, base_tree=tree, edits=edits, all=[], steps=[]))
    rows = iter(rows_of(local, repo, pairs))
    return [one.replace(all=next(rows), steps=[next(rows) for _ in one.edits]) for one in found]


def _history(local: Host, repo: str, commits: Sequence[str], start: str) -> dict[str, tuple[str, Edit]]:
    """Every commit since the start, with its first parent."""
    words = (
        "log", "-z", "--no-show-signature", "--no-notes", "--no-color", "--encoding=UTF-8", "--date=raw", "--first-parent",
        "--max-count=50000", f"--format={_FIELDS}", "--stdin",
    )  # fmt: skip
    asked = "".join([*(f"{name}\n" for name in commits), f"^{start}\n"]).encode()
    fields = git.must(local, repo, *PLAIN, *words, stdin=asked).split("\0") if commits else []
    found: dict[str, tuple[str, Edit]] = {}
    for at in range(0, len(fields) - 6, 7):
        names, tree, name, mail, authored, committed, message = fields[at : at + 7]
        own, _, parents = names.partition(" ")
        edit = Edit(
            commit=own, tree=tree, name=name, mail=mail, authored=authored, committed=committed, message=message
        )  # fmt: skip
        found[own] = parents.partition(" ")[0], edit
    return found


def _chain(known: Mapping[str, tuple[str, Edit]], base: str, commit: str) -> list[Edit]:
    """The commits from the base on; only the last where they do not lead there."""
    chain: list[Edit] = []
    at = commit
    while at != base and at in known and len(chain) <= _MOST:
        at, edit = known[at]
        chain.append(edit)
    return chain[::-1] if at == base else chain[:1]


class Splitter:
    """Makes units of claims."""

    def __init__(self, local: Host, repo: str, base: str) -> None:
        self._local, self._repo, self._base = local, repo, base
        self._base_tree = str(trees_of(local, repo, [base])[0])
        self._moved: dict[str, Reach] = {}  # what the bases of later tasks have already

    def units(self, claim: Claimed, flagged: set[str]) -> list[Unit]:
        """A claim in parts; each stands on the run's base, or on the claim's own where it does not go without."""
        if not claim.edits:
            return []
        found = [*self._of_tests(claim, flagged), *self._fixes(claim)]
        if claim.base != self._base:
            found = [moved for unit in found for moved in self._lowered(claim, unit)]
        return found

    def _of_tests(self, claim: Claimed, flagged: set[str]) -> Iterator[Unit]:
        """All that is no implementation; what a person should look at apart."""
        rest = [row for row in claim.all if not is_implementation(row.path)]
        for is_flagged in (False, True):
            rows = [row for row in rest if (row.path in flagged) == is_flagged]
            names = {row.path for row in rows}
            edits = [
                edit
                for edit, step in zip(claim.edits, claim.steps, strict=True)
                if any(row.path in names for row in step)
            ]
            if rows:
                yield Unit(
                    is_fix=False,
                    is_flagged=is_flagged,
                    edits=edits or claim.edits[-1:],
                    rows=rows,
                    parent=claim.base,
                )

    def _fixes(self, claim: Claimed) -> list[Unit]:
        """Each commit that touches the implementation; one that builds on another goes with it."""
        units: list[Unit] = []
        is_exact = True
        for edit, step in zip(claim.edits, claim.steps, strict=True):
            rows = [row for row in step if is_implementation(row.path)]
            if not rows:
                continue
            fresh = Unit(is_fix=True, edits=[edit], rows=rows, parent=claim.base)
            reach = Reach(fresh.paths)
            if not any(Reach(unit.paths).meets(reach) for unit in units):
                units.append(fresh)
                continue
            is_exact = False
            units = self._added(claim, units, fresh)
        if is_exact or self._is_all(claim, units):
            return units
        rows = [row for row in claim.all if is_implementation(row.path)]
        every = [edit for unit in units for edit in unit.edits]
        return [Unit(is_fix=True, edits=every, rows=rows, parent=claim.base)] if rows else []

    def _added(self, claim: Claimed, units: list[Unit], fresh: Unit) -> list[Unit]:
        """The units with one more, which touches what some of them touch: alone if it goes, else with the latest of those."""
        alone = self._lifted(claim, fresh, claim.base_tree)
        if alone is not None:
            return [*units, fresh.replace(rows=alone)] if alone else units
        reach = Reach(fresh.paths)
        at = max(number for number, unit in enumerate(units) if Reach(unit.paths).meets(reach))
        below = write(self._local, self._repo, [Spec(parent=claim.base, rows=units[at].rows)])
        tree = trees_of(self._local, self._repo, below)[0]
        both = self._lifted(claim, fresh, str(tree))
        if both:
            units[at] = units[at].replace(rows=both, edits=[*units[at].edits, *fresh.edits])
            return units
        every = [edit for unit in units for edit in unit.edits] + fresh.edits
        until = rows_of(self._local, self._repo, [(claim.base_tree, fresh.edits[-1].tree)])[0]
        rows = [row for row in until if is_implementation(row.path)]
        return [Unit(is_fix=True, edits=every, rows=rows, parent=claim.base)]

    def _lifted(self, claim: Claimed, unit: Unit, onto: str) -> list[Row] | None:
        """What a unit, whose rows are those of its own commit, does on another tree; None when it does not go."""
        specs = [
            Spec(parent=claim.base, rows=[row.back for row in unit.rows]),
            Spec(parent=":1", rows=unit.rows),
            Spec(parent=":1", rows=[whole(onto)]),
        ]
        _, edited, stand = write(self._local, self._repo, specs)
        merged = merge_all(self._local, self._repo, [(stand, edited)])[0]
        if merged.paths:
            return None
        return rows_of(self._local, self._repo, [(claim.base_tree, merged.tree)])[0]

    def _is_all(self, claim: Claimed, units: Sequence[Unit]) -> bool:
        """Whether the units together do what the claim does."""
        specs = [Spec(parent=unit.parent, rows=unit.rows) for unit in units]
        at, tree = claim.base, claim.base_tree
        for commit in write(self._local, self._repo, specs):
            merged = merge_all(self._local, self._repo, [(at, commit)])[0]
            if merged.paths:
                return False
            tree = merged.tree
            at = write(self._local, self._repo, [Spec(parent=claim.base, rows=[whole(tree)])])[0]
        done = rows_of(self._local, self._repo, [(claim.base_tree, tree)])[0]
        return done == [row for row in claim.all if is_implementation(row.path)]

    def _lowered(self, claim: Claimed, unit: Unit) -> list[Unit]:
        """A unit of a claim with a later base, on the run's own if it goes there; nothing if it is there already."""
        if claim.base not in self._moved:
            delta = rows_of(self._local, self._repo, [(self._base_tree, claim.base_tree)])[0]
            self._moved[claim.base] = Reach(row.path for row in delta)
        if not Reach(unit.paths).meets(self._moved[claim.base]):
            return [unit.replace(parent=self._base)]
        commit = write(self._local, self._repo, [Spec(parent=claim.base, rows=unit.rows)])[0]
        merged = pick(self._local, self._repo, self._base_tree, claim.base, commit)
        if merged.paths:
            return [unit]
        rows = rows_of(self._local, self._repo, [(self._base_tree, merged.tree)])[0]
        return [unit.replace(rows=rows, parent=self._base)] if rows else []
