"""Resolves merge conflicts with git's recorded resolutions (rerere) or with a merge tool that knows the language.

mngr chooses the names of the files on which git or a tool works and ignores the user's git settings. So nothing from
the changes is executed.
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
from mngr.base.paths import open_plain_file
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.collect_changes import Change, measure_size
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
from mngr.tmr.result_cache import get_cache_dir

MERGIRAF = "mergiraf merge {base} {ours} {theirs} -p {path} -o {out}"
_RERERE_ARGS = (*GIT_SAFE_ARGS, "-c", "rerere.enabled=true", "-c", "rerere.autoUpdate=false", "rerere")
_RERERE_CACHE_DIR = "rr-cache"
_MAX_FILE_BYTES = 1 << 20  # larger files are not merged
_TOOL_TIMEOUT = 60.0  # seconds that a tool has for one file
_FILE_MODES = ("100644", "100755")
_RERERE_IMAGE = re.compile(r"(?:pre|post)image(?:\.\d+)?")
_PLACEHOLDER = re.compile(r"\{(base|ours|theirs|out|path)\}")
_MARKER = re.compile(rb"^(?:<{7}(?: .*)?|\|{7}(?: .*)?|={7}|>{7}(?: .*)?)\r?$", re.MULTILINE)


class _ConflictedFile(Struct):
    """A file in which both sides changed the same place."""

    path: str
    stages: dict[int, tuple[str, str]]  # 1 base, 2 ours, 3 theirs: mode and object id
    mode: str
    texts: dict[int, bytes]
    marked: bytes


class _MergeConflict(Struct):
    """The merge of a change and a commit: git's tree, and the paths with conflicts."""

    tree: str
    paths: list[str]
    files: list[_ConflictedFile] | None  # None: the conflict is not only about lines of files


def find_merge_tool(settings: Settings) -> str | None:
    """Return the user's merge tool as a command with placeholders, or None. Raise UsageError if it is invalid."""
    setting = settings.get("tmr.merge_tool")
    if setting is None:
        return MERGIRAF if shutil.which("mergiraf") else None
    try:
        words = shlex.split(str(setting))
    except ValueError as error:
        raise UsageError(f"tmr.merge_tool: {error}", f"for example: {MERGIRAF}") from None
    if not words:
        return None
    if shutil.which(words[0]) is None or not {"base", "ours", "theirs", "out"} <= set(
        _PLACEHOLDER.findall(str(setting))
    ):
        raise UsageError(
            f"tmr.merge_tool: {setting!r} does not contain {{base}}, {{ours}}, {{theirs}} and {{out}}",
            f"for example: {MERGIRAF}",
        )
    return str(setting)


def find_known_resolution(
    local: Host, run: RunDir, head: str, change: Change, tool: str | None
) -> tuple[str, str] | None:
    """Return the merged tree and its source, `rerere` or `tool`, or None when neither can merge.

    The source is `git` when there is no conflict, because the other change is gone.
    """
    conflict = _merge_with_markers(local, run.repo, head, change)
    if not conflict.paths:
        return conflict.tree, "git"
    if not conflict.files:
        return None
    texts = _replay_resolutions(local, run, conflict.files)
    unknown = [file for file in conflict.files if file.path not in texts]
    for file in unknown:
        text = _run_merge_tool(local, tool, file) if tool else None
        if text is None:
            return None
        texts[file.path] = text
    rows = [
        PathChange(
            path=file.path,
            old_mode=file.mode,
            new_mode=file.mode,
            old="",
            new="",
            status="M",
            content=texts[file.path],
        )
        for file in conflict.files
    ]
    commit = write_commits(local, run.repo, [CommitSpec(parent=head, rows=[make_tree_row(conflict.tree), *rows])])
    return str(list_trees(local, run.repo, commit)[0]), "tool" if unknown else "rerere"


def record_resolution(local: Host, run: RunDir, head: str, change: Change, tree: str) -> None:
    """Record how a change was merged, for the next conflict of the same lines."""
    conflict = _merge_with_markers(local, run.repo, head, change)
    rows = {row.path: row for row in diff_trees(local, run.repo, [(conflict.tree, tree)])[0]}
    texts = read_blobs(local, run.repo, {row.new for row in rows.values()}, _MAX_FILE_BYTES)
    resolved: dict[str, bytes] = {}
    for file in conflict.files or ():
        row = rows.get(file.path)
        if row is None or row.new_mode not in _FILE_MODES or row.new not in texts:
            continue
        if not has_new_markers(texts[row.new], file.texts.values()):
            resolved[file.path] = texts[row.new]
    if resolved:
        _teach_rerere(local, run, [file for file in conflict.files or () if file.path in resolved], resolved)


