"""Builds the changes of a run, in units that a person can include or exclude, and lists what is excluded and why."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal.run_state import RunState, TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.list_exclusions import ExcludedTask, exclude_task, find_invalid_commit, list_receipt_findings
from mngr.tmr.changes.split_commits import ChangeUnit, ClaimedWork, ClaimSplitter, read_claims
from mngr.tmr.commits import clean_untrusted_text, dangerous_files
from mngr.tmr.commits.hunks import FileHunks, list_file_edits
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
from mngr.tmr.prepare.journal_facts import BaseMoved, list_facts
from mngr.tmr.verify.receipt import Receipt, find_receipt
from mngr.tmr.verify.red_green import is_implementation

_MIN_ID_DIGITS = 6  # of a change's id


class ChangeSize(Struct):
    """The number of files, and of added and removed lines."""

    files: int
    added: int
    removed: int


class ChangeAuthor(Struct):
    """The task that made a change, and what mngr saw when it verified it."""

    task: str  # the task's slug
    title: str
    agent: str
    agent_kind: str = ""
    commits: list[str]
    claimed_commit: str  # the commit that the receipt verifies
    verdict: str
    runs: str  # passed runs/all runs
    variant: str = ""  # the id of its own version, if the text was not the same


class Change(Struct):
    """An edit that is merged as a whole or not at all."""

    id: str
    key: str  # the id is its beginning
    kind: str  # fix: edits the implementation | test: everything else
    flagged: bool  # a person should look at it
    title: str
    body: str
    made_by: list[ChangeAuthor]
    commit: str  # a commit with only this change
    parent: str  # the parent of that commit
    needs: list[str]  # ids of the changes that it depends on
    paths: list[str]
    size: ChangeSize
    findings: list[Finding]
    fixed_tests: list[str]  # tests that fail without it and pass with it
    author: str
    authored: str
    committed: str

    @property
    def tasks(self) -> list[str]:
        """Return the slugs of the tasks that made it."""
        return [author.task for author in self.made_by]

    @property
    def agents(self) -> list[str]:
        """Return the agents that made it, each once."""
        return sorted({author.agent for author in self.made_by})

    @property
    def agent_kinds(self) -> list[str]:
        """Return the kinds of the agents that made it, each once."""
        return sorted({author.agent_kind for author in self.made_by if author.agent_kind})

    @property
    def agent_commits(self) -> list[str]:
        """Return the agents' own commits that it was made from."""
        return [commit for author in self.made_by for commit in author.commits]

    @property
    def notes(self) -> list[Finding]:
        """Return the findings that a person should look at."""
        return [finding for finding in self.findings if finding.level == "note"]

    @property
    def is_shared(self) -> bool:
        """True when at least three tasks made it, so that it is offered as one fix for all."""
        return len(self.made_by) >= 3

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, and what follows from its authors."""
        return {
            **super().to_dict(),
            "tasks": self.tasks,
            "agents": self.agents,
            "agent_kinds": self.agent_kinds,
            "verdicts": sorted({author.verdict for author in self.made_by}),
            "shared": self.is_shared,
        }


def collect_changes(
    local: Host, run: RunDir, state: RunState, default_kind: str = ""
) -> tuple[list[Change], list[ExcludedTask]]:
    """Return the changes of all tasks with a confirmed receipt, and all other tasks as excluded.

    `default_kind` is the agent kind of tasks for which the journal names no other. Every call returns the same for the same state. Raises MngrError when the run has no base.
    """
    base = git.find_commit(local, run.repo, run.ref_name("base"), git.ISOLATED_GIT)
    if base is None:
        raise MngrError(
            f"the repository of the run {run.name} does not contain its base commit", "start a new run: mngr tmr run"
        )
    tasks = [state.tasks[slug] for slug in sorted(state.tasks)]
    ready = [task for task in tasks if _is_ready(task)]
    excluded = [exclude_task(task) for task in tasks if not _is_ready(task)]
    units: list[tuple[TaskState, ChangeUnit]] = []
    splitter = ClaimSplitter(local, run.repo, base)
    for task, claim in _read_task_claims(local, run.repo, base, ready):
        if isinstance(claim, list):
            excluded.append(exclude_task(task, f"{claim[0].path}: {claim[0].what}".removeprefix(": "), claim))
            continue
        try:
            units += [(task, unit) for unit in splitter.split_claim(claim, _list_flagged_paths(task))]
        except MngrError as error:
            excluded.append(exclude_task(task, error.message, [_make_unreadable_finding(error)]))
    changes = _make_changes(local, run.repo, units, default_kind)
    return _link_needed_changes(base, changes, excluded, state)


def _read_task_claims(
    local: Host, repo: str, base: str, tasks: list[TaskState]
) -> list[tuple[TaskState, ClaimedWork | list[Finding]]]:
    """Return the work of each task, or the findings for which it is rejected.

    When git cannot read a claim, the tasks are halved until only that claim is rejected.
    """
    if not tasks:
        return []
    try:
        names = [(task.base or base, str(task.commit)) for task in tasks]
        trees = list_trees(local, repo, [name for pair in names for name in pair])
        if None in trees:
            raise MngrError("the commit is not in the run's repository", "")
        claims = read_claims(local, repo, base, names)
        refusals = _list_refusals(local, repo, claims)
    except MngrError as error:
        if len(tasks) == 1:
            return [(tasks[0], [_make_unreadable_finding(error)])]
        middle = len(tasks) // 2
        first_half = _read_task_claims(local, repo, base, tasks[:middle])
        return first_half + _read_task_claims(local, repo, base, tasks[middle:])
    return [(task, findings or claim) for task, claim, findings in zip(tasks, claims, refusals, strict=True)]


def _make_unreadable_finding(error: MngrError) -> Finding:
    return Finding(
        rule="reduce-unreadable", level="refuse", path="", what=clean_untrusted_text.clean_line(error.message)
    )


def pin_changes(local: Host, run: RunDir, changes: Sequence[Change]) -> None:
    """Create refs to the commits of changes, so that `git gc` keeps them."""
    rows = "".join(f"update {run.ref_name(f'change-{change.key[:40]}')} {change.commit}\n" for change in changes)
    git.run_checked(
        local, run.repo, *GIT_SAFE_ARGS, "update-ref", "--stdin", stdin=rows.encode(), git_command=git.ISOLATED_GIT
    )


# Select the tasks that are ready


def _is_ready(task: TaskState) -> bool:
    """True when a task has ended with a commit and a receipt that confirms it."""
    if task.state != "settled" or task.commit is None or find_invalid_commit(task):
        return False
    receipt = find_receipt(task.check)
    return receipt is not None and receipt.verdict == "confirmed"


def _get_receipt(task: TaskState) -> Receipt:
    receipt = find_receipt(task.check)
    if receipt is None:
        raise MngrError(
            f"the receipt of {task.task.slug} is damaged", "make new receipts: mngr tmr integrate --verify full"
        )
    return receipt


def _list_refusals(local: Host, repo: str, claims: Sequence[ClaimedWork]) -> list[list[Finding]]:
    """Return the findings for which each claim is rejected, judged by names, modes and sizes alone."""
    rows = [[*claim.rows, *_list_implementation_rows(claim)] for claim in claims]
    all_rows = list(itertools.chain.from_iterable(rows))
    sizes = read_sizes(local, repo, (row.new for row in all_rows if row.new_mode not in ("000000", "160000")))
    links = {row.new for row in all_rows if row.new_mode == dangerous_files.LINK_MODE}
    targets = read_blobs(local, repo, links, 4096)
    return [dangerous_files.list_refusals(claim_rows, sizes, targets) for claim_rows in rows]


def _list_implementation_rows(claim: ClaimedWork) -> list[PathChange]:
    return [row for row in itertools.chain.from_iterable(claim.rows_by_edit) if is_implementation(row.path)]


def _list_flagged_paths(task: TaskState) -> set[str]:
    """Return the files with findings that a person should know."""
    receipt = find_receipt(task.check)
    findings = [] if receipt is None else [*receipt.policy, *receipt.guard]
    return {finding.path for finding in findings if finding.level == "note"}


# Turn units into changes


def _make_changes(
    local: Host, repo: str, units: Sequence[tuple[TaskState, ChangeUnit]], default_kind: str
) -> list[Change]:
    specs = [_make_commit_spec(unit) for _, unit in units]
    commits = write_commits(local, repo, specs)
    trees = list_trees(local, repo, [*commits, *(unit.parent for _, unit in units)])
    pairs = [(str(old), str(new)) for new, old in zip(trees[: len(commits)], trees[len(commits) :], strict=True)]
    files = list_file_edits(local, repo, pairs)
    changes = []
    for (task, unit), spec, commit, edits in zip(units, specs, commits, files, strict=True):
        author = _make_author(task, unit, task.find_agent_kind() or default_kind)
        changes.append(_make_change(task, unit, author, spec, commit, measure_size(edits)))
    return shorten_ids(changes)


def measure_size(files: Sequence[FileHunks]) -> ChangeSize:
    """Return the size of a change to these files."""
    added = sum(file.added_lines for file in files)
    removed = sum(file.removed_lines for file in files)
    return ChangeSize(files=len(files), added=added, removed=removed)


def _make_commit_spec(unit: ChangeUnit) -> CommitSpec:
    last, first = unit.edits[-1], unit.edits[0]
    return CommitSpec(
        parent=unit.parent,
        rows=unit.rows,
        author=f"{clean_untrusted_text.clean_author(first.name, first.mail)} {clean_untrusted_text.clean_date(first.authored)}",
        committer=f"{MNGR_AUTHOR} {clean_untrusted_text.clean_date(last.committed)}",
        message=_make_title(unit),
    )


def _make_title(unit: ChangeUnit) -> str:
    more_count = len(unit.edits) - 1
    more = f" (and {more_count} more {'commit' if more_count == 1 else 'commits'})" if more_count else ""
    return (clean_untrusted_text.clean_line(unit.edits[0].subject, 120) or "no subject") + more


def _make_change(
    task: TaskState, unit: ChangeUnit, made_by: ChangeAuthor, spec: CommitSpec, commit: str, size: ChangeSize
) -> Change:
    """Return the change of a unit, with what the task's receipt says about it; its id is set later."""
    findings = _list_unit_findings(task, unit)
    flagged_paths = _list_flagged_paths(task) - {""}
    author, _, authored = spec.author.rpartition("> ")
    bodies = [clean_untrusted_text.clean_body(edit.message.strip().partition("\n")[2]) for edit in unit.edits]
    return Change(
        id="",
        key=compute_key(unit.rows),
        kind="fix" if unit.is_fix else "test",
        flagged=unit.is_flagged or any(finding.path in flagged_paths for finding in findings),
        title=spec.message,
        body="\n\n".join(filter(None, bodies)),
        made_by=[made_by],
        commit=commit,
        parent=unit.parent,
        needs=[],
        paths=unit.paths,
        size=size,
        findings=findings,
        fixed_tests=_list_fixed_tests(task, unit),
        author=f"{author}>",
        authored=authored,
        committed=spec.committer.rpartition("> ")[2],
    )


