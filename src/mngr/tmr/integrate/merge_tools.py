"""A change that does not merge: what git remembers of such a place, or a tool that knows the language, may know how it goes.

Files get names of our own where git or a tool works on them, and no settings but ours are read, so that nothing of them is run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence

from mngr.base.config import Settings
from mngr.base.errors import MngrError, UsageError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.changes import Change, measure_size
from mngr.tmr.commits.hunks import list_file_edits
from mngr.tmr.commits.trees import (
    GIT_SAFE_ARGS,
    MNGR_AUTHOR,
    CommitSpec,
    PathChange,
    diff_trees,
    list_trees,
    make_tree_row,
    read_blobs,
    write_commits,
)
from mngr.tmr.result_cache import make_cache_dir

MERGIRAF = "mergiraf merge {base} {ours} {theirs} -p {path} -o {out}"
_GIT_WITHOUT_CONFIG = (
    "env",
    "GIT_CONFIG_GLOBAL=/dev/null",
    "GIT_CONFIG_NOSYSTEM=1",
    "GIT_ATTR_NOSYSTEM=1",
    "git",
)
_RERERE_ARGS = (*GIT_SAFE_ARGS, "-c", "rerere.enabled=true", "-c", "rerere.autoUpdate=false", "rerere")
_RERERE_CACHE_DIR = "rr-cache"
_MAX_FILE_BYTES = 1 << 20  # bytes of a file
_TOOL_TIMEOUT = 60.0  # seconds for a tool and one file
_FILE_MODES = ("100644", "100755")
_RERERE_IMAGE = re.compile(r"(?:pre|post)image(?:\.\d+)?")
_PLACEHOLDER = re.compile(r"\{(base|ours|theirs|out|path)\}")
_MARKER = re.compile(rb"^(?:<{7}(?: .*)?|\|{7}(?: .*)?|={7}|>{7}(?: .*)?)\r?$", re.MULTILINE)


class _ConflictedFile(Struct):
    """A file that two sides changed at one place."""

    path: str
    stages: dict[int, tuple[str, str]]  # 1 base, 2 ours, 3 theirs: mode and object
    mode: str
    texts: dict[int, bytes]
    marked: bytes


class _MergeConflict(Struct):
    """How a change and a commit meet: git's tree, and where it has markers."""

    tree: str
    paths: list[str]
    files: list[_ConflictedFile] | None  # None: it is about more than lines of files


def find_merge_tool(settings: Settings) -> str | None:
    """The user's merge tool as a command with places in braces; UsageError when it is none."""
    given = settings.get("tmr.merge_tool")
    if given is None:
        return MERGIRAF if shutil.which("mergiraf") else None
    try:
        words = shlex.split(str(given))
    except ValueError as error:
        raise UsageError(f"tmr.merge_tool: {error}", f"for example: {MERGIRAF}") from None
    if not words:
        return None
    if shutil.which(words[0]) is None or not {"base", "ours", "theirs", "out"} <= set(_PLACEHOLDER.findall(str(given))):
        raise UsageError(
            f"tmr.merge_tool: {given!r} is no command with {{base}} {{ours}} {{theirs}} {{out}}",
            f"for example: {MERGIRAF}",
        )
    return str(given)


def find_known_resolution(
    local: Host, run: RunDir, head: str, change: Change, tool: str | None
) -> tuple[str, str] | None:
    """The tree of a commit and a change that did not merge, and who knew it: `rerere` or `tool`; None when neither.

    It is `git` where there is nothing to know, because what was in its way is not there.
    """
    clash = _merge_with_markers(local, run.repo, head, change)
    if not clash.paths:
        return clash.tree, "git"
    if not clash.files:
        return None
    known = _replay_resolutions(local, run, clash.files)
    rest = [spot for spot in clash.files if spot.path not in known]
    for spot in rest:
        text = _run_merge_tool(local, tool, spot) if tool else None
        if text is None:
            return None
        known[spot.path] = text
    rows = [
        PathChange(
            path=spot.path,
            old_mode=spot.mode,
            new_mode=spot.mode,
            old="",
            new="",
            status="M",
            content=known[spot.path],
        )
        for spot in clash.files
    ]
    commit = write_commits(local, run.repo, [CommitSpec(parent=head, rows=[make_tree_row(clash.tree), *rows])])
    return str(list_trees(local, run.repo, commit)[0]), "tool" if rest else "rerere"


def record_resolution(local: Host, run: RunDir, head: str, change: Change, tree: str) -> None:
    """Remember how a change was merged with a commit, for the next time that the same lines meet."""
    clash = _merge_with_markers(local, run.repo, head, change)
    rows = {row.path: row for row in diff_trees(local, run.repo, [(clash.tree, tree)])[0]}
    texts = read_blobs(local, run.repo, {row.new for row in rows.values()}, _MAX_FILE_BYTES)
    done: dict[str, bytes] = {}
    for spot in clash.files or ():
        row = rows.get(spot.path)
        if row is None or row.new_mode not in _FILE_MODES or row.new not in texts:
            continue
        if not has_markers(texts[row.new], spot.texts.values()):
            done[spot.path] = texts[row.new]
    if done:
        _teach_rerere(local, run, [spot for spot in clash.files or () if spot.path in done], done)


