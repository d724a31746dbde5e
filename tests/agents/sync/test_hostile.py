"""Tests that hostile repositories, local or on a host, run nothing here and get nothing past the checks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git
from tests.support.repos import commit_file, list_refs
from tests.support.traps import lay, sprung

pytestmark = pytest.mark.hosts

RUN = ("--", "sleep", "1000")
BRANCH = "refs/heads/mngr/foo"


@dataclass(frozen=True)
class Agent:
    """An agent with its own repository, whose files the test can read and write."""

    mngr: MngrProgram
    home: Path

    @property
    def work(self) -> Path:
        """The agent's work dir."""
        return self.home / "work" / "foo"

    @property
    def dir(self) -> Path:
        """The agent's own directory."""
        return self.home / "agents" / os.readlink(self.home / "names" / "foo")

    def refused(self, *words: str) -> str:
        """Assert that `pull` refuses the work and changes nothing, and return its error."""
        before = list_refs(self.mngr.repo), objects(self.mngr.repo)
        result = self.mngr(*words, "pull", "foo", code=1)
        assert "mngr refused the commits of foo: " in result.err and "your repository is unchanged" in result.err
        assert (list_refs(self.mngr.repo), objects(self.mngr.repo)) == before
        return result.err

    def make(self, *entries: tuple[str, str, bytes]) -> None:
        """Commit a tree with these entries (mode, name, contents), even if git would reject them."""
        raw = b""
        for mode, name, data in entries:
            oid = write(self.work, "blob" if not mode.startswith("4") else "tree", data)
            raw += f"{mode} ".encode() + os.fsencode(name) + b"\0" + bytes.fromhex(oid)
        self.take(write(self.work, "tree", raw))

    def take(self, tree: str) -> None:
        """Move the agent's branch to a new commit of this tree."""
        run_git(
            self.work,
            "update-ref",
            BRANCH,
            run_git(self.work, "commit-tree", tree, "-p", BRANCH, "-m", "evil"),
        )

    @contextmanager
    def back(self) -> Iterator[None]:
        """Reset the agent's branch at the end of the block."""
        start = run_git(self.work, "rev-parse", BRANCH)
        yield
        run_git(self.work, "update-ref", BRANCH, start)


def write(work: Path, kind: str, data: bytes) -> str:
    """Write an object without any checks and return its id."""
    argv = ["git", "-C", str(work), "hash-object", "-t", kind, "-w", "--stdin", "--literally"]
    return subprocess.run(argv, input=data, capture_output=True, check=True).stdout.decode().strip()


