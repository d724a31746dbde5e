"""The changes of a run: what is to be merged, in units that a person can take or leave; and what is left out, and why."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from mngr.base.errors import MngrError, NotFound
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, TaskState
from mngr.tmr.changes.excluded import (
    ExcludedTask,
    clean_finding,
    exclude_task,
    find_invalid_commit,
    group_by_reason,
    list_escalations,
    list_unrepaired_causes,
)
from mngr.tmr.changes.units import ChangeUnit, ClaimedWork, ClaimSplitter, read_claims
from mngr.tmr.commits import untrusted
from mngr.tmr.commits.hunks import FileEdit, list_file_edits
from mngr.tmr.commits.trees import (
    GIT_SAFE_ARGS,
    MNGR_AUTHOR,
    CommitSpec,
    PathChange,
    PathSet,
    list_trees,
    read_blobs,
    read_sizes,
    write_commits,
)
from mngr.tmr.finding import Finding
from mngr.tmr.verify.red_green import is_implementation

_MIN_ID_DIGITS = 6  # digits of an id


class ChangeAuthor(Struct):
    """Who made a change, and what we saw of it."""

    task: str  # its slug
    title: str
    agent: str
    commits: list[str]
    claimed: str  # the commit that the receipt is about
    verdict: str
    runs: str  # passed/all
    variant: str = ""  # the id of what it made, where that was not literally the same


class Change(Struct):
    """Something that is merged as a whole or not at all."""

    id: str
    key: str  # of which the id is the beginning
    kind: str  # fix: of the implementation | test: everything else
    flagged: bool  # a person should look at it
    title: str
    body: str
    made_by: list[ChangeAuthor]
    commit: str  # one that does just this
    parent: str  # to this
    needs: list[str]  # ids of changes without which it does not go
    paths: list[str]
    size: dict[str, int]  # files, added, removed
    findings: list[dict[str, Any]]
    turned: list[str]  # tests that are red without it and green with it
    author: str
    authored: str
    committed: str

    @property
    def tasks(self) -> list[str]:
        """Whose it is."""
        return [one.task for one in self.made_by]

    @property
    def agents(self) -> list[str]:
        """Who found it, each once."""
        return sorted({one.agent for one in self.made_by})

    @property
    def is_shared(self) -> bool:
        """Whether so many made it that it is offered as one fix for all."""
        return len(self.made_by) >= 3

    def to_dict(self) -> dict[str, Any]:
        """As it stands in changes.json."""
        return {
            **super().to_dict(),
            "made_by": [one.to_dict() for one in self.made_by],
            "tasks": self.tasks,
            "agents": self.agents,
            "verdicts": sorted({one.verdict for one in self.made_by}),
            "shared": self.is_shared,
        }


def collect_changes(local: Host, run: RunDir, state: RunState) -> tuple[list[Change], list[ExcludedTask]]:
    """The changes of all tasks whose receipt confirms them, and everything else; the same at every call."""
    base = git.find_commit(local, run.repo, run.ref_name("base"))
    if base is None:
        raise MngrError(f"the run {run.name} has no base", "its repository is not whole: make a new run")
    tasks = [state.tasks[slug] for slug in sorted(state.tasks)]
    left = [exclude_task(one) for one in tasks if not _is_ready(one)]
    units: list[tuple[TaskState, ChangeUnit]] = []
    splitter = ClaimSplitter(local, run.repo, base)
    for one, claim in _read_task_claims(local, run.repo, base, [one for one in tasks if _is_ready(one)]):
        if isinstance(claim, list):
            left.append(exclude_task(one, f"{claim[0].path}: {claim[0].what}".removeprefix(": "), claim))
            continue
        try:
            units += [(one, unit) for unit in splitter.split_claim(claim, _list_flagged_paths(one))]
        except MngrError as error:
            left.append(exclude_task(one, error.message, [_make_unreadable_finding(error)]))
    return _link_needed_changes(base, _make_changes(local, run.repo, units), left, state)


def _read_task_claims(
    local: Host, repo: str, base: str, tasks: list[TaskState]
) -> list[tuple[TaskState, ClaimedWork | list[Finding]]]:
    """What each task did, or why it is refused; one that git cannot read is no trouble for the others."""
    if not tasks:
        return []
    try:
        names = [(one.base or base, str(one.commit)) for one in tasks]
        known = list_trees(local, repo, [name for pair in names for name in pair])
        if None in known:
            raise MngrError("its commit is not in the run's repository", "")
        claims = read_claims(local, repo, base, names)
        refused = _list_refusals(local, repo, claims)
    except MngrError as error:
        if len(tasks) > 1:
            middle = len(tasks) // 2
            return [
                row for some in (tasks[:middle], tasks[middle:]) for row in _read_task_claims(local, repo, base, some)
            ]
        return [(tasks[0], [_make_unreadable_finding(error)])]
    return [(one, why or claim) for one, claim, why in zip(tasks, claims, refused, strict=True)]


def _make_unreadable_finding(error: MngrError) -> Finding:
    return Finding(rule="reduce-unreadable", level="refuse", path="", what=untrusted.clean_line(error.message))


def save_changes(run: RunDir, state: RunState, changes: Sequence[Change], left: Sequence[ExcludedTask]) -> None:
    """Write changes.json."""
    data = {
        "v": 1,
        "run": run.name,
        "changes": [change.to_dict() for change in changes],
        "left_out": [one.to_dict() for one in left],
        "causes": group_by_reason(left),
        "escalations": list_escalations(state),
        "held": list_unrepaired_causes(state),
    }
    path = os.path.join(run.path, "changes.json")
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:  # `changes` and `integrate` may both be at it
        json.dump(data, file, indent=1)
    os.replace(f"{path}.{os.getpid()}", path)


def load_changes(run: RunDir) -> list[Change]:
    """The changes as they were saved; raises NotFound."""
    try:
        with open(os.path.join(run.path, "changes.json"), encoding="utf-8") as file:
            rows = json.load(file)["changes"]
    except FileNotFoundError:
        raise NotFound(
            f"the run {run.name} has no changes yet", f"see how it goes: mngr tmr status {run.name}"
        ) from None
    return [
        Change(
            **{name: row[name] for name in Change._fields if name != "made_by"},
            made_by=[ChangeAuthor(**maker) for maker in row["made_by"]],
        )
        for row in rows
    ]


def pin_changes(local: Host, run: RunDir, changes: Sequence[Change]) -> None:
    """Names for the commits of changes, so that no `git gc` takes them."""
    rows = "".join(f"update {run.ref_name(f'change-{change.key[:40]}')} {change.commit}\n" for change in changes)
    git.run_checked(local, run.repo, *GIT_SAFE_ARGS, "update-ref", "--stdin", stdin=rows.encode())


# What is ready, and what is not


def _is_ready(one: TaskState) -> bool:
    is_confirmed = (one.check or {}).get("verdict") == "confirmed"
    return one.state == "settled" and is_confirmed and not find_invalid_commit(one) and one.commit is not None


def _list_refusals(local: Host, repo: str, claims: Sequence[ClaimedWork]) -> list[list[Finding]]:
    """Why each claim is refused, by names, modes and sizes alone."""
    rows = [
        [*claim.rows, *(row for step in claim.rows_by_edit for row in step if is_implementation(row.path))]
        for claim in claims
    ]
    every = [row for some in rows for row in some]
    sizes = read_sizes(local, repo, (row.new for row in every if row.new_mode not in ("000000", "160000")))
    links = {row.new for row in every if row.new_mode == untrusted.LINK_MODE}
    targets = read_blobs(local, repo, links, 4096)
    return [untrusted.list_refusals(some, sizes, targets) for some in rows]


def _list_flagged_paths(one: TaskState) -> set[str]:
    """The files of which a person should know something."""
    rows = [row for name in ("policy", "guard") for row in (one.check or {}).get(name) or ()]
    return {row["path"] for row in rows if row["level"] == "note"}


# How a unit becomes a change


def _make_changes(local: Host, repo: str, units: Sequence[tuple[TaskState, ChangeUnit]]) -> list[Change]:
    specs = [_make_commit_spec(unit) for _, unit in units]
    commits = write_commits(local, repo, specs)
    trees = list_trees(local, repo, [*commits, *(unit.parent for _, unit in units)])
    pairs = [(str(old), str(new)) for new, old in zip(trees[: len(commits)], trees[len(commits) :], strict=True)]
    files = list_file_edits(local, repo, pairs)
    found = []
    for (one, unit), spec, commit, some in zip(units, specs, commits, files, strict=True):
        found.append(_make_change(one, unit, spec, commit, measure_size(some)))
    return shorten_ids(found)


def measure_size(files: Sequence[FileEdit]) -> dict[str, int]:
    """How large a change is."""
    return {
        "files": len(files),
        "added": sum(file.added_lines for file in files),
        "removed": sum(file.removed_lines for file in files),
    }


def _make_commit_spec(unit: ChangeUnit) -> CommitSpec:
    last, first = unit.edits[-1], unit.edits[0]
    return CommitSpec(
        parent=unit.parent,
        rows=unit.rows,
        author=f"{untrusted.clean_author(first.name, first.mail)} {untrusted.clean_date(first.authored)}",
        committer=f"{MNGR_AUTHOR} {untrusted.clean_date(last.committed)}",
        message=_make_title(unit),
    )


def _make_title(unit: ChangeUnit) -> str:
    more = f" (and {len(unit.edits) - 1} more)" if len(unit.edits) > 1 else ""
    return (untrusted.clean_line(unit.edits[0].subject, 120) or "without a subject") + more


def _make_change(one: TaskState, unit: ChangeUnit, spec: CommitSpec, commit: str, size: dict[str, int]) -> Change:
    check = one.check or {}
    own = [edit.commit for edit in unit.edits]
    proofs = [row for row in check.get("proofs") or () if row["is_needed"] and not set(own).isdisjoint(row["fixes"])]
    tests = [str(check.get("test") or one.task.title), *(row["test"] for row in check.get("witnesses") or ())]
    results = check.get("results") or []
    passed = sum(row.get("outcome") == "pass" for row in results)
    findings = [clean_finding(row) for name in ("policy", "guard", "findings") for row in check.get(name) or ()]
    findings = [row for row in findings if row["path"] in unit.paths]
    findings += [
        Finding(rule="reduce-message", level="note", path="", what=f"the message of {edit.commit[:10]} had to be cleaned").to_dict()
        for edit in unit.edits
        if not untrusted.is_clean(edit.message)
    ]  # fmt: skip
    maker = ChangeAuthor(
        task=one.task.slug, title=untrusted.clean_line(one.task.title), agent=one.agent or "", commits=own, claimed=str(one.commit),
        verdict=str(check.get("verdict")), runs=f"{passed}/{len(results)}",
    )  # fmt: skip
    author, _, authored = spec.author.rpartition("> ")
    bodies = [untrusted.clean_body(edit.message.strip().partition("\n")[2]) for edit in unit.edits]
    return Change(
        id="", key=compute_key(unit.rows), kind="fix" if unit.is_fix else "test", title=spec.message, body="\n\n".join(filter(None, bodies)),
        flagged=unit.is_flagged or any(row["path"] in _list_flagged_paths(one) for row in findings if row["path"]),
        made_by=[maker], commit=commit, parent=unit.parent, needs=[], paths=unit.paths, size=size, findings=findings,
        turned=sorted(set(tests)) if unit.is_fix and proofs else [], author=f"{author}>", authored=authored,
        committed=spec.committer.rpartition("> ")[2],
    )  # fmt: skip


def compute_key(rows: Iterable[PathChange]) -> str:
    """What the id of a change is the beginning of: the same for the same edit, whoever made it."""
    said = sorted([row.path, row.old_mode, row.new_mode, row.old, row.new] for row in rows)
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def shorten_ids(changes: Iterable[Change]) -> list[Change]:
    """The changes with ids as short as they can be told apart by."""
    found = list(changes)
    keys = {change.key for change in found}
    length = _MIN_ID_DIGITS
    while len({key[:length] for key in keys}) < len(keys):
        length += 1
    return [change.replace(id=change.key[:length]) for change in found]


def _link_needed_changes(
    base: str, changes: list[Change], left: list[ExcludedTask], state: RunState
) -> tuple[list[Change], list[ExcludedTask]]:
    """Changes that stand on the fixes of others, with those by id; without them they are left out."""
    moves = [row for row in state.recipe_rows.get("base", []) if row.get("added")]
    found: list[Change] = []
    for change in changes:
        if change.parent == base:
            found.append(change)
            continue
        at = next((number for number, row in enumerate(moves) if row["commit"] == change.parent), None)
        makers = {row["by"] for row in moves[: 0 if at is None else at + 1]}
        below = [other for other in changes if makers.intersection(other.tasks)]
        reach = PathSet(change.paths)
        meet = [other.id for other in below if PathSet(other.paths).has_overlap(reach)]
        if below:
            found.append(change.replace(needs=sorted(set(meet or [other.id for other in below]))))
        else:
            one = state.tasks[change.tasks[0]]
            left.append(exclude_task(one, f"{change.title} builds on work that is not taken"))
    return found, sorted(left, key=lambda one: one.task)