def commit_with_markers(local: Host, repo: str, head: str, change: Change) -> tuple[str, list[str]]:
    """Return a commit on `head` with the change and conflict markers, and the paths with conflicts."""
    conflict = _merge_with_markers(local, repo, head, change)
    spec = CommitSpec(
        parent=head,
        rows=[make_tree_row(conflict.tree)],
        committer=f"{MNGR_AUTHOR} {change.committed}",
        message=f"{change.title}\n\nNot merged yet: {', '.join(conflict.paths)}\n",
    )
    return write_commits(local, repo, [spec])[0], conflict.paths


def rebuild_change(local: Host, repo: str, change: Change, head: str, tree: str, others: Sequence[Change]) -> Change:
    """Return the change as its difference to `head`. It now needs the changes that it was merged with."""
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
        commit=commit,
        parent=head,
        paths=paths,
        size=measure_size(list_file_edits(local, repo, pairs)[0]),
        needs=sorted({*change.needs, *(other.id for other in others)}),
    )


def has_new_markers(text: bytes, sides: Iterable[bytes]) -> bool:
    """True when a text has conflict markers that neither side had."""
    markers = set(_MARKER.findall(text))
    return bool(markers) and not markers <= {line for side in sides for line in _MARKER.findall(side)}


# Merging with markers


def _merge_with_markers(local: Host, repo: str, head: str, change: Change) -> _MergeConflict:
    head_tree = str(list_trees(local, repo, [head])[0])
    merge_base_commit = write_commits(local, repo, [CommitSpec(parent=change.parent, rows=[make_tree_row(head_tree)])])[
        0
    ]
    args = ("merge-tree", "--write-tree", "-z", "--no-messages", merge_base_commit, change.commit)
    result = git.run(local, repo, *GIT_SAFE_ARGS, *args, git_command=git.ISOLATED_GIT)
    if result.code not in (0, 1):
        raise MngrError(f"git merge-tree failed in {repo}: {result.error_line}", git.suggest_hint(result.error_line))
    tree, *rows = result.out.decode("utf-8", "surrogateescape").split("\0")
    stages: dict[str, dict[int, tuple[str, str]]] = {}
    for row in filter(None, rows):
        fields, _, path = row.partition("\t")
        mode, object_id, stage = fields.split(" ")
        stages.setdefault(path, {})[int(stage)] = mode, object_id
    return _MergeConflict(
        tree=tree, paths=sorted(stages), files=_find_conflicted_files(local, repo, head_tree, tree, stages)
    )


def _find_conflicted_files(
    local: Host, repo: str, head_tree: str, tree: str, stages: Mapping[str, dict[int, tuple[str, str]]]
) -> list[_ConflictedFile] | None:
    """Return the files with markers, or None when git could not mark one of them."""
    rows = {row.path: row for row in diff_trees(local, repo, [(head_tree, tree)])[0]}
    object_ids = {object_id for file_stages in stages.values() for _, object_id in file_stages.values()}
    object_ids |= {rows[path].new for path in stages if path in rows}
    texts = read_blobs(local, repo, object_ids, _MAX_FILE_BYTES)
    files: list[_ConflictedFile] = []
    for path, file_stages in sorted(stages.items()):
        row = rows.get(path)
        sides = {stage: texts[object_id] for stage, (_, object_id) in file_stages.items() if object_id in texts}
        is_text = {2, 3} <= sides.keys() == file_stages.keys() and all(
            mode in _FILE_MODES for mode, _ in file_stages.values()
        )
        if not is_text or row is None or row.new_mode not in _FILE_MODES or row.new not in texts:
            return None
        if file_stages[2][0] != file_stages[3][0] or not has_new_markers(texts[row.new], sides.values()):
            return None
        files.append(
            _ConflictedFile(path=path, stages=file_stages, mode=row.new_mode, texts=sides, marked=texts[row.new])
        )
    return files


# Recorded resolutions


def _replay_resolutions(local: Host, run: RunDir, files: Sequence[_ConflictedFile]) -> dict[str, bytes]:
    """Return the files whose conflicts have a recorded resolution."""
    with tempfile.TemporaryDirectory(prefix="mngr-merge-") as work_dir:
        cache = _prepare_rerere(local, run.repo, work_dir, files)
        copied = [_copy_entries(source, cache, os.listdir(cache)) for source in _list_rerere_caches(local, run)]
        if not any(copied):
            return {}
        os.unlink(os.path.join(work_dir, ".git", "MERGE_RR"))
        git.run_checked(local, work_dir, *_RERERE_ARGS, git_command=git.ISOLATED_GIT)
        texts = {file.path: _read_file(os.path.join(work_dir, str(index))) for index, file in enumerate(files)}
    sides = {file.path: file.texts.values() for file in files}
    return {path: text for path, text in texts.items() if text is not None and not has_new_markers(text, sides[path])}