def objects(repo: Path) -> set[str]:
    """Return all files in the object directory, including leftovers of a quarantine."""
    return {str(path) for path in (repo / ".git/objects").rglob("*")}


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.hosts)])
def agent(request: pytest.FixtureRequest, mngr: MngrProgram, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """An agent on this machine, and one on a host."""
    if request.param == "local":
        mngr("create", "foo", "--transfer", "mirror", *RUN)
        yield Agent(mngr, mngr.home)
        return
    farm = request.getfixturevalue("farm")
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    monkeypatch.setenv("MNGR__PROVIDERS__SSH__CONFIG", str(farm.config))
    mngr("create", "foo@h1", *RUN)
    yield Agent(mngr, farm.home("h1") / ".mngr")


# ---- what a repository is set to run


def test_the_traps_work_with_plain_git(repo: Path, tmp_path: Path) -> None:
    """Without this check the next test could pass for the wrong reason."""
    proof = tmp_path / "proof"
    lay(repo, proof)
    (repo / "README.md").write_text("changed\n")
    (repo / "a.two").write_text("two\n")
    for words in (
        "status",
        "diff",
        "diff --no-ext-diff",
        "add -A",
        "commit -q -m x",
        "stash push",
        "checkout -b x",
        "gc --auto",
        "log",
    ):
        subprocess.run(["git", "-C", str(repo), *words.split()], capture_output=True, check=False)
    expected = {
        "fsmonitor",
        "clean",
        "process",
        "diff-command",
        "pre-commit",
        "reference-transaction",
        "post-index-change",
    }
    assert expected <= set(sprung(proof))


def test_programs_in_a_repositorys_settings_never_run(agent: Agent, tmp_path: Path) -> None:
    mngr, work, proof = agent.mngr, agent.work, tmp_path / "proof"
    (work / "a.two").write_text("two")
    (work / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n*.two filter=two\n")
    commit = commit_file(work, "one.txt")
    lay(work, proof)
    (work / "README.md").write_text("agent\n")
    (work / "new.two").write_text("new\n")
    for name in ("README.md", "src/app.py", "a.two"):
        os.utime(work / name, (1, 1))
    assert mngr.run_json("list", "--git")["agents"][0]["dirty"] is True
    assert "+agent" in mngr("diff", "foo").out
    mngr("diff", "foo", "--committed")
    run_git(mngr.repo, "fetch", "-q", "mngr::foo", "mngr/foo")
    assert sprung(proof) == []
    mngr("pull", "foo")
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == commit
    commit_file(mngr.repo, "README.md", "user\n")
    mngr("push", "foo", "--stash", code=1)
    (work / "README.md").write_text("hello\n")
    mngr("push", "foo", "--stash")
    run_git(mngr.repo, "push", "-q", "mngr::foo", "main:refs/heads/sent")
    mngr("pull", "foo:README.md", "got")
    assert sprung(proof) == []
    assert (work / "new.two").read_text() == "new\n"


def test_git_does_not_run_in_nested_repositories(agent: Agent, tmp_path: Path) -> None:
    mngr, work, proof = agent.mngr, agent.work, tmp_path / "proof"
    names = ("linked", "plain", "loose")
    for name in names:
        run_git(work, "init", "-q", name)
        commit_file(work / name, "x.txt")
    run_git(work, "-c", "advice.addEmbeddedRepo=false", "add", "linked", "plain")
    (work / ".gitmodules").write_text('[submodule "linked"]\n\tpath = linked\n\turl = ./x\n\tignore = none\n')
    run_git(work, "add", ".gitmodules")
    run_git(work, "commit", "-q", "-m", "inside")
    for name in names:
        lay(work / name, proof / name)
        os.utime(work / name / "x.txt", (1, 1))
    (work / "README.md").write_text("agent\n")
    mngr("list", "--git")
    mngr("diff", "foo")
    commit_file(mngr.repo, "mine.txt")
    assert "has a nested repository with changes" in mngr("push", "foo", "--stash", code=1).err
    run_git(work, "checkout", "-q", "README.md")
    os.utime(work / "linked/x.txt", (2, 2))
    mngr("push", "foo", code=None)
    mngr("pull", "foo")
    assert [sprung(proof / name) for name in names] == [[], [], []]


def test_git_settings_cannot_redirect_mngr_to_another_repository(agent: Agent, tmp_path: Path) -> None:
    mngr, work = agent.mngr, agent.work
    precious = tmp_path / "precious"
    run_git(tmp_path, "init", "-q", str(precious))
    commit_file(precious, "mine.txt", "mine\n")
    (precious / "draft.txt").write_text("draft\n")
    commit_file(mngr.repo, "pushed.txt")
    run_git(work, "config", "core.worktree", str(precious))
    (work / "README.md").write_text("agent\n")
    assert mngr("diff", "foo", "--name-only").out == "README.md\n"
    mngr("push", "foo", "--stash")
    assert (work / "pushed.txt").exists() and (work / "README.md").read_text() == "agent\n"
    run_git(work, "config", "--unset", "core.worktree")
    before = list_refs(precious)
    for trap in ("commondir", "file"):
        if trap == "commondir":
            (work / ".git/commondir").write_text(str(precious / ".git"))
        else:
            (work / ".git").rename(work / "aside")
            (work / ".git").write_text(f"gitdir: {precious}/.git\n")
        mngr("diff", "foo", code=1)
        mngr("push", "foo", "--stash", code=1)
        (agent_row,) = mngr.run_json("list", "--git")["agents"]
        assert agent_row["dirty"] is None
    assert sorted(path.name for path in precious.iterdir()) == [".git", "draft.txt", "mine.txt"]
    assert {name for name in list_refs(precious) if name.startswith("refs/heads/")} == set(before)


# ---- refs, records and alternates


def test_pull_fetches_only_the_agents_branch_despite_odd_refs(agent: Agent) -> None:
    work = agent.work
    commit = commit_file(work, "one.txt")
    names = [
        "-x",
        "--upload-pack=x",
        "HEAD",
        "main",
        "a..b",
        "x\x1b[31m",
        "bell\x07",
        "é",
        "@{-1}",
        "x.lock",
        *map(str, range(3000)),
    ]
    rows = "".join(
        f"{commit} refs/heads/{name}\n{commit} refs/mngr/{name}\n{commit} refs/tags/{name}\n" for name in names
    )
    (work / ".git/packed-refs").write_text("# pack-refs with: peeled \n" + rows)
    (work / ".git/refs/heads/main").unlink()
    (work / ".git/refs/heads/mngr/loop").write_text("ref: refs/heads/mngr/loop\n")
    (work / ".git/refs/heads/mngr/passwd").symlink_to("/etc/passwd")
    before = list_refs(agent.mngr.repo)
    assert agent.mngr.run_json("pull", "foo")["results"][0]["commit"] == commit
    assert list_refs(agent.mngr.repo) == {**before, BRANCH: commit}


def test_a_ref_with_dots_as_its_name_changes_no_other_ref(agent: Agent) -> None:
    commit, before = commit_file(agent.work, "one.txt"), list_refs(agent.mngr.repo)
    (agent.work / ".git/packed-refs").write_text(f"# pack-refs with: peeled \n{commit} refs/heads/..\n")
    was_refused = "mngr refused the commits of foo" in agent.mngr("pull", "foo", code=None).err
    assert list_refs(agent.mngr.repo) == (before if was_refused else {**before, BRANCH: commit})


def test_a_forged_record_cannot_pass_options_to_git(agent: Agent, tmp_path: Path) -> None:
    path, before = agent.dir / "agent.json", list_refs(agent.mngr.repo)
    record = json.loads(path.read_text())
    for key, value, words in (
        ("base", f"--output={tmp_path}/out", ("diff", "foo")),
        ("base", f"--output={tmp_path}/out", ("diff", "foo", "--committed")),
        ("base", f"--output={tmp_path}/out", ("list", "--git")),
        ("branch", f"--upload-pack=touch {tmp_path}/out", ("pull", "foo")),
        ("branch", f"--exec=touch {tmp_path}/out", ("push", "foo")),
        ("branch", "x:refs/heads/main", ("pull", "foo")),
        ("branch", "*", ("pull", "foo")),
        ("work_dir", f"--git-dir={tmp_path}/out", ("pull", "foo")),
        ("work_dir", f"--git-dir={tmp_path}/out", ("diff", "foo")),
    ):
        path.write_text(json.dumps({**record, key: value}) + "\n")
        agent.mngr(*words, code=0 if words[0] == "list" else 1)
        assert not (tmp_path / "out").exists() and list_refs(agent.mngr.repo) == before


def test_an_agent_cannot_write_to_the_outputs_of_another(agent: Agent) -> None:
    mngr = agent.mngr
    mngr("create", "bar", *RUN)
    path = agent.dir / "agent.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "name": "bar"}) + "\n")
    (agent.dir / "outputs/x").write_text("not bar's")
    mngr("pull", "foo")
    outputs = mngr.repo / ".mngr/outputs"
    assert (outputs / agent.dir.name / "x").exists() and not (outputs / "bar").exists()


def test_forged_alternates_do_not_reach_the_users_repository(agent: Agent, tmp_path: Path) -> None:
    commit = commit_file(agent.work, "one.txt")
    other = tmp_path / "other"
    run_git(tmp_path, "init", "-q", str(other))
    commit_file(other, "other.txt")
    (agent.work / ".git/objects/info/alternates").write_text(f"/etc\n/dev/zero\n{other}/.git/objects\n../../../..\n")
    agent.mngr("pull", "foo")
    assert run_git(agent.mngr.repo, "rev-parse", "mngr/foo") == commit
    assert not (agent.mngr.repo / ".git/objects/info/alternates").exists()
    run_git(agent.mngr.repo, "fsck", "--strict")


# ---- what commits hold


def test_a_tree_with_a_name_like_dot_git_is_refused(agent: Agent) -> None:
    for name in (
        ".git",
        ".GIT",
        ".Git",
        "git~1",
        "GIT~1",
        ".git ",
        ".git.",
        ".g\u200cit",
        ".gi\u206at",
        "..",
        ".",
        "",
    ):
        with agent.back():
            agent.make(("100644", name, b"[core]\n"))
            agent.refused()


def test_submodules_that_could_run_a_program_are_refused(agent: Agent) -> None:
    for name, path, settings in (
        ("x", "x", "url = -oProxyCommand=x"),
        ("x", "-x", "url = ./x"),
        ("../../x", "x", "url = ./x"),
        ("x", "x", "url = ./x\n\tupdate = !touch x"),
        ("x", "x", 'url = "http://a/\\n\\nhost=b"'),
    ):
        with agent.back():
            agent.make(("100644", ".gitmodules", f'[submodule "{name}"]\n\tpath = {path}\n\t{settings}\n'.encode()))
            agent.refused()


def test_invalid_gitmodules_and_gitattributes_files_are_refused(agent: Agent) -> None:
    for entry in (
        ("120000", ".gitmodules", b"README.md"),
        ("100644", ".gitattributes", b"* " + b"x" * 5000 + b"\n"),
    ):
        with agent.back():
            agent.make(entry)
            agent.refused()


def test_a_link_out_of_the_tree_is_refused_even_in_an_older_commit(agent: Agent) -> None:
    work = agent.work
    for name, target in (
        ("x", "/etc/passwd"),
        ("x", "../x"),
        ("d/x", "../../x"),
        ("x", "d/../../x"),
        ("x", ".git/hooks"),
        ("x", "d/.GIT/config"),
        ("x", "y" * 5000),
    ):
        with agent.back():
            blob = write(work, "blob", target.encode())
            run_git(work, "update-index", "--add", "--cacheinfo", f"120000,{blob},{name}")
            agent.take(run_git(work, "write-tree"))
            run_git(work, "update-index", "--force-remove", name)
            agent.take(run_git(work, "write-tree"))
            assert "link" in agent.refused()


def test_links_inside_the_tree_and_links_of_the_user_are_accepted(mngr: MngrProgram) -> None:
    (mngr.repo / "to-etc").symlink_to("/etc")
    mine = commit_file(mngr.repo, "mine.txt")
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    work = mngr.get_work_dir("foo")
    (work / "src/up").symlink_to("../README.md")
    commit_file(work, "one.txt")
    run_git(work, "checkout", "-q", "-b", "side", mine)
    (work / "down").symlink_to("src/app.py")
    commit_file(work, "two.txt")
    run_git(work, "checkout", "-q", "mngr/foo")
    run_git(work, "merge", "-q", "-m", "both", "side")
    mngr("pull", "foo", "--merge")
    assert os.readlink(mngr.repo / "src/up") == "../README.md" and os.readlink(mngr.repo / "down") == "src/app.py"


def test_a_link_out_of_the_tree_that_only_a_merge_adds_is_refused(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    agent = Agent(mngr, mngr.home)
    one = commit_file(agent.work, "one.txt")
    run_git(agent.work, "checkout", "-q", "-b", "side", "main")
    two = commit_file(agent.work, "two.txt")
    blob = write(agent.work, "blob", b"/etc/passwd")
    run_git(agent.work, "update-index", "--add", "--cacheinfo", f"120000,{blob},x")
    tree = run_git(agent.work, "write-tree")
    run_git(
        agent.work,
        "update-ref",
        BRANCH,
        run_git(agent.work, "commit-tree", tree, "-p", one, "-p", two, "-m", "both"),
    )
    assert "'x' is a symbolic link to '/etc/passwd'" in agent.refused()
