"""Checks of pull, push, diff and git between this machine and the host."""

from __future__ import annotations

import os
import random
from pathlib import Path

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks
from mngr.testkit.contract.mngr_program import IS_FULL_SCALE, commit_file, list_refs, read_tree, run_git

LARGE_FILE_BYTES = 100_000_000 if IS_FULL_SCALE else 5_000_000
ODD_FILE_NAMES = (
    "plain.txt",
    "two words",
    "new\nline",
    "-rf",
    "--help",
    "naïve 日本語",
    "it's",
    'say "so"',
    "$HOME",
    "*",
    "a\\b",
    " lead",
    "trail ",
    ".hidden",
    "..dots",
    "a:b",
    "%s",
    "~",
    "#x",
    os.fsdecode(b"raw\xff"),
)


def write_odd_files(directory: Path) -> None:
    """Create a directory with odd file names, binary content, links and empty directories."""
    (directory / "sub" / "empty").mkdir(parents=True)
    for number, name in enumerate(ODD_FILE_NAMES):
        (directory / name).write_bytes(bytes(range(256)) * number)
    (directory / "sub" / "deep.txt").write_text("deep")
    (directory / "tool").write_text("#!/bin/sh\necho ran\n")
    (directory / "tool").chmod(0o755)
    (directory / "sub" / "link").symlink_to("../plain.txt")
    (directory / "nowhere").symlink_to("sub/gone")
    (directory / "to-dir").symlink_to("sub")


