"""The connection to the host is lost in the middle of something: nothing twice, nothing lost, and the truth afterwards."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.living import LOOK, WORK
from mngr.testkit.contract.place import RUN, Checks, Client
from mngr.testkit.contract.program import BIN, FULL, Beside, Ran, commit, git, refs
from mngr.testkit.contract.terminal import Terminal

# When to cut, as a part of what the same takes undisturbed. In full: 50 times, in five operations.
MOMENTS = pytest.mark.parametrize("moment", [n / 100 for n in range(5, 100, 10)] if FULL else [0.5])
LARGE = "head -c 3000000 /dev/urandom"


class LossContract(Checks):
    """For places with `cut` and `mend`."""

    @pytest.fixture(autouse=True)
    def mended(self, client: Client) -> Iterator[None]:
        """The place as it was, also after a check that failed, while its files are still there."""
        yield
        client.place.mend()

    def test_a_host_that_is_away_is_neither_an_error_of_list_nor_an_agent_that_is_gone(
        self, client: Client
    ) -> None:
        client.create("foo", "--label", "team=red", *RUN)
        client("create", "here", *RUN)
        before = client.agent("foo")
        client.create("unseen", *RUN)  # no list has shown it yet
        client.place.cut()
        shown = client.json("list")
        assert [(row["host"], row["provider"]) for row in shown["errors"]] == [
            (client.host, client.place.provider)
        ]
        states = {agent["name"]: agent["state"] for agent in shown["agents"]}
        assert states == {"foo": "UNKNOWN", "unseen": "UNKNOWN", "here": "RUNNING"}
        after = next(agent for agent in shown["agents"] if agent["name"] == "foo")
        same = ("id", "host", "provider", "branch", "work_dir", "labels", "project", "kind")
        assert {key: after[key] for key in same} == {key: before[key] for key in same}
        (row,) = [r for r in client.json("list", "--hosts")["hosts"] if r["host"] == client.host]
        assert row["state"] == "UNKNOWN" and row["error"]
        for words in (
            ("exec", "foo", "--", "true"), ("message", "foo", "-m", "x"), ("capture", "foo"), ("pull", "foo"), ("push", "foo"),
            ("pull", "foo:README.md", "got"), ("push", "README.md", "foo:x"), ("diff", "foo"), ("events", "foo"),
            ("stop", "foo"), ("start", "foo"), ("destroy", "--force", "foo"), ("clone", "foo", "bar"),
            ("snapshot", "create", "foo", "kept"), ("label", "foo", "a=b"), ("rename", "foo", "bar"), ("limit", "foo", "--idle", "1h"),
            ("create", client.at("new"), *RUN),
        ):  # fmt: skip
            ran = client(*words, code=6)
            assert ran.err.startswith("Error: ") and "there is no agent" not in ran.err
        assert client("exec", "here", "--", "echo", "fine").out == "fine\n"
        assert not (client.repo / "got").exists()
        client.place.mend()
        assert client.agent("foo") == {**before, "activity_at": client.agent("foo")["activity_at"]}
        assert sorted(agent["name"] for agent in client.agents()) == ["foo", "here", "unseen"]
        assert client.json("list")["errors"] == client.json("gc", "--dry-run")["results"] == []

    @MOMENTS
    def test_create(self, client: Client, moment: float) -> None:
        took = timed(client, "create", client.at("first"), *RUN)
        client.host = client.agent("first")["host"]
        ended = lose(client, moment * took, "--format", "json", "create", client.at("foo"), *RUN)
        assert ended.code in (0, 6)
        is_away(client, "first")
        client.place.mend()
        client("gc")
        found = [agent for agent in client.agents() if agent["name"] == "foo"]
        assert len(found) <= 1
        if ended.code == 0:
            assert [agent["id"] for agent in found] == [ended.json()["agents"][0]["id"]]
        if not found:
            found = [client.create("foo", *RUN)]
        assert found[0]["state"] == "RUNNING"
        assert client.sh("foo", 'printf %s "$MNGR_AGENT_ID"; git status --porcelain') == found[0]["id"]
        assert sorted(agent["name"] for agent in client.agents()) == ["first", "foo"]
        assert client.json("gc", "--dry-run")["results"] == []
        assert set(refs(client.repo)) <= {"refs/heads/main", "refs/heads/mngr/first", "refs/heads/mngr/foo"}

    @MOMENTS
    def test_pull(self, client: Client, moment: float) -> None:
        client.create("foo", "--transfer", "mirror", *RUN)
        client.sh("foo", f'{LARGE} >big.bin; cp big.bin "$MNGR_OUTPUT_DIR"')
        old = client.commit("foo", "one.txt")
        took = timed(client, "pull", "foo")
        client.sh("foo", f'{LARGE} >big.bin; cp big.bin "$MNGR_OUTPUT_DIR"')
        new = client.commit("foo", "two.txt")
        ended = lose(client, moment * took, "pull", "foo")
        assert ended.code in (0, 6)
        is_away(client, "foo")
        assert refs(client.repo)["refs/heads/mngr/foo"] in ([new] if ended.code == 0 else [old, new])
        assert set(refs(client.repo)) == {"refs/heads/main", "refs/heads/mngr/foo"}
        git(client.repo, "fsck", "--strict")
        client.place.mend()
        client("pull", "foo")
        assert refs(client.repo)["refs/heads/mngr/foo"] == new
        output = git(client.repo, "hash-object", ".mngr/outputs/foo/big.bin")
        assert output == client.sh("foo", "git hash-object big.bin").strip()
        assert [path for path in client.repo.rglob("*.lock") if path.name != "mngr.base.lock"] == []

    @MOMENTS
    def test_push(self, client: Client, moment: float) -> None:
        client.create("foo", "--transfer", "mirror", *RUN)
        grow(client.repo)
        old = commit(client.repo, "one.txt")
        took = timed(client, "push", "foo")
        grow(client.repo)
        new = commit(client.repo, "two.txt")
        ended = lose(client, moment * took, "push", "foo")
        assert ended.code in (0, 6)
        is_away(client, "foo")
        client.place.mend()
        look = "git rev-parse mngr/foo; git status --porcelain; git for-each-ref --format='%(refname)' refs/heads"
        at, *rest = client.sh("foo", look).split()
        assert at in ([new] if ended.code == 0 else [old, new])
        assert rest == ["refs/heads/main", "refs/heads/mngr/foo"]
        client("push", "foo")
        look = "git rev-parse HEAD; git status --porcelain; git for-each-ref --format='%(refname)' refs/mngr; git fsck --strict 2>&1"
        assert client.sh("foo", look).split() == [new]

    @MOMENTS
    def test_files(self, client: Client, moment: float, tmp_path: Path) -> None:
        client.create("foo", *RUN)
        grow(tmp_path)
        took = timed(client, "push", str(tmp_path / "big.bin"), "foo:first.bin")
        old = git(tmp_path, "hash-object", "big.bin")
        ended = lose(client, moment * took, "push", str(tmp_path / "big.bin"), "foo:second.bin")
        assert ended.code in (0, 6)
        client.place.mend()
        there = client.sh("foo", "test ! -e second.bin || git hash-object second.bin").strip()
        assert there in ([old] if ended.code == 0 else ["", old])
        took = timed(client, "pull", "foo:first.bin", str(tmp_path / "back.bin"))
        client.sh("foo", f"{LARGE} >first.bin")
        ended = lose(client, moment * took, "pull", "foo:first.bin", str(tmp_path / "back.bin"))
        assert ended.code in (0, 6)
        client.place.mend()
        new = client.sh("foo", "git hash-object first.bin").strip()
        assert git(tmp_path, "hash-object", "back.bin") in ([new] if ended.code == 0 else [old, new])
        assert list(tmp_path.glob(".mngr-*")) == []

    @MOMENTS
    def test_message(self, client: Client, moment: float) -> None:
        client.create("foo", "player")
        took = timed(client, "message", "foo", "-m", "before")
        ended = lose(client, moment * took, "message", "foo", "-m", "one\ntwo")
        assert ended.code in (0, 5, 6)
        is_away(client, "foo")
        client.place.mend()
        client("message", "foo", "-m", "after", "--wait")
        said = [
            row["text"] for row in client.json("transcript", "foo")["transcript"] if row["role"] == "user"
        ]
        sent = ["before", "one\ntwo", "after"]
        assert said in ([sent] if ended.code == 0 else [sent, ["before", "after"]])

    def test_exec(self, client: Client) -> None:
        client.create("foo", *RUN)
        script = "echo ran >>log; echo begun; sleep 2; echo on >>log"
        with Beside(client, "exec", "foo", "--", "sh", "-c", script) as process:
            assert process.line() == "begun"
            client.place.cut()
            ended = process.end()
        assert ended.code == 255 and ended.err.startswith("Error: ")
        client("exec", "foo", "--", "sh", "-c", script, code=6)
        client.place.mend()
        assert client.sh("foo", "cat log").split()[:1] == ["ran"]
        assert client.sh("foo", "grep -c ran log").strip() == "1"

    @MOMENTS
    def test_destroy(self, client: Client, moment: float) -> None:
        client.create("other", *RUN)
        client.create("foo", "player", "-m", "hello")
        client("wait", "foo")
        client.sh("other", WORK)
        client.sh("foo", WORK)
        before, agent = client.sh("foo", LOOK), client.agent("foo")
        took = timed(client, "destroy", "--force", "other")
        ended = lose(client, moment * took, "destroy", "--force", "foo")
        assert ended.code in (0, 6)
        client.place.mend()
        here = [a["id"] for a in client.agents()]
        graves = [
            grave["id"] for grave in client.json("undestroy", "--list")["graves"] if grave["name"] == "foo"
        ]
        assert agent["id"] in here + graves and here in ([], [agent["id"]])
        if here:
            client("destroy", "--force", "foo")
        assert client.agents() == []
        client("undestroy", "foo")
        assert client.sh("foo", LOOK) == before
        client("start", "foo")
        assert [row["text"] for row in client.json("transcript", "foo")["transcript"]] == [
            "hello",
            "ok: hello",
        ]
        assert [a["id"] for a in client.agents()] == [agent["id"]]
        assert client.json("gc", "--dry-run")["results"] == []

    def test_what_follows_ends_and_says_why(self, client: Client) -> None:
        client.create("foo", *RUN)
        argv = [str(BIN / "mngr"), "connect", "foo"]
        with (
            Beside(client, "events", "foo", "--follow", "--format", "{type}") as events,
            Beside(client, "wait", "foo", "--state", "DONE") as wait,
            Terminal(argv, client.repo, client.env) as terminal,
        ):
            assert events.line() == "created"
            terminal.see("detach:")
            client.place.cut()
            assert (events.end().code, wait.end().code) == (6, 6)
            assert terminal.end() != 0
        client.place.mend()
        assert client.agent("foo")["state"] == "RUNNING"


def timed(client: Client, *words: str) -> float:
    """How many seconds a command takes."""
    began = time.monotonic()
    client(*words)
    return time.monotonic() - began


def lose(client: Client, seconds: float, *words: str) -> Ran:
    """Start a command, cut the connection so many seconds later, and wait until the command ends."""
    client("list")  # so that it is known what is there
    with Beside(client, *words) as process:
        try:
            process.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        client.place.cut()
        ended = process.end()
    assert "Traceback" not in ended.err and (ended.code == 0 or "error" in ended.err.lower()), ended
    return ended


def is_away(client: Client, *names: str) -> None:
    """`list` says what it knew, and that it does not know more."""
    shown: dict[str, Any] = client.json("list")
    assert [row["host"] for row in shown["errors"]] == [client.host]
    states = {agent["name"]: agent["state"] for agent in shown["agents"]}
    assert {name: states.get(name) for name in names} == dict.fromkeys(names, "UNKNOWN")


def grow(where: Path) -> None:
    """A file that takes a while to send."""
    (where / "big.bin").write_bytes(subprocess.run(LARGE.split(), capture_output=True, check=True).stdout)