def _teach_rerere(local: Host, run: RunDir, files: Sequence[_ConflictedFile], resolved: Mapping[str, bytes]) -> None:
    """Record the resolved texts for later integrations."""
    with tempfile.TemporaryDirectory(prefix="mngr-merge-") as work_dir:
        cache = _prepare_rerere(local, run.repo, work_dir, files)
        for index, file in enumerate(files):
            _write_file(os.path.join(work_dir, str(index)), resolved[file.path])
        git.run_checked(local, work_dir, *_RERERE_ARGS, git_command=git.ISOLATED_GIT)
        target = os.path.join(get_cache_dir(local.home, run.root), _RERERE_CACHE_DIR)
        os.makedirs(target, exist_ok=True)
        _copy_entries(cache, target, os.listdir(cache))


def _prepare_rerere(local: Host, repo: str, work_dir: str, files: Sequence[_ConflictedFile]) -> str:
    """Create a work tree in which these files conflict and let git record that. Return its rerere cache."""
    object_format = git.run_checked(local, repo, "rev-parse", "--show-object-format", git_command=git.ISOLATED_GIT)
    args = ("init", "--quiet", "--template=", f"--object-format={object_format}")
    git.run_checked(local, work_dir, *GIT_SAFE_ARGS, *args, git_command=git.ISOLATED_GIT)
    git_dir = os.path.join(work_dir, ".git")
    os.makedirs(os.path.join(git_dir, "objects", "info"), exist_ok=True)
    objects = os.path.join(os.path.abspath(repo), "objects")
    _write_file(os.path.join(git_dir, "objects", "info", "alternates"), os.fsencode(objects) + b"\n")
    rows = ""
    for index, file in enumerate(files):
        _write_file(os.path.join(work_dir, str(index)), file.marked)
        rows += "".join(f"{mode} {object_id} {stage}\t{index}\n" for stage, (mode, object_id) in file.stages.items())
    git.run_checked(
        local,
        work_dir,
        *GIT_SAFE_ARGS,
        "update-index",
        "--index-info",
        stdin=rows.encode(),
        git_command=git.ISOLATED_GIT,
    )
    git.run_checked(local, work_dir, *_RERERE_ARGS, git_command=git.ISOLATED_GIT)
    cache = os.path.join(git_dir, _RERERE_CACHE_DIR)
    os.makedirs(cache, exist_ok=True)
    return cache


def _list_rerere_caches(local: Host, run: RunDir) -> list[str]:
    """Return the rerere caches: that of earlier integrations, then the user's, which takes precedence."""
    caches = [os.path.join(get_cache_dir(local.home, run.root), _RERERE_CACHE_DIR)]
    repo = git.find_repo(local, run.root, git.SAFE_GIT)
    return [*caches, os.path.join(repo.common_dir, _RERERE_CACHE_DIR)] if repo else caches


def _copy_entries(source: str, target: str, names: Iterable[str]) -> bool:
    """Copy the recorded resolutions with these names. Return True if there was one."""
    has_copied = False
    for name in names:
        try:
            images = [image for image in os.listdir(os.path.join(source, name)) if _RERERE_IMAGE.fullmatch(image)]
        except OSError:
            continue
        texts = {image: _read_file(os.path.join(source, name, image)) for image in images}
        if "postimage" not in texts or None in texts.values():
            continue
        new_dir = tempfile.mkdtemp(prefix="new-", dir=target)
        for image, text in texts.items():
            _write_file(os.path.join(new_dir, image), text or b"")
        shutil.rmtree(os.path.join(target, name), ignore_errors=True)
        os.rename(new_dir, os.path.join(target, name))
        has_copied = True
    return has_copied


# Merge tool


def _run_merge_tool(local: Host, tool: str, file: _ConflictedFile) -> bytes | None:
    """Return a file as merged by the user's tool, or None when the tool fails."""
    suffix = os.path.splitext(file.path)[1]
    suffix = suffix if re.fullmatch(r"\.\w{1,12}", suffix, re.ASCII) else ""
    with tempfile.TemporaryDirectory(prefix="mngr-merge-") as work_dir:
        paths = {name: os.path.join(work_dir, name + suffix) for name in ("base", "ours", "theirs", "out")}
        for stage, name in enumerate(("base", "ours", "theirs"), 1):
            _write_file(paths[name], file.texts.get(stage, b""))
        paths["path"] = f"./{file.path}" if file.path.startswith("-") else file.path
        argv = [_PLACEHOLDER.sub(lambda match: paths[match[1]], word) for word in shlex.split(tool)]
        try:
            result = local.run(
                ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", work_dir, *argv], timeout=_TOOL_TIMEOUT
            )
        except MngrError:
            return None
        text = _read_file(paths["out"]) if result.code == 0 else None
    return None if text is None or has_new_markers(text, file.texts.values()) else text


def _read_file(path: str) -> bytes | None:
    """Return the content of a file, or None for a link, a missing file or one that is too large."""
    try:
        with open_plain_file(path) as file:
            text = file.read(_MAX_FILE_BYTES + 1)
    except OSError:
        return None
    return text if len(text) <= _MAX_FILE_BYTES else None


def _write_file(path: str, text: bytes) -> None:
    with open(path, "wb") as file:
        file.write(text)