class SyncContract(ContractChecks):
    """Checks of pull, push, diff, and git itself."""

    def test_pull_creates_the_agents_branch(self, client: Client) -> None:
        client.create("foo", "--transfer", "mirror", *SLEEP_COMMAND)
        first = client.commit("foo", "one.txt")
        assert client.get_only_row("pull", "foo")["commits"] == 1
        second = client.commit("foo", "two.txt")
        row = client.get_only_row("pull", "foo")
        assert (row["branch"], row["commit"], row["commits"]) == ("mngr/foo", second, 1)
        assert client.get_only_row("pull", "foo")["commits"] == 0
        assert run_git(client.repo, "rev-list", "main..mngr/foo").split() == [second, first]
        assert list(list_refs(client.repo)) == ["refs/heads/main", "refs/heads/mngr/foo"]
        run_git(client.repo, "fsck", "--strict")
        assert not (client.repo / "one.txt").exists() and run_git(client.repo, "status", "--porcelain") == ""
        third = client.commit("foo", "three.txt")
        run_git(client.repo, "fetch", "-q", "mngr::foo", "mngr/foo:got")
        assert run_git(client.repo, "rev-parse", "got") == third
        own_commit = commit_file(client.repo, "mine.txt")
        run_git(client.repo, "push", "-q", "mngr::foo", "main:refs/heads/sent")
        assert client.run_script("foo", "git rev-parse sent").strip() == own_commit
        assert run_git(client.repo, "ls-remote", "mngr::foo", "refs/heads/sent").split()[0] == own_commit

    def test_pull_takes_merges_and_overwrites_nothing(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        agent_commit = client.commit("foo", "one.txt")
        own_commit = commit_file(client.repo, "mine.txt")
        assert client.run_json("list", "--git")["agents"][0]["unpulled"] == 1
        assert client.get_only_row("pull", "foo", "--merge")["merged"] is True
        assert run_git(client.repo, "log", "-1", "--format=%P").split() == [own_commit, agent_commit]
        client.create("bar", "--transfer", "mirror", *SLEEP_COMMAND)
        run_git(client.repo, "checkout", "-q", "-b", "mngr/bar")
        branch_commit = commit_file(client.repo, "own.txt")
        client.commit("bar", "other.txt")
        assert "has commits that the agent's branch does not have" in client("pull", "bar", code=1).err
        assert run_git(client.repo, "rev-parse", "mngr/bar") == branch_commit

    def test_push_keeps_the_agents_own_work(self, client: Client) -> None:
        client.create("foo", "--transfer", "mirror", *SLEEP_COMMAND)
        assert client.get_only_row("push", "foo")["how"] == "up_to_date"
        own_commit = commit_file(client.repo, "mine.txt")
        assert [client.get_only_row("push", "foo")[key] for key in ("how", "commit")] == [
            "fast_forward",
            own_commit,
        ]
        agent_commit = client.commit("foo", "theirs.txt")
        second_commit = commit_file(client.repo, "again.txt")
        assert client.get_only_row("push", "foo")["how"] == "merge"
        script = "git log -1 --format=%P; git status --porcelain; git for-each-ref --format='%(refname)'; ls"
        heads = ["refs/heads/main", "refs/heads/mngr/foo"]
        files = ["README.md", "again.txt", "mine.txt", "src", "theirs.txt"]
        assert client.run_script("foo", script).split() == [agent_commit, second_commit, *heads, *files]
        commit_file(client.repo, "last.txt", "last\n")
        client.run_script("foo", "echo draft >README.md; echo new >new.txt")
        assert "uncommitted changes" in client("push", "foo", code=1).err
        assert client.get_only_row("push", "foo", "--stash")["how"] == "merge"
        assert client.run_script("foo", "cat README.md new.txt last.txt; git stash list") == "draft\nnew\nlast\n"
        agent_commit = client.commit("foo", "README.md", "theirs\n")
        commit_file(client.repo, "README.md", "mine\n")
        assert "conflict with those of foo in README.md; mngr undid the merge" in client("push", "foo", code=1).err
        script = "git rev-parse HEAD; git status --porcelain; cat README.md; git for-each-ref refs/mngr"
        assert client.run_script("foo", script).split() == [agent_commit, "theirs"]

    def test_diff_shows_all_work(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        assert client("diff", "foo").out == ""
        client.commit("foo", "committed.txt")
        client.run_script(
            "foo", "echo changed >README.md; printf 'caf\\351\\n' >latin.txt; rm src/app.py; echo x >x.log"
        )
        names = ["README.md", "committed.txt", "latin.txt", "src/app.py"]
        assert client("diff", "foo", "--name-only").out.split() == names
        assert "4 files changed" in client("diff", "foo", "--stat").out
        assert client("diff", "foo", "--committed", "--name-only").out == "committed.txt\n"
        patch = client.run_bytes("diff", "foo").stdout
        assert b"+caf\xe9\n" in patch and b"-print('hi')\n" in patch
        status = client.run_script("foo", "git status --porcelain").splitlines()
        assert [line.split()[1] for line in status] == ["README.md", "src/app.py", "latin.txt"]

    def test_odd_and_large_files_survive_push_and_pull(self, client: Client, tmp_path: Path) -> None:
        client.create("foo", *SLEEP_COMMAND)
        write_odd_files(tmp_path / "odd")
        row = client.get_only_row("push", str(tmp_path / "odd"), "foo:in/")
        assert client.run_script("foo", "in/odd/tool; readlink in/odd/sub/link; ls -A in") == "ran\n../plain.txt\nodd\n"
        assert client.run_script("foo", "cd in/odd; git hash-object ./-rf").strip() == run_git(
            tmp_path / "odd", "hash-object", "./-rf"
        )
        assert row["path"].endswith("/in/odd")
        directory = tmp_path / "here"
        directory.mkdir()
        client("pull", "foo:in/odd", cwd=directory)
        assert read_tree(directory / "odd") == read_tree(tmp_path / "odd")
        for name in ("new\nline", "-rf", "it's"):
            client("pull", f"foo:in/odd/{name}", cwd=directory)
            assert (directory / name).read_bytes() == (tmp_path / "odd" / name).read_bytes()
        data = random.Random(7).randbytes(LARGE_FILE_BYTES)
        (tmp_path / "large.bin").write_bytes(data)
        client("push", str(tmp_path / "large.bin"), "foo:large.bin", timeout=300)
        blob = run_git(tmp_path, "hash-object", "large.bin")
        assert client.run_script("foo", "git hash-object large.bin; ls -A | grep -c mngr- || :").split() == [
            blob,
            "0",
        ]
        client("pull", "foo:large.bin", "back.bin", cwd=tmp_path, timeout=300)
        assert run_git(tmp_path, "hash-object", "back.bin") == blob
        assert [path.name for path in tmp_path.glob(".mngr-*")] == []

    def test_pull_copies_outputs_and_rejects_paths_outside(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        client.run_script(
            "foo",
            'cd "$MNGR_OUTPUT_DIR"; mkdir d; echo 1 >"d/é x"; echo "#!/bin/sh" >t; chmod +x t; ln -s t l',
        )
        row = client.get_only_row("pull", "foo")
        outputs_dir = client.repo / ".mngr/outputs/foo"
        assert (row["outputs"], row["outputs_dir"]) == (3, str(outputs_dir))
        assert read_tree(outputs_dir) == {
            "d": ("dir", None),
            "d/é x": ("file", (b"1\n", 0)),
            "t": ("file", (b"#!/bin/sh\n", 0o111)),
            "l": ("link", "t"),
        }
        assert run_git(client.repo, "status", "--porcelain") == ""
        for command in ("ln -s /etc/passwd", "ln -s ../../../up", "mkfifo"):
            client.run_script(
                "foo", f'rm -f "$MNGR_OUTPUT_DIR/evil" evil; {command} "$MNGR_OUTPUT_DIR/evil"; {command} evil'
            )
            assert "Error: mngr refused the copy:" in client("pull", "foo", code=1).err
            assert "Error: mngr refused the copy:" in client("pull", "foo:evil", code=1).err
            assert not os.path.lexists(client.repo / "evil")
            assert not os.path.lexists(client.repo / ".mngr/outputs/foo/evil")
        assert "has no file 'nowhere'" in client("pull", "foo:nowhere", code=1).err
        assert "outside" in client("pull", "foo:../x", code=1).err
        assert "/nowhere'" in client("push", "nowhere", "foo:x", code=1).err
        client.run_script("foo", "ln -s /tmp out")
        assert "leads out of the work dir" in client("push", "README.md", "foo:out/x", code=1).err
