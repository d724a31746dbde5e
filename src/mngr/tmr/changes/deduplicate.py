"""Merges equal edits of several tasks into one change that names all its authors.

It compares whole changes first, and then the single edits in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.collect_changes import Change, ChangeAuthor, compute_key, measure_size, shorten_ids
from mngr.tmr.changes.same_code import normalize_code
from mngr.tmr.commits.hunks import FileHunks, Hunk, apply_hunks, list_file_edits
from mngr.tmr.commits.trees import (
    MNGR_AUTHOR,
    CommitSpec,
    PathChange,
    diff_trees,
    list_trees,
    read_blobs,
    write_commits,
)
from mngr.tmr.finding import Finding

_MAX_TEXT_BYTES = 1 << 20
_TRIVIAL_LINE = re.compile(r"\s*(?:(?:import|from)\s.*|[()\[\]{},]*|#.*)\s*")  # too little to be shared alone


class EditPiece(Struct):
    """An edit at one location of a file, or of a whole file that cannot be split."""

    path: str
    key: str  # the same for pieces with the same meaning
    hunk: Hunk | None
    row: PathChange
    is_trivial: bool = False


class ChangePieces(Struct):
    """A change and the pieces that it consists of."""

    change: Change
    key: tuple[str, ...]
    pieces: list[EditPiece]


class ChangePart(Struct):
    """A change, and the numbers of the changes from which it was built."""

    change: Change
    sources: tuple[int, ...]
    is_remainder: bool = False  # another part holds the edits that it shares with others


def deduplicate_changes(local: Host, repo: str, base: str, changes: Sequence[Change]) -> list[Change]:
    """Return the changes with each edit in only one of them, together with all its authors."""
    split_changes = _split_changes(local, repo, base, changes)
    groups: dict[tuple[str, ...], list[ChangePieces]] = {}
    for split_change in split_changes:
        groups.setdefault(split_change.key, []).append(split_change)
    merged = [_choose_wording(group) for group in groups.values()]
    group_numbers = {
        split_change.change.id: number for number, group in enumerate(groups.values()) for split_change in group
    }
    parts = _split_shared(local, repo, base, merged)
    changes = shorten_ids(part.change for part in parts)
    linked = []
    for part, change in zip(parts, changes, strict=True):
        needed_groups = {group_numbers[name] for name in change.needs if name in group_numbers}
        needed_groups.update(part.sources if part.is_remainder else ())
        needs = {
            other.id
            for source, other in zip(parts, changes, strict=True)
            if needed_groups.intersection(source.sources) and source is not part
        }
        linked.append(change.replace(needs=sorted(needs)))
    return sorted(linked, key=lambda change: (change.kind != "test", change.flagged, change.id))


# Compare changes


def _split_changes(local: Host, repo: str, base: str, changes: Sequence[Change]) -> list[ChangePieces]:
    """Return each change with its comparison key and its pieces; a change on another base has no pieces."""
    trees = list_trees(local, repo, [name for change in changes for name in (change.parent, change.commit)])
    pairs = [(str(trees[position]), str(trees[position + 1])) for position in range(0, len(trees), 2)]
    file_edits = list_file_edits(local, repo, pairs)
    blobs = {
        name
        for edits in file_edits
        for file in edits
        if file.row.path.endswith(".py")
        for name, mode in ((file.row.old, file.row.old_mode), (file.row.new, file.row.new_mode))
        if mode.startswith("100")
    }
    texts = {
        name: data.decode("utf-8", "surrogateescape")
        for name, data in read_blobs(local, repo, blobs, _MAX_TEXT_BYTES).items()
    }
    normalized: dict[str, str | None] = {name: normalize_code(text) for name, text in texts.items()}
    split_changes = []
    for change, files in zip(changes, file_edits, strict=True):
        if change.parent != base:
            split_changes.append(ChangePieces(change=change, key=(change.kind, change.parent, change.key), pieces=[]))
            continue
        key = (change.kind, *(f"{file.row.path}\0{_compute_file_key(file, normalized)}" for file in files))
        pieces = [piece for file in files for piece in _split_file(file, texts, normalized)]
        split_changes.append(ChangePieces(change=change, key=key, pieces=pieces))
    return split_changes


def _compute_file_key(file: FileHunks, normalized: dict[str, str | None]) -> str:
    """Return a key that is the same for edits of a file with the same meaning."""
    row = file.row
    new_hash = normalized.get(row.new)
    content = row.new if new_hash is None or new_hash == normalized.get(row.old) else new_hash
    return f"{row.old_mode} {row.new_mode} {content}"


def _split_file(file: FileHunks, texts: dict[str, str], normalized: dict[str, str | None]) -> list[EditPiece]:
    """Return one piece per hunk, or one for the whole file when it has more than line edits."""
    row = file.row
    if not file.hunks or not file.has_only_line_edits:
        return [EditPiece(path=row.path, key=f"{row.path}\0{_compute_file_key(file, normalized)}", hunk=None, row=row)]
    old = texts.get(row.old)
    pieces = []
    for hunk in file.hunks:
        literal = repr((hunk.start, hunk.old, hunk.new))
        meaning = None if old is None else normalize_code(apply_hunks(old, [hunk]))
        key = literal if meaning is None or meaning == normalized.get(row.old) else meaning
        is_trivial = all(_TRIVIAL_LINE.fullmatch(line) for line in (*hunk.old, *hunk.new))
        pieces.append(EditPiece(path=row.path, key=f"{row.path}\0{key}", hunk=hunk, row=row, is_trivial=is_trivial))
    return pieces


# Merge equal changes


def _choose_wording(equal: Sequence[ChangePieces]) -> ChangePieces:
    """Return one of several equal changes: the most frequent wording, or the first by key among equals."""
    counts: dict[str, int] = {}
    for split_change in equal:
        counts[split_change.change.key] = counts.get(split_change.change.key, 0) + 1
    best = min(
        equal,
        key=lambda split_change: (-counts[split_change.change.key], split_change.change.key, split_change.change.tasks),
    )
    return best.replace(change=_merge_authors(best.change, [split_change.change for split_change in equal]))


def _merge_authors(change: Change, equal_changes: Sequence[Change]) -> Change:
    """Return a change with the authors, findings and needs of all equal changes."""
    authors: dict[str, ChangeAuthor] = {}
    findings: dict[str, Finding] = {}
    for other in equal_changes:
        for author in other.made_by:
            variant = author.variant or ("" if other.key == change.key else other.id)
            authors.setdefault(author.task, author.replace(variant=variant))
        findings |= {repr(finding): finding for finding in other.findings}
    return change.replace(
        made_by=[authors[task] for task in sorted(authors)],
        flagged=any(other.flagged for other in equal_changes),
        needs=sorted({name for other in equal_changes for name in other.needs}),
        fixed_tests=sorted({test for other in equal_changes for test in other.fixed_tests}),
        findings=list(findings.values()),
    )


# Split changes that are equal in part


def _split_shared(local: Host, repo: str, base: str, split_changes: Sequence[ChangePieces]) -> list[ChangePart]:
    """Return changes that have no edit in common.

    An edit that several changes share becomes its own change, and the remainders of those changes need it.
    """
    owners: dict[str, list[int]] = {}
    trivial: set[str] = set()
    for number, split_change in enumerate(split_changes):
        for key, is_trivial in sorted({(piece.key, piece.is_trivial) for piece in split_change.pieces}):
            name = f"{split_change.change.kind}\0{key}"
            owners.setdefault(name, []).append(number)
            trivial.update([name] if is_trivial else [])
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, numbers in sorted(owners.items()):
        if len(numbers) > 1 and name not in trivial:
            groups.setdefault(tuple(numbers), []).append(name)
    for sharing_numbers, names in groups.items():  # an import joins every group that may need it
        names += [name for name in sorted(trivial) if set(owners[name]).issuperset(sharing_numbers)]
    parts: list[ChangePart] = []
    to_rebuild: list[tuple[ChangePart, list[EditPiece]]] = []
    for sharing_numbers, names in groups.items():
        change, pieces = _extract_common([split_changes[sharing_number] for sharing_number in sharing_numbers], names)
        to_rebuild.append((ChangePart(change=change, sources=sharing_numbers), pieces))
    for number, split_change in enumerate(split_changes):
        shared = {name for sharing_numbers, names in groups.items() if number in sharing_numbers for name in names}
        remaining = [piece for piece in split_change.pieces if f"{split_change.change.kind}\0{piece.key}" not in shared]
        part = ChangePart(change=split_change.change, sources=(number,))
        if len(remaining) == len(split_change.pieces):
            parts.append(part)
        elif remaining:
            to_rebuild.append((part.replace(is_remainder=True), remaining))
    rebuilt = _rebuild_changes(local, repo, base, [(part.change, pieces) for part, pieces in to_rebuild])
    parts += [part.replace(change=change) for (part, _), change in zip(to_rebuild, rebuilt, strict=True)]
    return _merge_equal_parts(parts)


def _merge_equal_parts(parts: Sequence[ChangePart]) -> list[ChangePart]:
    """Return the parts without duplicates, because the remainders of several changes may be equal."""
    groups: dict[tuple[str, str, str], list[ChangePart]] = {}
    for part in parts:
        groups.setdefault((part.change.kind, part.change.parent, part.change.key), []).append(part)
    return [
        equal[0].replace(
            change=_merge_authors(equal[0].change, [part.change for part in equal]),
            sources=tuple(sorted({number for part in equal for number in part.sources})),
            is_remainder=any(part.is_remainder for part in equal),
        )
        for equal in groups.values()
    ]


def _extract_common(split_changes: Sequence[ChangePieces], keys: Sequence[str]) -> tuple[Change, list[EditPiece]]:
    """Return the change that several changes have in common, in the wording of the first, and its pieces."""
    first = min(split_changes, key=lambda other: other.change.key)
    pieces = [piece for piece in first.pieces if f"{first.change.kind}\0{piece.key}" in keys]
    paths = {piece.path for piece in pieces}
    literal_lines = _list_literal_lines(first, keys)
    variants = {
        author.task: other.change.id
        for other in split_changes
        if _list_literal_lines(other, keys) != literal_lines
        for author in other.change.made_by
    }
    merged = _merge_authors(first.change, [other.change for other in split_changes])
    return merged.replace(
        made_by=[author.replace(variant=variants.get(author.task, "")) for author in merged.made_by],
        findings=[finding for finding in merged.findings if finding.path in paths],
        title=f"{first.change.title} (shared by {len(split_changes)} changes)",
    ), pieces


def _list_literal_lines(split_change: ChangePieces, keys: Sequence[str]) -> list[str]:
    """Return the literal text of a change's pieces with these keys, for comparison."""
    pieces = [piece for piece in split_change.pieces if f"{split_change.change.kind}\0{piece.key}" in keys]
    return sorted(repr((piece.path, piece.hunk or piece.row.new)) for piece in pieces)


