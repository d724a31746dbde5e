"""Commits and files between here and the host."""

from __future__ import annotations

import os
import random
from pathlib import Path

from mngr.testkit.contract.place import RUN, Checks, Client
from mngr.testkit.contract.program import FULL, commit, git, refs, tree

LARGE = 100_000_000 if FULL else 5_000_000
NAMES = (
    "plain.txt", "two words", "new\nline", "-rf", "--help", "naïve 日本語", "it's", 'say "so"', "$HOME", "*", "a\\b", " lead",
    "trail ", ".hidden", "..dots", "a:b", "%s", "~", "#x", os.fsdecode(b"raw\xff"),
)  # fmt: skip


def fill(place: Path) -> None:
    """A directory with everything that a file can be."""
    (place / "sub" / "empty").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        (place / name).write_bytes(bytes(range(256)) * number)
    (place / "sub" / "deep.txt").write_text("deep")
    (place / "tool").write_text("#!/bin/sh\necho ran\n")
    (place / "tool").chmod(0o755)
    (place / "sub" / "link").symlink_to("../plain.txt")
    (place / "nowhere").symlink_to("sub/gone")
    (place / "to-dir").symlink_to("sub")


class Moving(Checks):
    """pull, push, diff, and git itself."""

    def test_commits_come_under_the_agents_branch_name(self, client: Client) -> None:
        client.create("foo", "--transfer", "mirror", *RUN)
        first = client.commit("foo", "one.txt")
        assert client.row("pull", "foo")["commits"] == 1
        second = client.commit("foo", "two.txt")
        row = client.row("pull", "foo")
        assert (row["branch"], row["commit"], row["commits"]) == ("mngr/foo", second, 1)
        assert client.row("pull", "foo")["commits"] == 0
        assert git(client.repo, "rev-list", "main..mngr/foo").split() == [second, first]
        assert list(refs(client.repo)) == ["refs/heads/main", "refs/heads/mngr/foo"]
        git(client.repo, "fsck", "--strict")
        assert not (client.repo / "one.txt").exists() and git(client.repo, "status", "--porcelain") == ""
        done = client.commit("foo", "three.txt")
        git(client.repo, "fetch", "-q", "mngr::foo", "mngr/foo:got")
        assert git(client.repo, "rev-parse", "got") == done
        mine = commit(client.repo, "mine.txt")
        git(client.repo, "push", "-q", "mngr::foo", "main:refs/heads/sent")
        assert client.sh("foo", "git rev-parse sent").strip() == mine
        assert git(client.repo, "ls-remote", "mngr::foo", "refs/heads/sent").split()[0] == mine

    def test_a_merge_comes_too_and_nothing_here_is_overwritten(self, client: Client) -> None:
        client.create("foo", *RUN)
        theirs = client.commit("foo", "one.txt")
        mine = commit(client.repo, "mine.txt")
        assert client.json("list", "--git")["agents"][0]["unpulled"] == 1
        assert client.row("pull", "foo", "--merge")["merged"] is True
        assert git(client.repo, "log", "-1", "--format=%P").split() == [mine, theirs]
        client.create("bar", "--transfer", "mirror", *RUN)
        git(client.repo, "checkout", "-q", "-b", "mngr/bar")
        own = commit(client.repo, "own.txt")
        client.commit("bar", "other.txt")
        assert "has commits the agent's does not have" in client("pull", "bar", code=1).err
        assert git(client.repo, "rev-parse", "mngr/bar") == own

    def test_commits_go_to_the_agent_and_touch_no_work_of_its_own(self, client: Client) -> None:
        client.create("foo", "--transfer", "mirror", *RUN)
        assert client.row("push", "foo")["how"] == "up_to_date"
        mine = commit(client.repo, "mine.txt")
        assert [client.row("push", "foo")[key] for key in ("how", "commit")] == ["fast_forward", mine]
        theirs = client.commit("foo", "theirs.txt")
        again = commit(client.repo, "again.txt")
        assert client.row("push", "foo")["how"] == "merge"
        look = "git log -1 --format=%P; git status --porcelain; git for-each-ref --format='%(refname)'; ls"
        heads = ["refs/heads/main", "refs/heads/mngr/foo"]
        files = ["README.md", "again.txt", "mine.txt", "src", "theirs.txt"]
        assert client.sh("foo", look).split() == [theirs, again, *heads, *files]
        commit(client.repo, "last.txt", "last\n")
        client.sh("foo", "echo draft >README.md; echo new >new.txt")
        assert "uncommitted changes" in client("push", "foo", code=1).err
        assert client.row("push", "foo", "--stash")["how"] == "merge"
        assert client.sh("foo", "cat README.md new.txt last.txt; git stash list") == "draft\nnew\nlast\n"
        theirs = client.commit("foo", "README.md", "theirs\n")
        commit(client.repo, "README.md", "mine\n")
        assert "conflicts with that of foo in README.md; undone" in client("push", "foo", code=1).err
        look = "git rev-parse HEAD; git status --porcelain; cat README.md; git for-each-ref refs/mngr"
        assert client.sh("foo", look).split() == [theirs, "theirs"]

    def test_diff_shows_all_of_the_work(self, client: Client) -> None:
        client.create("foo", *RUN)
        assert client("diff", "foo").out == ""
        client.commit("foo", "committed.txt")
        client.sh(
            "foo", "echo changed >README.md; printf 'caf\\351\\n' >latin.txt; rm src/app.py; echo x >x.log"
        )
        names = ["README.md", "committed.txt", "latin.txt", "src/app.py"]
        assert client("diff", "foo", "--name-only").out.split() == names
        assert "4 files changed" in client("diff", "foo", "--stat").out
        assert client("diff", "foo", "--committed", "--name-only").out == "committed.txt\n"
        patch = client.raw("diff", "foo").stdout
        assert b"+caf\xe9\n" in patch and b"-print('hi')\n" in patch
        status = client.sh("foo", "git status --porcelain").splitlines()
        assert [line.split()[1] for line in status] == ["README.md", "src/app.py", "latin.txt"]

    def test_odd_files_and_a_large_one_go_there_and_back(self, client: Client, tmp_path: Path) -> None:
        client.create("foo", *RUN)
        fill(tmp_path / "odd")
        row = client.row("push", str(tmp_path / "odd"), "foo:in/")
        assert (
            client.sh("foo", "in/odd/tool; readlink in/odd/sub/link; ls -A in") == "ran\n../plain.txt\nodd\n"
        )
        assert client.sh("foo", "cd in/odd; git hash-object ./-rf").strip() == git(
            tmp_path / "odd", "hash-object", "./-rf"
        )
        assert row["path"].endswith("/in/odd")
        here = tmp_path / "here"
        here.mkdir()
        client("pull", "foo:in/odd", cwd=here)
        assert tree(here / "odd") == tree(tmp_path / "odd")
        for name in ("new\nline", "-rf", "it's"):
            client("pull", f"foo:in/odd/{name}", cwd=here)
            assert (here / name).read_bytes() == (tmp_path / "odd" / name).read_bytes()
        data = random.Random(7).randbytes(LARGE)
        (tmp_path / "large.bin").write_bytes(data)
        client("push", str(tmp_path / "large.bin"), "foo:large.bin", timeout=300)
        blob = git(tmp_path, "hash-object", "large.bin")
        assert client.sh("foo", "git hash-object large.bin; ls -A | grep -c mngr- || :").split() == [
            blob,
            "0",
        ]
        client("pull", "foo:large.bin", "back.bin", cwd=tmp_path, timeout=300)
        assert git(tmp_path, "hash-object", "back.bin") == blob
        assert [path.name for path in tmp_path.glob(".mngr-*")] == []

    def test_outputs_come_home_and_nothing_leaves_its_place(self, client: Client) -> None:
        client.create("foo", *RUN)
        client.sh(
            "foo",
            'cd "$MNGR_OUTPUT_DIR"; mkdir d; echo 1 >"d/é x"; echo "#!/bin/sh" >t; chmod +x t; ln -s t l',
        )
        row = client.row("pull", "foo")
        place = client.repo / ".mngr/outputs/foo"
        assert (row["outputs"], row["outputs_dir"]) == (3, str(place))
        assert tree(place) == {
            "d": ("dir", None),
            "d/é x": ("file", (b"1\n", 0)),
            "t": ("file", (b"#!/bin/sh\n", 0o111)),
            "l": ("link", "t"),
        }
        assert git(client.repo, "status", "--porcelain") == ""
        for how in ("ln -s /etc/passwd", "ln -s ../../../up", "mkfifo"):
            client.sh("foo", f'rm -f "$MNGR_OUTPUT_DIR/evil" evil; {how} "$MNGR_OUTPUT_DIR/evil"; {how} evil')
            assert "Error: refused:" in client("pull", "foo", code=1).err
            assert "Error: refused:" in client("pull", "foo:evil", code=1).err
            assert not os.path.lexists(client.repo / "evil")
            assert not os.path.lexists(client.repo / ".mngr/outputs/foo/evil")
        assert "has no 'nowhere'" in client("pull", "foo:nowhere", code=1).err
        assert "outside" in client("pull", "foo:../x", code=1).err
        assert "/nowhere' here" in client("push", "nowhere", "foo:x", code=1).err
        client.sh("foo", "ln -s /tmp out")
        assert "leads out of the work dir" in client("push", "README.md", "foo:out/x", code=1).err