def _make_author(task: TaskState, unit: ChangeUnit, agent_kind: str) -> ChangeAuthor:
    receipt = _get_receipt(task)
    passed = sum(result.outcome == "pass" for result in receipt.results)
    return ChangeAuthor(
        task=task.task.slug,
        title=clean_untrusted_text.clean_line(task.task.title),
        agent=task.agent or "",
        agent_kind=agent_kind,
        commits=unit.commits,
        claimed_commit=str(task.commit),
        verdict=receipt.verdict,
        runs=f"{passed}/{len(receipt.results)}",
    )


def _list_unit_findings(task: TaskState, unit: ChangeUnit) -> list[Finding]:
    """Return the receipt's findings about the unit's files, and a note for each message that had to be cleaned."""
    findings = [finding for finding in list_receipt_findings(task) if finding.path in unit.paths]
    for edit in unit.edits:
        if not clean_untrusted_text.is_clean(edit.message):
            what = f"mngr removed unsafe characters from the message of {edit.commit[:10]}"
            findings.append(Finding(rule="reduce-message", level="note", path="", what=what))
    return findings


def _list_fixed_tests(task: TaskState, unit: ChangeUnit) -> list[str]:
    """Return the tests that fail without the unit, if the receipt proves that."""
    receipt = _get_receipt(task)
    commits = set(unit.commits)
    is_proven = any(proof.is_needed and not commits.isdisjoint(proof.fixes) for proof in receipt.proofs)
    if not unit.is_fix or not is_proven:
        return []
    return sorted({receipt.test, *(result.test for result in receipt.affected_tests)})


