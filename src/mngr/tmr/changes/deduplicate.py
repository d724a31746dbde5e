"""The same edit made by several becomes one change that names them all: whole changes first, then single places in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change, ChangeAuthor, compute_key, measure_size, shorten_ids
from mngr.tmr.changes.same_code import normalize_code
from mngr.tmr.commits.hunks import FileEdit, Hunk, apply_hunks, list_file_edits
from mngr.tmr.commits.trees import (
    MNGR_AUTHOR,
    CommitSpec,
    PathChange,
    diff_trees,
    list_trees,
    read_blobs,
    write_commits,
)

_MAX_TEXT_BYTES = 1 << 20
_TRIVIAL_LINE = re.compile(r"\s*(?:(?:import|from)\s.*|[()\[\]{},]*|#.*)\s*")  # alone no edit that several could share


class EditPiece(Struct):
    """An edit at one place of one file, or of a whole file where it cannot be taken apart."""

    path: str
    key: str  # the same for all that say the same
    hunk: Hunk | None
    row: PathChange
    is_trivial: bool = False


class ChangePieces(Struct):
    """A change and the pieces that it is made of."""

    change: Change
    key: tuple[str, ...]
    pieces: list[EditPiece]


class ChangePart(Struct):
    """A change, and of which it has something."""

    change: Change
    sources: tuple[int, ...]
    is_remainder: bool = False  # others have something of the same


def deduplicate_changes(local: Host, repo: str, base: str, changes: Sequence[Change]) -> list[Change]:
    """The changes with each edit in only one of them, and everyone who made it named there."""
    reads = _split_changes(local, repo, base, changes)
    groups: dict[tuple[str, ...], list[ChangePieces]] = {}
    for read in reads:
        groups.setdefault(read.key, []).append(read)
    merged = [_choose_wording(some) for some in groups.values()]
    place = {read.change.id: number for number, some in enumerate(groups.values()) for read in some}
    parts = _split_shared(local, repo, base, merged)
    changes = shorten_ids(part.change for part in parts)
    found = []
    for part, change in zip(parts, changes, strict=True):
        wanted = {place[name] for name in change.needs if name in place}
        wanted.update(part.sources if part.is_remainder else ())
        needs = {
            other.id
            for below, other in zip(parts, changes, strict=True)
            if wanted.intersection(below.sources) and below is not part
        }
        found.append(change.replace(needs=sorted(needs)))
    return sorted(found, key=lambda change: (change.kind != "test", change.flagged, change.id))


# What is the same


def _split_changes(local: Host, repo: str, base: str, changes: Sequence[Change]) -> list[ChangePieces]:
    trees = list_trees(local, repo, [name for change in changes for name in (change.parent, change.commit)])
    pairs = [(str(trees[at]), str(trees[at + 1])) for at in range(0, len(trees), 2)]
    every = list_file_edits(local, repo, pairs)
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
        for name, data in read_blobs(local, repo, wanted, _MAX_TEXT_BYTES).items()
    }
    known: dict[str, str | None] = {name: normalize_code(text) for name, text in texts.items()}
    found = []
    for change, files in zip(changes, every, strict=True):
        if change.parent != base:
            found.append(ChangePieces(change=change, key=(change.kind, change.parent, change.key), pieces=[]))
            continue
        key = (change.kind, *(f"{file.row.path}\0{_compute_file_key(file, known)}" for file in files))
        pieces = [piece for file in files for piece in _split_file(file, texts, known)]
        found.append(ChangePieces(change=change, key=key, pieces=pieces))
    return found


def _compute_file_key(file: FileEdit, known: dict[str, str | None]) -> str:
    row = file.row
    after = known.get(row.new)
    said = row.new if after is None or after == known.get(row.old) else after
    return f"{row.old_mode} {row.new_mode} {said}"


def _split_file(file: FileEdit, texts: dict[str, str], known: dict[str, str | None]) -> list[EditPiece]:
    row = file.row
    if not file.hunks or not file.has_only_line_edits:
        return [EditPiece(path=row.path, key=f"{row.path}\0{_compute_file_key(file, known)}", hunk=None, row=row)]
    old = texts.get(row.old)
    found = []
    for hunk in file.hunks:
        literal = repr((hunk.start, hunk.old, hunk.new))
        said = None if old is None else normalize_code(apply_hunks(old, [hunk]))
        key = literal if said is None or said == known.get(row.old) else said
        is_slight = all(_TRIVIAL_LINE.fullmatch(line) for line in (*hunk.old, *hunk.new))
        found.append(EditPiece(path=row.path, key=f"{row.path}\0{key}", hunk=hunk, row=row, is_trivial=is_slight))
    return found


# One for all


def _choose_wording(some: Sequence[ChangePieces]) -> ChangePieces:
    """One of several that say the same: the wording that most chose, of equals the first by id."""
    counts: dict[str, int] = {}
    for read in some:
        counts[read.change.key] = counts.get(read.change.key, 0) + 1
    best = min(some, key=lambda read: (-counts[read.change.key], read.change.key, read.change.tasks))
    return best.replace(change=_merge_authors(best.change, [read.change for read in some]))


def _merge_authors(one: Change, others: Sequence[Change]) -> Change:
    """A change with everyone who made it, and everything that was found about it."""
    makers: dict[str, ChangeAuthor] = {}
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


def _split_shared(local: Host, repo: str, base: str, reads: Sequence[ChangePieces]) -> list[ChangePart]:
    """Changes in which nothing is twice: what several share is a change of its own, and the rest of theirs needs it."""
    owners: dict[str, list[int]] = {}
    slight: set[str] = set()
    for number, read in enumerate(reads):
        for key, is_slight in sorted({(piece.key, piece.is_trivial) for piece in read.pieces}):
            name = f"{read.change.kind}\0{key}"
            owners.setdefault(name, []).append(number)
            slight.update([name] if is_slight else [])
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, numbers in sorted(owners.items()):
        if len(numbers) > 1 and name not in slight:
            groups.setdefault(tuple(numbers), []).append(name)
    for some, names in groups.items():  # an import goes with everything that may be in need of it
        names += [name for name in sorted(slight) if set(owners[name]).issuperset(some)]
    parts: list[ChangePart] = []
    cut: list[tuple[ChangePart, list[EditPiece]]] = []
    for some, names in groups.items():
        change, pieces = _extract_common([reads[at] for at in some], names)
        cut.append((ChangePart(change=change, sources=some), pieces))
    for number, read in enumerate(reads):
        gone = {name for some, names in groups.items() if number in some for name in names}
        rest = [piece for piece in read.pieces if f"{read.change.kind}\0{piece.key}" not in gone]
        part = ChangePart(change=read.change, sources=(number,))
        if len(rest) == len(read.pieces):
            parts.append(part)
        elif rest:
            cut.append((part.replace(is_remainder=True), rest))
    made = _rebuild_changes(local, repo, base, [(part.change, pieces) for part, pieces in cut])
    parts += [part.replace(change=change) for (part, _), change in zip(cut, made, strict=True)]
    return _merge_equal_parts(parts)


def _merge_equal_parts(parts: Sequence[ChangePart]) -> list[ChangePart]:
    """The parts without one twice: what is left of several may be the same."""
    groups: dict[tuple[str, str, str], list[ChangePart]] = {}
    for part in parts:
        groups.setdefault((part.change.kind, part.change.parent, part.change.key), []).append(part)
    return [
        some[0].replace(
            change=_merge_authors(some[0].change, [part.change for part in some]),
            sources=tuple(sorted({number for part in some for number in part.sources})),
            is_remainder=any(part.is_remainder for part in some),
        )
        for some in groups.values()
    ]


def _extract_common(some: Sequence[ChangePieces], keys: Sequence[str]) -> tuple[Change, list[EditPiece]]:
    """What several have in common, in the words of the first of them."""
    one = min(some, key=lambda read: read.change.key)
    pieces = [piece for piece in one.pieces if f"{one.change.kind}\0{piece.key}" in keys]
    paths = {piece.path for piece in pieces}
    said = _list_literal_lines(one, keys)
    others = {
        maker.task: read.change.id
        for read in some
        if _list_literal_lines(read, keys) != said
        for maker in read.change.made_by
    }
    united = _merge_authors(one.change, [read.change for read in some])
    return united.replace(
        made_by=[maker.replace(variant=others.get(maker.task, "")) for maker in united.made_by],
        findings=[row for row in united.findings if row["path"] in paths],
        title=f"{one.change.title} (what {len(some)} changes share)",
    ), pieces


def _list_literal_lines(read: ChangePieces, keys: Sequence[str]) -> list[str]:
    """What a change says at some places, literally."""
    found = [piece for piece in read.pieces if f"{read.change.kind}\0{piece.key}" in keys]
    return sorted(repr((piece.path, piece.hunk or piece.row.new)) for piece in found)


def _rebuild_changes(
    local: Host, repo: str, base: str, wanted: Sequence[tuple[Change, Iterable[EditPiece]]]
) -> list[Change]:
    """Changes that do only some of what they did."""
    olds = {piece.row.old for _, pieces in wanted for piece in pieces if piece.hunk is not None}
    texts = {
        name: data.decode("utf-8", "surrogateescape") for name, data in read_blobs(local, repo, olds, 50 << 20).items()
    }
    specs = []
    for change, pieces in wanted:
        files: dict[str, list[EditPiece]] = {}
        for piece in pieces:
            files.setdefault(piece.path, []).append(piece)
        rows = [_make_row(some, texts) for some in files.values()]
        author = f"{change.author} {change.authored}"
        committer = f"{MNGR_AUTHOR} {change.committed}"
        specs.append(CommitSpec(parent=base, rows=rows, author=author, committer=committer, message=change.title))
    commits = write_commits(local, repo, specs)
    trees = list_trees(local, repo, [base, *commits])
    pairs = [(str(trees[0]), str(tree)) for tree in trees[1:]]
    every, files_all = diff_trees(local, repo, pairs), list_file_edits(local, repo, pairs)
    return [
        change.replace(
            key=compute_key(rows), commit=commit, parent=base, paths=sorted(row.path for row in rows), size=measure_size(files),
            findings=[row for row in change.findings if not row["path"] or row["path"] in {one.path for one in rows}],
        )
        for (change, _), commit, rows, files in zip(wanted, commits, every, files_all, strict=True)
    ]  # fmt: skip


def _make_row(some: Sequence[EditPiece], texts: dict[str, str]) -> PathChange:
    first = some[0]
    hunks = [piece.hunk for piece in some if piece.hunk is not None]
    if not hunks:
        return first.row
    data = apply_hunks(texts[first.row.old], hunks).encode("utf-8", "surrogateescape")
    return first.row.replace(content=data)
