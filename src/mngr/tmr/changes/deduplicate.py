"""The same edit made by several becomes one change that names them all: whole changes first, then single places in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mngr.base.model import Record
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change, Maker, key_of, shortened, size_of
from mngr.tmr.changes.same_code import meaning
from mngr.tmr.commits.hunks import FileEdit, Hunk, applied, files_of
from mngr.tmr.commits.trees import OURS, Row, Spec, blobs_of, rows_of, trees_of, write

_LARGEST = 1 << 20
_SLIGHT = re.compile(
    r"\s*(?:(?:import|from)\s.*|[()\[\]{},]*|#.*)\s*"
)  # alone no edit that several could share


class Piece(Record):
    """An edit at one place of one file, or of a whole file where it cannot be taken apart."""

    path: str
    key: str  # the same for all that say the same
    hunk: Hunk | None
    row: Row
    is_slight: bool = False


class Read(Record):
    """A change and the pieces that it is made of."""

    change: Change
    key: tuple[str, ...]
    pieces: list[Piece]


class Part(Record):
    """A change, and of which it has something."""

    change: Change
    of: tuple[int, ...]
    is_rest: bool = False  # others have something of the same


def collapse(local: Host, repo: str, base: str, changes: Sequence[Change]) -> list[Change]:
    """The changes with each edit in only one of them, and everyone who made it named there."""
    reads = _read(local, repo, base, changes)
    groups: dict[tuple[str, ...], list[Read]] = {}
    for read in reads:
        groups.setdefault(read.key, []).append(read)
    merged = [_chosen(some) for some in groups.values()]
    place = {read.change.id: number for number, some in enumerate(groups.values()) for read in some}
    parts = _parted(local, repo, base, merged)
    changes = shortened(part.change for part in parts)
    found = []
    for part, change in zip(parts, changes, strict=True):
        wanted = {place[name] for name in change.needs if name in place}
        wanted.update(part.of if part.is_rest else ())
        needs = {
            other.id
            for below, other in zip(parts, changes, strict=True)
            if wanted.intersection(below.of) and below is not part
        }
        found.append(change.replace(needs=sorted(needs)))
    return sorted(found, key=lambda change: (change.kind != "test", change.flagged, change.id))


# What is the same


def _read(local: Host, repo: str, base: str, changes: Sequence[Change]) -> list[Read]:
    trees = trees_of(local, repo, [name for change in changes for name in (change.parent, change.commit)])
    pairs = [(str(trees[at]), str(trees[at + 1])) for at in range(0, len(trees), 2)]
    every = files_of(local, repo, pairs)
    wanted = {
        name
        for some in every
        for file in some
        if file.row.path.endswith(".py")
        for name, mode in ((file.row.old, file.row.old_mode), (file.row.new, file.row.new_mode))
        if mode.startswith("100")
    }
    texts = {
        name: data.decode("utf-8", "surrogateescape")
        for name, data in blobs_of(local, repo, wanted, _LARGEST).items()
    }
    known: dict[str, str | None] = {name: meaning(text) for name, text in texts.items()}
    found = []
    for change, files in zip(changes, every, strict=True):
        if change.parent != base:
            found.append(Read(change=change, key=(change.kind, change.parent, change.key), pieces=[]))
            continue
        key = (change.kind, *(f"{file.row.path}\0{_file_key(file, known)}" for file in files))
        pieces = [piece for file in files for piece in _pieces(file, texts, known)]
        found.append(Read(change=change, key=key, pieces=pieces))
    return found


def _file_key(file: FileEdit, known: dict[str, str | None]) -> str:
    row = file.row
    after = known.get(row.new)
    said = row.new if after is None or after == known.get(row.old) else after
    return f"{row.old_mode} {row.new_mode} {said}"


def _pieces(file: FileEdit, texts: dict[str, str], known: dict[str, str | None]) -> list[Piece]:
    row = file.row
    if not file.hunks or not file.is_plain:
        return [Piece(path=row.path, key=f"{row.path}\0{_file_key(file, known)}", hunk=None, row=row)]
    old = texts.get(row.old)
    found = []
    for hunk in file.hunks:
        literal = repr((hunk.start, hunk.old, hunk.new))
        said = None if old is None else meaning(applied(old, [hunk]))
        key = literal if said is None or said == known.get(row.old) else said
        is_slight = all(_SLIGHT.fullmatch(line) for line in (*hunk.old, *hunk.new))
        found.append(Piece(path=row.path, key=f"{row.path}\0{key}", hunk=hunk, row=row, is_slight=is_slight))
    return found


# One for all


def _chosen(some: Sequence[Read]) -> Read:
    """One of several that say the same: the wording that most chose, of equals the first by id."""
    counts: dict[str, int] = {}
    for read in some:
        counts[read.change.key] = counts.get(read.change.key, 0) + 1
    best = min(some, key=lambda read: (-counts[read.change.key], read.change.key, read.change.tasks))
    return best.replace(change=_united(best.change, [read.change for read in some]))


def _united(one: Change, others: Sequence[Change]) -> Change:
    """A change with everyone who made it, and everything that was found about it."""
    makers: dict[str, Maker] = {}
    findings: dict[str, dict[str, object]] = {}
    for other in others:
        for maker in other.made_by:
            variant = maker.variant or ("" if other.key == one.key else other.id)
            makers.setdefault(maker.task, maker.replace(variant=variant))
        for row in other.findings:
            findings.setdefault(repr(row), row)
    return one.replace(
        made_by=[makers[task] for task in sorted(makers)],
        flagged=any(other.flagged for other in others),
        needs=sorted({name for other in others for name in other.needs}),
        turned=sorted({test for other in others for test in other.turned}),
        findings=list(findings.values()),
    )


# The same at some places only


def _parted(local: Host, repo: str, base: str, reads: Sequence[Read]) -> list[Part]:
    """Changes in which nothing is twice: what several share is a change of its own, and the rest of theirs needs it."""
    owners: dict[str, list[int]] = {}
    slight: set[str] = set()
    for number, read in enumerate(reads):
        for key, is_slight in sorted({(piece.key, piece.is_slight) for piece in read.pieces}):
            name = f"{read.change.kind}\0{key}"
            owners.setdefault(name, []).append(number)
            slight.update([name] if is_slight else [])
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, numbers in sorted(owners.items()):
        if len(numbers) > 1 and name not in slight:
            groups.setdefault(tuple(numbers), []).append(name)
    for some, names in groups.items():  # an import goes with everything that may be in need of it
        names += [name for name in sorted(slight) if set(owners[name]).issuperset(some)]
    parts: list[Part] = []
    cut: list[tuple[Part, list[Piece]]] = []
    for some, names in groups.items():
        change, pieces = _common([reads[at] for at in some], names)
        cut.append((Part(change=change, of=some), pieces))
    for number, read in enumerate(reads):
        gone = {name for some, names in groups.items() if number in some for name in names}
        rest = [piece for piece in read.pieces if f"{read.change.kind}\0{piece.key}" not in gone]
        part = Part(change=read.change, of=(number,))
        if len(rest) == len(read.pieces):
            parts.append(part)
        elif rest:
            cut.append((part.replace(is_rest=True), rest))
    made = _remade(local, repo, base, [(part.change, pieces) for part, pieces in cut])
    parts += [part.replace(change=change) for (part, _), change in zip(cut, made, strict=True)]
    return _once(parts)


def _once(parts: Sequence[Part]) -> list[Part]:
    """The parts without one twice: what is left of several may be the same."""
    groups: dict[tuple[str, str, str], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.change.kind, part.change.parent, part.change.key), []).append(part)
    return [
        some[0].replace(
            change=_united(some[0].change, [part.change for part in some]),
            of=tuple(sorted({number for part in some for number in part.of})),
            is_rest=any(part.is_rest for part in some),
        )
        for some in groups.values()
    ]


def _common(some: Sequence[Read], keys: Sequence[str]) -> tuple[Change, list[Piece]]:
    """What several have in common, in the words of the first of them."""
    one = min(some, key=lambda read: read.change.key)
    pieces = [piece for piece in one.pieces if f"{one.change.kind}\0{piece.key}" in keys]
    paths = {piece.path for piece in pieces}
    said = _words(one, keys)
    others = {
        maker.task: read.change.id
        for read in some
        if _words(read, keys) != said
        for maker in read.change.made_by
    }
    united = _united(one.change, [read.change for read in some])
    return united.replace(
        made_by=[maker.replace(variant=others.get(maker.task, "")) for maker in united.made_by],
        findings=[row for row in united.findings if row["path"] in paths],
        title=f"{one.change.title} (what {len(some)} changes share)",
    ), pieces


def _words(read: Read, keys: Sequence[str]) -> list[str]:
    """What a change says at some places, literally."""
    found = [piece for piece in read.pieces if f"{read.change.kind}\0{piece.key}" in keys]
    return sorted(repr((piece.path, piece.hunk or piece.row.new)) for piece in found)


def _remade(
    local: Host, repo: str, base: str, wanted: Sequence[tuple[Change, Iterable[Piece]]]
) -> list[Change]:
    """Changes that do only some of what they did."""
    olds = {piece.row.old for _, pieces in wanted for piece in pieces if piece.hunk is not None}
    texts = {
        name: data.decode("utf-8", "surrogateescape")
        for name, data in blobs_of(local, repo, olds, 50 << 20).items()
    }
    specs = []
    for change, pieces in wanted:
        files: dict[str, list[Piece]] = {}
        for piece in pieces:
            files.setdefault(piece.path, []).append(piece)
        rows = [_row(some, texts) for some in files.values()]
        author = f"{change.author} {change.authored}"
        committer = f"{OURS} {change.committed}"
        specs.append(Spec(parent=base, rows=rows, author=author, committer=committer, message=change.title))
    commits = write(local, repo, specs)
    trees = trees_of(local, repo, [base, *commits])
    pairs = [(str(trees[0]), str(tree)) for tree in trees[1:]]
    every, files_all = rows_of(local, repo, pairs), files_of(local, repo, pairs)
    return [
        change.replace(
            key=key_of(rows), commit=commit, parent=base, paths=sorted(row.path for row in rows), size=size_of(files),
            findings=[row for row in change.findings if not row["path"] or row["path"] in {one.path for one in rows}],
        )
        for (change, _), commit, rows, files in zip(wanted, commits, every, files_all, strict=True)
    ]  # fmt: skip


def _row(some: Sequence[Piece], texts: dict[str, str]) -> Row:
    first = some[0]
    hunks = [piece.hunk for piece in some if piece.hunk is not None]
    if not hunks:
        return first.row
    data = applied(texts[first.row.old], hunks).encode("utf-8", "surrogateescape")
    return first.row.replace(data=data)
