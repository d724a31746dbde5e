"""Tests that a sandboxed agent cannot run, write or read anything outside when mngr saves or restores it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git
from tests.support.repos import commit_file

SECRET = "a file of the user\n"
# Runs wherever git can be made to run it. It plants links in every directory of mngr that it can write to.
_SCRIPT = """\
#!/bin/sh
touch {work}/ran {agent}/home/ran 2>/dev/null
for part in {home}/trash/* {home}/snapshots/* {home}/snapshots/.[!.]*; do
    for name in work.bundle work.tar git.tar meta.json; do ln -sf {outside}/file "$part/$name"; done
    rm -rf "$part/raw"
    ln -sfn {outside}/dir "$part/raw"
    touch "$part/escaped"
done 2>/dev/null
exit 1
"""


class HostileAgent:
    """A sandboxed agent, whose files the test changes as the agent could, and a place that it must not reach."""

    def __init__(self, mngr: MngrProgram) -> None:
        self.mngr = mngr
        mngr("create", "foo", "--sandbox", "--network", "off", "--", "sleep", "1000")
        self.work, self.dir = mngr.get_work_dir("foo"), mngr.get_agent_dir("foo")
        self.outside = mngr.home.parent / "outside"
        (self.outside / "dir").mkdir(parents=True)
        for name in ("file", "dir/kept"):
            (self.outside / name).write_text(SECRET)

    def set_promisor(self, config: Path) -> None:
        """Let git fetch missing objects with the agent's script."""
        script = self.work / "evil.sh"
        words = {"work": self.work, "agent": self.dir, "home": self.mngr.home, "outside": self.outside}
        script.write_text(_SCRIPT.format(**words))
        script.chmod(0o755)
        values = {
            "remote.evil.url": f"ext::{script}",
            "remote.evil.promisor": "true",
            "protocol.allow": "always",
            "protocol.ext.allow": "always",
        }
        for key, value in values.items():
            run_git(self.work, "config", "--file", str(config), key, value)

    def delete_object(self, name: str) -> None:
        """Delete an object of the agent's repository."""
        oid = run_git(self.work, "rev-parse", name)
        for pack in (self.work / ".git/objects/pack").glob("*.pack"):
            moved = self.mngr.home.parent / pack.name
            pack.rename(moved)
            pack.with_suffix(".idx").unlink()
            with moved.open("rb") as file:
                subprocess.run(["git", "-C", str(self.work), "unpack-objects", "-q"], stdin=file, check=True)
        (self.work / ".git/objects" / oid[:2] / oid[2:]).unlink()

    def check(self) -> None:
        """Assert that the script ran nowhere and that nothing outside has changed."""
        assert not (self.work / "ran").exists()
        assert not list(self.mngr.home.rglob("ran"))
        assert not list(self.mngr.home.rglob("escaped"))
        assert (self.outside / "file").read_text() == SECRET
        assert sorted(os.listdir(self.outside)) == ["dir", "file"]
        assert (self.outside / "dir/kept").read_text() == SECRET
        assert os.listdir(self.outside / "dir") == ["kept"]


@pytest.fixture
def foo(mngr: MngrProgram) -> HostileAgent:
    """A sandboxed agent that is about to turn hostile."""
    return HostileAgent(mngr)


SAVES = {
    "destroy": ("destroy", "--force", "foo"),
    "snapshot": ("snapshot", "create", "foo", "kept"),
    "clone": ("clone", "foo", "bar", "--no-start"),
}


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("config", ["repository", "home"])
@pytest.mark.parametrize("missing", ["HEAD^{tree}", "HEAD:src", "HEAD"])
def test_a_save_fetches_no_missing_object_from_the_agents_remote(
    foo: HostileAgent, save: str, config: str, missing: str
) -> None:
    commit_file(foo.work)
    (foo.work / "README.md").write_text("changed\n")
    foo.delete_object(missing)
    foo.set_promisor(foo.work / ".git/config" if config == "repository" else foo.dir / "home/.gitconfig")
    foo.mngr(*SAVES[save], code=None)
    foo.check()


def test_a_saved_agent_with_a_promisor_is_restored_whole(foo: HostileAgent) -> None:
    commit_file(foo.work)
    (foo.work / "README.md").write_text("changed\n")
    foo.delete_object("HEAD:src")
    foo.set_promisor(foo.dir / "home/.gitconfig")
    foo.mngr("destroy", "--force", "foo")
    foo.mngr("undestroy", "foo")
    assert (foo.work / "README.md").read_text() == "changed\n"
    assert (foo.work / "more.txt").read_text() == "more\n"
    foo.check()


def test_no_directory_of_mngr_is_visible_in_the_sandbox_during_a_save(foo: HostileAgent) -> None:
    text = (foo.dir / "sandbox").read_text()
    assert "_mngr_also" not in text


@pytest.mark.parametrize(
    "name",
    ["index", "logs", "refs", "refs/heads", "logs/HEAD", "packed-refs", "shallow", "info", "ORIG_HEAD", "config"],
)
@pytest.mark.parametrize("target", ["dir/new", "dir", "file"])
@pytest.mark.sampled(3)
def test_a_link_in_the_agents_git_dir_leads_no_save_or_restore_outside(
    foo: HostileAgent, name: str, target: str
) -> None:
    path = foo.work / ".git" / name
    if path.is_dir():
        os.rename(path, foo.mngr.home.parent / "aside")
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(foo.outside / target)
    foo.mngr("clone", "foo", "bar", "--no-start", code=None)
    foo.check()
    foo.mngr("snapshot", "create", "foo", "kept", code=None)
    foo.mngr("snapshot", "restore", "kept", "baz", "--no-start", code=None)
    foo.mngr("destroy", "--force", "foo", code=None)
    foo.mngr("undestroy", "foo", code=None)
    foo.check()


def test_a_link_in_place_of_the_git_dir_or_of_an_object_dir_reveals_nothing(foo: HostileAgent) -> None:
    secret = foo.mngr.repo / "secret.txt"
    commit_file(foo.mngr.repo, secret.name, SECRET)
    objects = foo.work / ".git/objects"
    os.rename(objects, foo.mngr.home.parent / "aside")
    objects.symlink_to(foo.mngr.repo / ".git/objects")
    oid = run_git(foo.mngr.repo, "rev-parse", "HEAD")
    (foo.work / ".git/HEAD").write_text(f"{oid}\n")
    foo.mngr("clone", "foo", "bar", "--no-start", code=None)
    assert not list((foo.mngr.home / "work").glob("bar*/secret.txt"))
    foo.check()