def commit_with_markers(local: Host, repo: str, head: str, change: Change) -> tuple[str, list[str]]:
    """A commit on `head` with the change in it, as far as git can put it there, and the paths where it cannot."""
    clash = _merge_with_markers(local, repo, head, change)
    spec = CommitSpec(
        parent=head,
        rows=[make_tree_row(clash.tree)],
        committer=f"{MNGR_AUTHOR} {change.committed}",
        message=f"{change.title}\n\nNot merged yet: {', '.join(clash.paths)}\n",
    )
    return write_commits(local, repo, [spec])[0], clash.paths


def rebuild_change(local: Host, repo: str, change: Change, head: str, tree: str, others: Sequence[Change]) -> Change:
    """The change anew, as what it does to `head`; it does not go without those that it was merged with."""
    spec = CommitSpec(
        parent=head,
        rows=[make_tree_row(tree)],
        author=f"{change.author} {change.authored}",
        committer=f"{MNGR_AUTHOR} {change.committed}",
        message=change.title,
    )
    commit = write_commits(local, repo, [spec])[0]
    pairs = [(str(list_trees(local, repo, [head])[0]), tree)]
    paths = sorted(row.path for row in diff_trees(local, repo, pairs)[0])
    return change.replace(
        commit=commit, parent=head, paths=paths, size=measure_size(list_file_edits(local, repo, pairs)[0]),
        needs=sorted({*change.needs, *(other.id for other in others)}),
    )  # fmt: skip


def has_markers(text: bytes, sides: Iterable[bytes]) -> bool:
    """Whether a text has lines that git puts where two sides meet, and neither side had them."""
    found = set(_MARKER.findall(text))
    return bool(found) and not found <= {line for side in sides for line in _MARKER.findall(side)}


# How they meet


def _merge_with_markers(local: Host, repo: str, head: str, change: Change) -> _MergeConflict:
    above = str(list_trees(local, repo, [head])[0])
    stand = write_commits(local, repo, [CommitSpec(parent=change.parent, rows=[make_tree_row(above)])])[0]
    words = ("merge-tree", "--write-tree", "-z", "--no-messages", stand, change.commit)
    done = git.run(local, repo, *GIT_SAFE_ARGS, *words, by=_GIT_WITHOUT_CONFIG)
    if done.code not in (0, 1):
        raise MngrError(f"git merge-tree failed in {repo}: {done.error_line}", git.suggest_hint(done.error_line))
    tree, *rows = done.out.decode("utf-8", "surrogateescape").split("\0")
    stages: dict[str, dict[int, tuple[str, str]]] = {}
    for row in filter(None, rows):
        facts, _, path = row.partition("\t")
        mode, name, stage = facts.split(" ")
        stages.setdefault(path, {})[int(stage)] = mode, name
    return _MergeConflict(
        tree=tree, paths=sorted(stages), files=_find_conflicted_files(local, repo, above, tree, stages)
    )


def _find_conflicted_files(
    local: Host, repo: str, above: str, tree: str, stages: Mapping[str, dict[int, tuple[str, str]]]
) -> list[_ConflictedFile] | None:
    """The files with markers; None when there is one that git did not mark."""
    rows = {row.path: row for row in diff_trees(local, repo, [(above, tree)])[0]}
    names = {name for some in stages.values() for _, name in some.values()}
    names |= {rows[path].new for path in stages if path in rows}
    texts = read_blobs(local, repo, names, _MAX_FILE_BYTES)
    found: list[_ConflictedFile] = []
    for path, some in sorted(stages.items()):
        row = rows.get(path)
        sides = {stage: texts[name] for stage, (_, name) in some.items() if name in texts}
        is_text = {2, 3} <= sides.keys() == some.keys() and all(mode in _FILE_MODES for mode, _ in some.values())
        if not is_text or row is None or row.new_mode not in _FILE_MODES or row.new not in texts:
            return None
        if some[2][0] != some[3][0] or not has_markers(texts[row.new], sides.values()):
            return None
        found.append(_ConflictedFile(path=path, stages=some, mode=row.new_mode, texts=sides, marked=texts[row.new]))
    return found


# What git remembers


def _replay_resolutions(local: Host, run: RunDir, spots: Sequence[_ConflictedFile]) -> dict[str, bytes]:
    """The files that went the same way before."""
    with tempfile.TemporaryDirectory(prefix="mngr-merge-") as place:
        cache = _prepare_rerere(local, run.repo, place, spots)
        taken = [_copy_entries(source, cache, os.listdir(cache)) for source in _list_rerere_caches(local, run)]
        if not any(taken):
            return {}
        os.unlink(os.path.join(place, ".git", "MERGE_RR"))
        git.run_checked(local, place, *_RERERE_ARGS, by=_GIT_WITHOUT_CONFIG)
        found = {spot.path: _read_file(os.path.join(place, str(at))) for at, spot in enumerate(spots)}
    sides = {spot.path: spot.texts.values() for spot in spots}
    return {path: text for path, text in found.items() if text is not None and not has_markers(text, sides[path])}


