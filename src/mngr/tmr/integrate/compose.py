"""One branch of many changes: tests and texts in one commit, each fix in one of its own; the same ids at every call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mngr.base.model import Record
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits.hunks import Hunk, applied, are_apart, files_of
from mngr.tmr.commits.trees import OURS, Reach, Row, Spec, blobs_of, merge_all, pick, trees_of, whole, write
from mngr.tmr.verify.legacy.policy import sort_of

_LARGEST = 1 << 20  # bytes of a text that we put together ourselves
_RISKY = ("startup", "conftest", "ci", "lock", "config")


class Made(Record):
    """A commit of the branch."""

    commit: str
    tree: str
    changes: list[str]  # ids
    kind: str  # test | flagged | fix
    subject: str


class Conflict(Record):
    """A change that does not go with those before it."""

    change: str
    paths: list[str]
    others: list[str]  # ids of those in its way; none: the base itself
    reason: str


class Composed(Record):
    """A branch, and what did not go into it."""

    base: str
    head: str
    tree: str
    commits: list[Made]
    conflicts: list[Conflict]
    already: list[str]  # ids of changes that found nothing left to do


def rank(
    changes: Sequence[Change],
    blocks: Mapping[str, Sequence[str]] | None = None,
    advised: Sequence[str] = (),
) -> list[Change]:
    """Changes by evidence, best first; of equals those first whose keys are `advised`, in that order, then by id.

    `blocks` says which blocks of the tutorial a test cites. What a change needs comes before it.
    """
    place = {key: number for number, key in enumerate(advised)}
    waiting = sorted(
        changes,
        key=lambda change: (*_weight(change, blocks or {}), place.get(change.key, len(place)), change.id),
    )
    known = {change.id for change in changes}
    found: list[Change] = []
    done: set[str] = set()
    while waiting:
        ready = (change for change in waiting if known.intersection(change.needs) <= done)
        best = next(ready, waiting[0])
        waiting.remove(best)
        found.append(best)
        done.add(best.id)
    return found


def ties(changes: Sequence[Change], blocks: Mapping[str, Sequence[str]]) -> list[list[Change]]:
    """Fixes that no evidence sets apart, best first."""
    found: dict[tuple[int, ...], list[Change]] = {}
    for change in sorted(changes, key=lambda one: one.id):
        if change.kind == "fix":
            found.setdefault(_weight(change, blocks), []).append(change)
    return [group for _, group in sorted(found.items(), key=lambda item: item[0]) if len(group) > 1]


def _weight(change: Change, blocks: Mapping[str, Sequence[str]]) -> tuple[int, ...]:
    """Evidence: tests turned green, agents that found it, what users do that was wrong, risk, size."""
    shown = {block for test in change.turned for block in blocks.get(test, ())}
    size = change.size["added"] + change.size["removed"]
    return -len(set(change.turned)), -len(change.agents), -len(shown), risk(change), size


def risk(change: Change) -> int:
    """How much of a change asks for care: what was found about it, and files that decide about others."""
    noted = [row for row in change.findings if row["level"] == "note"]
    return len(noted) + sum(sort_of(path).name in _RISKY for path in change.paths)


def compose(local: Host, repo: str, base: str, chosen: Sequence[Change]) -> Composed:
    """The base, the chosen tests and texts as one commit, flagged ones each as one, then fixes each as one, in the given order."""
    branch = _Branch(local, repo, base, chosen)
    plain = [change for change in chosen if change.kind == "test" and not change.flagged]
    branch.together(plain)
    for kind in ("test", "fix"):
        for change in chosen:
            if change.kind == kind and (kind == "fix" or change.flagged):
                branch.add(change)
    return branch.end()


class _Branch:
    """A branch while it grows: commits whose paths nobody touched before them are made many at a time."""

    def __init__(self, local: Host, repo: str, base: str, chosen: Sequence[Change]) -> None:
        self._local, self._repo, self._base = local, repo, base
        names = [name for change in chosen for name in (change.parent, change.commit)]
        self._head_tree, *trees = map(str, trees_of(local, repo, [base, *names]))
        every = files_of(local, repo, list(zip(trees[::2], trees[1::2], strict=True)))
        self._files = {change.commit: files for change, files in zip(chosen, every, strict=True)}
        self._texts = blobs_of(
            local, repo, {one.row.old for some in every for one in some if one.is_plain}, _LARGEST
        )
        self._lines: dict[str, list[Hunk]] = {}  # of files to which nothing else was done than this
        self._head = base
        self._waiting: list[tuple[Spec, list[Change], str]] = []
        self._touched = Reach()
        self._in: dict[str, Change] = {}
        self._made: list[Made] = []
        self._conflicts: list[Conflict] = []
        self._already: list[str] = []

    def together(self, changes: Sequence[Change]) -> None:
        """One commit of all that go together."""
        rows: list[Row] = []
        taken: list[Change] = []
        for change in changes:
            more = self._with(change, rows)
            if more is not None:
                rows = more
                taken.append(change)
        if taken:
            self._waiting.append((_spec_of_all(taken, rows), taken, "test"))

    def add(self, change: Change) -> None:
        """One commit of one change."""
        rows = self._with(change, [])
        if rows is not None:
            kind = "flagged" if change.kind == "test" else "fix"
            self._waiting.append((_spec_of_one(change, rows), [change], kind))

    def end(self) -> Composed:
        """The branch as it is now."""
        self._flush()
        return Composed(
            base=self._base, head=self._head, tree=self._head_tree, commits=self._made, conflicts=self._conflicts,
            already=self._already,
        )  # fmt: skip

    def _with(self, change: Change, rows: list[Row]) -> list[Row] | None:
        """What a commit does with one more change in it; None when it does not go, or is there already."""
        missing = [name for name in change.needs if name not in self._in]
        if missing:
            reason = f"it needs {', '.join(missing)}, which is not there"
            self._conflicts.append(Conflict(change=change.id, paths=[], others=missing, reason=reason))
            return None
        quick = self._quickly(change)
        if quick is not None:
            self._take(change)
            return [*rows, *quick]
        commit, tree = self._so_far(rows)
        if change.parent == self._base:
            done = merge_all(self._local, self._repo, [(commit, change.commit)])[0]
        else:
            done = pick(self._local, self._repo, tree, change.parent, change.commit)
        if done.paths:
            self._conflicts.append(self._conflict(change, done.paths))
            return None
        self._take(change)
        for path in change.paths:
            self._lines.pop(path, None)
        if done.tree == tree:
            self._already.append(change.id)
            return None
        return [whole(done.tree)]

    def _quickly(self, change: Change) -> list[Row] | None:
        """What a change does where nobody was before it, or at lines far from theirs; None when git must merge."""
        if change.parent != self._base:
            return None
        rows: list[Row] = []
        lines: dict[str, list[Hunk]] = {}
        for file in self._files[change.commit]:
            path = file.row.path
            is_plain = file.is_plain and file.row.old in self._texts
            if not Reach([path]).meets(self._touched):
                rows.append(file.row)
                lines[path] = list(file.hunks or ()) if is_plain else []
            elif is_plain and self._lines.get(path) and are_apart(self._lines[path], file.hunks or ()):
                lines[path] = [*self._lines[path], *(file.hunks or ())]
                text = self._texts[file.row.old].decode("utf-8", "surrogateescape")
                data = applied(text, lines[path]).encode("utf-8", "surrogateescape")
                rows.append(file.row.replace(data=data))
            else:
                return None
        self._lines.update(lines)
        return rows

    def _take(self, change: Change) -> None:
        self._in[change.id] = change
        self._touched.add(change.paths)

    def _so_far(self, rows: list[Row]) -> tuple[str, str]:
        """A commit that stands on the base, and its tree: the branch with a commit that is not made yet."""
        self._flush()
        if not rows:
            return self._head, self._head_tree
        commit = write(self._local, self._repo, [Spec(parent=self._head, rows=rows)])
        return commit[0], str(trees_of(self._local, self._repo, commit)[0])

    def _flush(self) -> None:
        """Make the commits that wait."""
        if not self._waiting:
            return
        specs = [
            spec.replace(parent=f":{number}" if number else self._head)
            for number, (spec, _, _) in enumerate(self._waiting)
        ]
        commits = write(self._local, self._repo, specs)
        trees = trees_of(self._local, self._repo, commits)
        for (spec, changes, kind), commit, tree in zip(self._waiting, commits, trees, strict=True):
            ids, subject = [change.id for change in changes], spec.message.partition("\n")[0]
            self._made.append(Made(commit=commit, tree=str(tree), changes=ids, kind=kind, subject=subject))
        self._head, self._head_tree = commits[-1], str(trees[-1])
        self._waiting = []

    def _conflict(self, change: Change, paths: list[str]) -> Conflict:
        """Who is in the way: those that do not merge with it, or all that touch the same where none does alone."""
        reach = Reach(paths)
        near = [other for other in self._in.values() if Reach(other.paths).meets(reach)]
        merged = merge_all(self._local, self._repo, [(change.commit, other.commit) for other in near])
        alone = [other.id for other, done in zip(near, merged, strict=True) if done.paths]
        others = sorted(alone or [other.id for other in near])
        words = f"with {', '.join(others)}" if others else "with the base"
        reason = f"it does not merge {words}: {', '.join(paths)}"
        return Conflict(change=change.id, paths=paths, others=others, reason=reason)


# What commits say


def _spec_of_all(changes: Sequence[Change], rows: list[Row]) -> Spec:
    authors = {change.author for change in changes}
    tasks = {task for change in changes for task in change.tasks}
    last = max((change.committed for change in changes), key=_seconds)
    subject = f"[TEST/DOC] {_count(len(changes), 'change')} of {_count(len(tasks), 'task')}"
    body = "\n".join(f"- {change.id} {change.title}" for change in changes)
    return Spec(
        parent="",
        rows=rows,
        author=f"{authors.pop() if len(authors) == 1 else OURS} {last}",
        committer=f"{OURS} {last}",
        message=_message(subject, body, changes),
    )


def _spec_of_one(change: Change, rows: list[Row]) -> Spec:
    body = change.body
    if change.flagged:
        noted = [row for row in change.findings if row["level"] == "note"]
        body += "\n\nLook at this:\n" + "\n".join(f"- {row['path']}: {row['what']}" for row in noted)
    return Spec(
        parent="",
        rows=rows,
        author=f"{change.author} {change.authored}",
        committer=f"{OURS} {change.committed}",
        message=_message(change.title, body, [change]),
    )


def _message(subject: str, body: str, changes: Sequence[Change]) -> str:
    makers = {maker.task: maker for change in changes for maker in change.made_by}
    rows = [f"Mngr-Change: {change.id}" for change in changes]
    rows += [f"Mngr-Task: {task}" for task in sorted(makers)]
    rows += [f"Mngr-Agent: {agent}" for agent in sorted({maker.agent for maker in makers.values()}) if agent]
    for task in sorted(makers):
        one = makers[task]
        rows.append(f"Mngr-Receipt: {task} {one.verdict} {one.runs} {one.claimed[:12]}")
    return "\n\n".join(filter(None, [subject, body.strip(), "\n".join(rows)])) + "\n"


def _seconds(date: str) -> tuple[int, str]:
    return int(date.partition(" ")[0]), date


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