def _rebuild_changes(
    local: Host, repo: str, base: str, requests: Sequence[tuple[Change, Iterable[EditPiece]]]
) -> list[Change]:
    """Return the changes rebuilt from only some of their pieces."""
    old_blobs = {piece.row.old for _, pieces in requests for piece in pieces if piece.hunk is not None}
    texts = {
        name: data.decode("utf-8", "surrogateescape")
        for name, data in read_blobs(local, repo, old_blobs, 50 << 20).items()
    }
    specs = []
    for change, pieces in requests:
        files: dict[str, list[EditPiece]] = {}
        for piece in pieces:
            files.setdefault(piece.path, []).append(piece)
        rows = [_make_row(file_pieces, texts) for file_pieces in files.values()]
        author = f"{change.author} {change.authored}"
        committer = f"{MNGR_AUTHOR} {change.committed}"
        specs.append(CommitSpec(parent=base, rows=rows, author=author, committer=committer, message=change.title))
    commits = write_commits(local, repo, specs)
    trees = list_trees(local, repo, [base, *commits])
    pairs = [(str(trees[0]), str(tree)) for tree in trees[1:]]
    path_changes = diff_trees(local, repo, pairs)
    file_edits = list_file_edits(local, repo, pairs)
    rebuilt = []
    for (change, _), commit, path_rows, edits in zip(requests, commits, path_changes, file_edits, strict=True):
        paths = sorted(row.path for row in path_rows)
        rebuilt.append(
            change.replace(
                key=compute_key(path_rows),
                commit=commit,
                parent=base,
                paths=paths,
                size=measure_size(edits),
                findings=[finding for finding in change.findings if finding.path in ("", *paths)],
            )
        )
    return rebuilt


def _make_row(pieces: Sequence[EditPiece], texts: dict[str, str]) -> PathChange:
    """Return the path change that applies some pieces of one file."""
    first = pieces[0]
    hunks = [piece.hunk for piece in pieces if piece.hunk is not None]
    if not hunks:
        return first.row
    data = apply_hunks(texts[first.row.old], hunks).encode("utf-8", "surrogateescape")
    return first.row.replace(content=data)