def _teach_rerere(local: Host, run: RunDir, spots: Sequence[_ConflictedFile], done: Mapping[str, bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="mngr-merge-") as place:
        cache = _prepare_rerere(local, run.repo, place, spots)
        for at, spot in enumerate(spots):
            _write_file(os.path.join(place, str(at)), done[spot.path])
        git.run_checked(local, place, *_RERERE_ARGS, by=_GIT_WITHOUT_CONFIG)
        _copy_entries(cache, make_cache_dir(run.root, _RERERE_CACHE_DIR), os.listdir(cache))


def _prepare_rerere(local: Host, repo: str, place: str, spots: Sequence[_ConflictedFile]) -> str:
    """A work tree of ours in which these files do not merge, and git has looked at them; where it keeps what it saw."""
    form = git.run_checked(local, repo, "rev-parse", "--show-object-format", by=_GIT_WITHOUT_CONFIG)
    words = ("init", "--quiet", "--template=", f"--object-format={form}")
    git.run_checked(local, place, *GIT_SAFE_ARGS, *words, by=_GIT_WITHOUT_CONFIG)
    inside = os.path.join(place, ".git")
    os.makedirs(os.path.join(inside, "objects", "info"), exist_ok=True)
    objects = os.path.join(os.path.abspath(repo), "objects")
    _write_file(os.path.join(inside, "objects", "info", "alternates"), os.fsencode(objects) + b"\n")
    rows = ""
    for at, spot in enumerate(spots):
        _write_file(os.path.join(place, str(at)), spot.marked)
        rows += "".join(f"{mode} {name} {stage}\t{at}\n" for stage, (mode, name) in spot.stages.items())
    git.run_checked(
        local,
        place,
        *GIT_SAFE_ARGS,
        "update-index",
        "--index-info",
        stdin=rows.encode(),
        by=_GIT_WITHOUT_CONFIG,
    )
    git.run_checked(local, place, *_RERERE_ARGS, by=_GIT_WITHOUT_CONFIG)
    cache = os.path.join(inside, _RERERE_CACHE_DIR)
    os.makedirs(cache, exist_ok=True)
    return cache


def _list_rerere_caches(local: Host, run: RunDir) -> list[str]:
    """Where such things are kept: ours, and the user's own, which comes last and so counts."""
    found = [os.path.join(run.root, ".mngr", "cache", _RERERE_CACHE_DIR)]
    repo = git.find_repo(local, run.root)
    return [*found, os.path.join(repo.common_dir, _RERERE_CACHE_DIR)] if repo else found


def _copy_entries(source: str, target: str, names: Iterable[str]) -> bool:
    """Copy what is known under these names; whether there was something."""
    is_any = False
    for name in names:
        try:
            images = [one for one in os.listdir(os.path.join(source, name)) if _RERERE_IMAGE.fullmatch(one)]
        except OSError:
            continue
        texts = {one: _read_file(os.path.join(source, name, one)) for one in images}
        if "postimage" not in texts or None in texts.values():
            continue
        fresh = tempfile.mkdtemp(prefix="new-", dir=target)
        for one, text in texts.items():
            _write_file(os.path.join(fresh, one), text or b"")
        shutil.rmtree(os.path.join(target, name), ignore_errors=True)
        os.rename(fresh, os.path.join(target, name))
        is_any = True
    return is_any


# What a tool says


def _run_merge_tool(local: Host, tool: str, spot: _ConflictedFile) -> bytes | None:
    """What the user's tool makes of a file; None when it does not know either."""
    ending = os.path.splitext(spot.path)[1]
    ending = ending if re.fullmatch(r"\.\w{1,12}", ending, re.ASCII) else ""
    with tempfile.TemporaryDirectory(prefix="mngr-merge-") as place:
        paths = {name: os.path.join(place, name + ending) for name in ("base", "ours", "theirs", "out")}
        for stage, name in enumerate(("base", "ours", "theirs"), 1):
            _write_file(paths[name], spot.texts.get(stage, b""))
        paths["path"] = f"./{spot.path}" if spot.path.startswith("-") else spot.path
        argv = [_PLACEHOLDER.sub(lambda found: paths[found[1]], word) for word in shlex.split(tool)]
        try:
            done = local.run(["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", place, *argv], timeout=_TOOL_TIMEOUT)
        except MngrError:
            return None
        text = _read_file(paths["out"]) if done.code == 0 else None
    return None if text is None or has_markers(text, spot.texts.values()) else text


def _read_file(path: str) -> bytes | None:
    """A file that is one, and not too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        text = file.read(_MAX_FILE_BYTES + 1)
    return text if len(text) <= _MAX_FILE_BYTES else None


def _write_file(path: str, text: bytes) -> None:
    with open(path, "wb") as file:
        file.write(text)