def compute_key(rows: Iterable[PathChange]) -> str:
    """Return the key of an edit, which is the same whoever made it. A change's id is the beginning of its key."""
    fields = sorted([row.path, row.old_mode, row.new_mode, row.old, row.new] for row in rows)
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def shorten_ids(changes: Iterable[Change]) -> list[Change]:
    """Return the changes with ids that are as short as possible and still unique."""
    all_changes = list(changes)
    keys = {change.key for change in all_changes}
    length = _MIN_ID_DIGITS
    while len({key[:length] for key in keys}) < len(keys):
        length += 1
    return [change.replace(id=change.key[:length]) for change in all_changes]


def _link_needed_changes(
    base: str, changes: list[Change], excluded: list[ExcludedTask], state: RunState
) -> tuple[list[Change], list[ExcludedTask]]:
    """Add the ids of needed fixes to the changes that are based on other tasks' fixes.

    A change whose fixes are missing is excluded.
    """
    linked: list[Change] = []
    unlinked: list[ExcludedTask] = []
    for change in changes:
        if change.parent == base:
            linked.append(change)
            continue
        fix_tasks = _list_fix_tasks(state, change.parent)
        needed = [other for other in changes if not fix_tasks.isdisjoint(other.tasks)]
        if not needed:
            task = state.tasks[change.tasks[0]]
            unlinked.append(exclude_task(task, f"{change.title}: it is based on work that is excluded"))
            continue
        paths = PathSet(change.paths)
        overlapping = [other for other in needed if PathSet(other.paths).has_overlap(paths)]
        linked.append(change.replace(needs=sorted({other.id for other in overlapping or needed})))
    return linked, sorted([*excluded, *unlinked], key=lambda task: task.task)


def _list_fix_tasks(state: RunState, base: str) -> set[str]:
    """Return the tasks whose fixes a later base of the run contains. Empty when it is no base of the run."""
    tasks: set[str] = set()
    for move in list_facts(state, BaseMoved):
        if move.added:
            tasks.add(move.by)
            if move.commit == base:
                return tasks
    return set()
