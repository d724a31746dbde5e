"""Changes that do not merge: what git remembers, what a tool knows, and what is left for others."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mngr.base.config import Settings, SettingsLayer
from mngr.base.errors import UsageError
from mngr.providers.local import LocalHost
from mngr.tmr.changes.changes import Change
from mngr.tmr.integrate import merge_tools
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


def pair(field: Field, one: Files, other: Files) -> tuple[str, Change]:
    """A head that has one change, and another change, which does not merge with it."""
    field.claim("a", ("[FIX_IMPL] one", one))
    field.claim("b", ("[FIX_IMPL] other", other))
    first, second = sorted(field.collapsed(), key=lambda change: change.tasks)
    done = field.compose([first, second])
    assert [conflict.change for conflict in done.conflicts] == [second.id]
    return done.head, second


def merged(field: Field, head: str, files: Files) -> str:
    """The tree of a head on which somebody merged by hand."""
    return field.git("rev-parse", f"{field.commits(head, ('merged', files))[0]}^{{tree}}")


def test_what_was_merged_once_is_known_the_next_time(field: Field, tmp_path: Path) -> None:
    head, change = pair(field, fix(3, "return 1"), fix(3, "return 2"))
    assert merge_tools.find_known_resolution(field.local, field.run, head, change, None) is None
    tree = merged(field, head, {"src/app.py": app(f3=BOTH)})
    merge_tools.record_resolution(field.local, field.run, head, change, tree)
    assert merge_tools.find_known_resolution(field.local, field.run, head, change, None) == (tree, "rerere")
    assert (tmp_path / ".mngr" / "cache" / ".gitignore").read_text() == "*\n"
    further = field.commits(head, ("more", {"src/app.py": app(f3="return 1", f30="return 30"), "new": "n\n"}))[0]
    again = merge_tools.find_known_resolution(field.local, field.run, further, change, None)
    assert again == (merged(field, further, {"src/app.py": app(f3=BOTH, f30="return 30")}), "rerere")


def test_what_the_user_merged_counts_more_and_is_only_read(field: Field, tmp_path: Path) -> None:
    head, change = pair(field, fix(3, "return 1"), fix(3, "return 2"))
    merge_tools.record_resolution(
        field.local, field.run, head, change, merged(field, head, {"src/app.py": app(f3="return 9")})
    )
    user = [
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
    for words in (
        ["init", "-q"],
        ["fetch", "-q", field.repo, head, change.commit],
        ["checkout", "-q", "-f", head],
    ):
        subprocess.run([*user, *words], check=True)
    assert subprocess.run([*user, "merge", "-q", change.commit], capture_output=True, check=False).returncode
    (tmp_path / "src" / "app.py").write_text(app(f3=BOTH))
    subprocess.run([*user, "commit", "-qam", "merged"], check=True, capture_output=True)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in (tmp_path / ".git").rglob("*"))
    found = merge_tools.find_known_resolution(field.local, field.run, head, change, None)
    assert found == (merged(field, head, {"src/app.py": app(f3=BOTH)}), "rerere")
    assert before == sorted((str(path), path.stat().st_mtime_ns) for path in (tmp_path / ".git").rglob("*"))


def test_a_tool_of_the_users_is_asked_and_its_markers_are_no_answer(field: Field, tmp_path: Path) -> None:
    head, change = pair(field, fix(3, "return 1"), fix(3, "return 2"))
    (tmp_path / "tool.py").write_text(TOOL)
    words = f"{sys.executable} {tmp_path}/tool.py {{base}} {{ours}} {{theirs}} {{out}} {{path}}"
    found = merge_tools.find_known_resolution(field.local, field.run, head, change, words)
    assert found == (merged(field, head, {"src/app.py": app(f3=BOTH)}), "tool")
    for useless in (
        "sh -c 'git merge-file -p {ours} {base} {theirs} >{out}; :'",
        "sh -c 'cp {ours} {out}; exit 1'",
        "ln -s {ours} {out}",
        "true",
        "/there/is/none",
    ):
        assert merge_tools.find_known_resolution(field.local, field.run, head, change, useless) is None, useless


def test_which_tool_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tool(value: str | None) -> str | None:
        data = {} if value is None else {"tmr": {"merge_tool": value}}
        return merge_tools.find_merge_tool(Settings([SettingsLayer(source="user", data=data)]))

    monkeypatch.setenv("PATH", str(tmp_path))
    assert tool(None) is None
    (tmp_path / "mergiraf").touch(mode=stat.S_IRWXU)
    assert tool(None) == merge_tools.MERGIRAF and tool("") is None
    mine = f"{tmp_path}/mergiraf {{base}} {{ours}} {{theirs}} {{out}}"
    assert tool(mine) == mine
    for wrong in (
        "there-is-none {base} {ours} {theirs} {out}",
        "mergiraf {base} {ours} {theirs}",
        "mergiraf '",
    ):
        with pytest.raises(UsageError, match=r"tmr\.merge_tool"):
            tool(wrong)


def test_what_is_not_about_lines_is_left_to_others(field: Field) -> None:
    gone: Files = {"src/other.py": None}
    head, change = pair(field, gone, {"src/other.py": "A = 2\n\n\nB = 2\n\n\nC = 3\n"})
    assert merge_tools.find_known_resolution(field.local, field.run, head, change, "cp {ours} {out}") is None
    assert merge_tools.find_known_resolution(field.local, field.run, field.base, change, None) == (
        field.git("rev-parse", f"{change.commit}^{{tree}}"),
        "git",
    ), "what was in its way is gone"
    merge_tools.record_resolution(
        field.local, field.run, head, change, merged(field, head, {"src/other.py": "A = 2\n"})
    )


def test_nothing_of_what_is_merged_is_run(field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, config = tmp_path / "ran", tmp_path / "config"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o700)
    head, change = pair(field, fix(3, "return 1"), fix(3, "return 2"))
    head = field.commits(head, ("attributes", {".gitattributes": "* merge=bad filter=bad diff=bad\n"}))[0]
    config.write_text(
        f'[core]\n\tfsmonitor = {program}\n\thooksPath = {tmp_path}\n[merge "bad"]\n\tdriver = {program}\n'
        f'[filter "bad"]\n\tsmudge = {program}\n\tclean = {program}\n'
    )
    tree = merged(field, head, {"src/app.py": app(f3=BOTH)})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    local = LocalHost(field.local.home)
    merge_tools.record_resolution(local, field.run, head, change, tree)
    assert merge_tools.find_known_resolution(local, field.run, head, change, None) == (tree, "rerere")
    assert not ran.exists()


def test_a_commit_with_markers_for_others_and_the_change_that_comes_of_it(field: Field) -> None:
    head, change = pair(field, fix(3, "return 1"), {**fix(3, "return 2"), "src/other.py": "A = 9\n"})
    commit, paths = merge_tools.commit_with_markers(field.local, field.repo, head, change)
    assert paths == ["src/app.py"] and field.git("rev-parse", f"{commit}^") == head
    assert merge_tools.commit_with_markers(field.local, field.repo, head, change)[0] == commit, "the same every time"
    text = field.show(commit, "src/app.py").encode()
    sides = [field.show(one, "src/app.py").encode() for one in (head, change.commit)]
    assert merge_tools.has_markers(text, sides) and not merge_tools.has_markers(text, [text, *sides])
    assert field.show(commit, "src/other.py") == "A = 9\n"
    tree = merged(field, head, {"src/app.py": app(f3=BOTH), "src/other.py": "A = 9\n"})
    first = next(one for one in field.collapsed() if one.tasks == ["a"])
    anew = merge_tools.rebuild_change(field.local, field.repo, change, head, tree, [first])
    assert (anew.id, anew.key, anew.title, anew.made_by) == (
        change.id,
        change.key,
        change.title,
        change.made_by,
    )
    assert anew.needs == [first.id] and anew.parent == head and anew.paths == ["src/app.py", "src/other.py"]
    assert anew.size == {"files": 2, "added": 2, "removed": BASE["src/other.py"].count("\n") + 1}
    done = field.compose([first, anew])
    assert done.tree == tree and not done.conflicts
    assert field.compose([anew]).conflicts[0].others == [first.id], "it does not go without the other"