def test_a_link_among_the_config_of_a_submodule_is_not_written_through(foo: HostileAgent) -> None:
    git_dir = foo.work / ".git/modules/sub"
    git_dir.parent.mkdir()
    run_git(foo.work, "init", "-q", "--separate-git-dir", str(git_dir), "sub")
    commit_file(foo.work / "sub")
    (git_dir / "config").unlink()
    (git_dir / "config").symlink_to(foo.outside / "file")
    (foo.work / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
    foo.mngr("clone", "foo", "bar", "--no-start", code=None)
    foo.check()


def test_hooks_that_are_links_are_restored_as_links(foo: HostileAgent) -> None:
    commit_file(foo.work, "hook.sh", "#!/bin/sh\n")
    (foo.work / ".git/hooks").mkdir(exist_ok=True)
    (foo.work / ".git/hooks/pre-commit").symlink_to("../../hook.sh")
    (foo.work / ".git/lfs").symlink_to("../lfs-store")
    foo.mngr("clone", "foo", "bar", "--no-start")
    clone = foo.mngr.get_work_dir("bar")
    assert os.readlink(clone / ".git/hooks/pre-commit") == "../../hook.sh"
    assert os.readlink(clone / ".git/lfs") == "../lfs-store"
    foo.check()


def test_links_of_the_agents_home_are_saved_as_links(foo: HostileAgent) -> None:
    (foo.dir / "home/link").symlink_to(foo.outside / "dir")
    (foo.dir / "outputs/link").symlink_to(foo.outside / "file")
    foo.mngr("clone", "foo", "bar", "--no-start")
    clone = foo.mngr.get_agent_dir("bar")
    assert os.readlink(clone / "home/link") == str(foo.outside / "dir")
    assert os.readlink(clone / "outputs/link") == str(foo.outside / "file")
    foo.check()


@pytest.mark.parametrize(
    "words",
    [("list", "--git"), ("destroy", "--force", "foo"), ("clone", "foo", "bar", "--no-start")],
    ids=lambda w: w[0],
)
def test_a_source_that_the_record_names_runs_nothing(mngr: MngrProgram, words: tuple[str, ...]) -> None:
    mngr("create", "foo", "--transfer", "mirror", "--", "sleep", "1000")
    work, record = mngr.get_work_dir("foo"), mngr.get_agent_dir("foo") / "agent.json"
    commit_file(work)
    outputs, mark = mngr.repo / ".mngr/outputs/foo/repo", mngr.home.parent / "mark"
    outputs.mkdir(parents=True)
    run_git(outputs, "init", "-q")
    for key, value in {
        "remote.evil.url": f"ext::touch {mark}",
        "remote.evil.promisor": "true",
        "extensions.partialClone": "evil",
        "protocol.ext.allow": "always",
        "core.fsmonitor": f"touch {mark}",
        "core.alternateRefsCommand": f"touch {mark}; true",
    }.items():
        run_git(outputs, "config", key, value)
    fields = json.loads(record.read_text())
    record.write_text(json.dumps({**fields, "source": str(outputs)}, separators=(",", ":")))
    mngr(*words, code=None)
    assert not mark.exists()
