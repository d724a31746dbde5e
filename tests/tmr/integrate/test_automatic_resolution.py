"""Conflicting changes: git's recorded resolutions, a merge tool, and conflicts that neither can resolve."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mngr.base.config import Settings, SettingsLayer
from mngr.base.errors import UsageError
from mngr.providers.local import LocalHost
from mngr.tmr.changes.collect_changes import Change, ChangeSize
from mngr.tmr.integrate import automatic_resolution
from tests.tmr.field import BASE, Field, Files, app, fix

BOTH = "return 1 + 2"
TOOL = """
import sys
base, ours, theirs, out, path = sys.argv[1:]
texts = [open(name).read() for name in (base, ours, theirs)]
assert [text.count("return 0") for text in texts] == [40, 39, 39] and path == "src/app.py" and base.endswith(".py")
open(out, "w").write(texts[1].replace("return 1", "return 1 + 2"))
"""


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)


def pair(field: Field, first_files: Files, second_files: Files) -> tuple[str, Change]:
    """Return a head with one change, and another change that conflicts with it."""
    field.claim("a", ("[FIX_IMPL] one", first_files))
    field.claim("b", ("[FIX_IMPL] other", second_files))
    first, second = sorted(field.collapsed(), key=lambda change: change.tasks)
    composed = field.compose([first, second])
    assert [conflict.change for conflict in composed.conflicts] == [second.id]
    return composed.head, second


def merge_by_hand(field: Field, head: str, files: Files) -> str:
    """Return the tree of a head on which a person merged by hand."""
    return field.git("rev-parse", f"{field.commits(head, ('merged', files))[0]}^{{tree}}")


def test_a_recorded_resolution_is_used_again(field: Field, tmp_path: Path) -> None:
    head, change = pair(field, fix(3, "return 1"), fix(3, "return 2"))
    assert automatic_resolution.find_known_resolution(field.local, field.run, head, change, None) is None
    tree = merge_by_hand(field, head, {"src/app.py": app(f3=BOTH)})
    automatic_resolution.record_resolution(field.local, field.run, head, change, tree)
    assert automatic_resolution.find_known_resolution(field.local, field.run, head, change, None) == (tree, "rerere")
    later_head = field.commits(head, ("more", {"src/app.py": app(f3="return 1", f30="return 30"), "new": "n\n"}))[0]
    resolution = automatic_resolution.find_known_resolution(field.local, field.run, later_head, change, None)
    assert resolution == (merge_by_hand(field, later_head, {"src/app.py": app(f3=BOTH, f30="return 30")}), "rerere")


def test_the_users_own_resolution_takes_precedence_and_is_only_read(field: Field, tmp_path: Path) -> None:
    head, change = pair(field, fix(3, "return 1"), fix(3, "return 2"))
    automatic_resolution.record_resolution(
        field.local, field.run, head, change, merge_by_hand(field, head, {"src/app.py": app(f3="return 9")})
    )
    git_command = [
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "rerere.enabled=true",
        "-c",
        "user.name=u",
        "-c",
        "user.email=u@x",
    ]
    for args in (
        ["init", "-q"],
        ["fetch", "-q", field.repo, head, change.commit],
        ["checkout", "-q", "-f", head],
    ):
        subprocess.run([*git_command, *args], check=True)
    assert subprocess.run([*git_command, "merge", "-q", change.commit], capture_output=True, check=False).returncode
    (tmp_path / "src" / "app.py").write_text(app(f3=BOTH))
    subprocess.run([*git_command, "commit", "-qam", "merged"], check=True, capture_output=True)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in (tmp_path / ".git").rglob("*"))
    resolution = automatic_resolution.find_known_resolution(field.local, field.run, head, change, None)
    assert resolution == (merge_by_hand(field, head, {"src/app.py": app(f3=BOTH)}), "rerere")
    assert before == sorted((str(path), path.stat().st_mtime_ns) for path in (tmp_path / ".git").rglob("*"))


def test_the_users_merge_tool_is_used_and_its_markers_are_rejected(field: Field, tmp_path: Path) -> None:
    head, change = pair(field, fix(3, "return 1"), fix(3, "return 2"))
    (tmp_path / "tool.py").write_text(TOOL)
    tool = f"{sys.executable} {tmp_path}/tool.py {{base}} {{ours}} {{theirs}} {{out}} {{path}}"
    resolution = automatic_resolution.find_known_resolution(field.local, field.run, head, change, tool)
    assert resolution == (merge_by_hand(field, head, {"src/app.py": app(f3=BOTH)}), "tool")
    for useless in (
        "sh -c 'git merge-file -p {ours} {base} {theirs} >{out}; :'",
        "sh -c 'cp {ours} {out}; exit 1'",
        "ln -s {ours} {out}",
        "true",
        "/there/is/none",
    ):
        assert automatic_resolution.find_known_resolution(field.local, field.run, head, change, useless) is None, (
            useless
        )


def test_the_merge_tool_comes_from_the_setting_or_is_mergiraf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_tool(value: str | None) -> str | None:
        data = {} if value is None else {"tmr": {"merge_tool": value}}
        return automatic_resolution.find_merge_tool(Settings([SettingsLayer(source="user", data=data)]))

    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_tool(None) is None
    (tmp_path / "mergiraf").touch(mode=stat.S_IRWXU)
    assert find_tool(None) == automatic_resolution.MERGIRAF and find_tool("") is None
    own_tool = f"{tmp_path}/mergiraf {{base}} {{ours}} {{theirs}} {{out}}"
    assert find_tool(own_tool) == own_tool
    for wrong in (
        "there-is-none {base} {ours} {theirs} {out}",
        "mergiraf {base} {ours} {theirs}",
        "mergiraf '",
    ):
        with pytest.raises(UsageError, match=r"tmr\.merge_tool"):
            find_tool(wrong)


def test_a_conflict_with_a_deleted_file_has_no_known_resolution(field: Field) -> None:
    deleted: Files = {"src/other.py": None}
    head, change = pair(field, deleted, {"src/other.py": "A = 2\n\n\nB = 2\n\n\nC = 3\n"})
    assert automatic_resolution.find_known_resolution(field.local, field.run, head, change, "cp {ours} {out}") is None
    assert automatic_resolution.find_known_resolution(field.local, field.run, field.base, change, None) == (
        field.git("rev-parse", f"{change.commit}^{{tree}}"),
        "git",
    ), "what was in its way is gone"
    automatic_resolution.record_resolution(
        field.local, field.run, head, change, merge_by_hand(field, head, {"src/other.py": "A = 2\n"})
    )


def test_merging_executes_no_program_of_the_git_configuration(
    field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, config = tmp_path / "ran", tmp_path / "config"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o700)
    head, change = pair(field, fix(3, "return 1"), fix(3, "return 2"))
    head = field.commits(head, ("attributes", {".gitattributes": "* merge=bad filter=bad diff=bad\n"}))[0]
    config.write_text(
        f'[core]\n\tfsmonitor = {program}\n\thooksPath = {tmp_path}\n[merge "bad"]\n\tdriver = {program}\n'
        f'[filter "bad"]\n\tsmudge = {program}\n\tclean = {program}\n'
    )
    tree = merge_by_hand(field, head, {"src/app.py": app(f3=BOTH)})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    local = LocalHost(field.local.home)
    automatic_resolution.record_resolution(local, field.run, head, change, tree)
    assert automatic_resolution.find_known_resolution(local, field.run, head, change, None) == (tree, "rerere")
    assert not marker.exists()


def test_a_commit_with_markers_is_resolved_into_a_rebuilt_change(field: Field) -> None:
    head, change = pair(field, fix(3, "return 1"), {**fix(3, "return 2"), "src/other.py": "A = 9\n"})
    commit, paths = automatic_resolution.commit_with_markers(field.local, field.repo, head, change)
    assert paths == ["src/app.py"] and field.git("rev-parse", f"{commit}^") == head
    assert automatic_resolution.commit_with_markers(field.local, field.repo, head, change)[0] == commit, (
        "the same every time"
    )
    text = field.show(commit, "src/app.py").encode()
    sides = [field.show(item, "src/app.py").encode() for item in (head, change.commit)]
    assert automatic_resolution.has_new_markers(text, sides) and not automatic_resolution.has_new_markers(
        text, [text, *sides]
    )
    assert field.show(commit, "src/other.py") == "A = 9\n"
    tree = merge_by_hand(field, head, {"src/app.py": app(f3=BOTH), "src/other.py": "A = 9\n"})
    first = next(item for item in field.collapsed() if item.tasks == ["a"])
    rebuilt = automatic_resolution.rebuild_change(field.local, field.repo, change, head, tree, [first])
    assert (rebuilt.id, rebuilt.key, rebuilt.title, rebuilt.made_by) == (
        change.id,
        change.key,
        change.title,
        change.made_by,
    )
    assert rebuilt.needs == [first.id] and rebuilt.parent == head and rebuilt.paths == ["src/app.py", "src/other.py"]
    assert rebuilt.size == ChangeSize(files=2, added=2, removed=BASE["src/other.py"].count("\n") + 1)
    composed = field.compose([first, rebuilt])
    assert composed.tree == tree and not composed.conflicts
    assert field.compose([rebuilt]).conflicts[0].others == [first.id], "it does not go without the other"
