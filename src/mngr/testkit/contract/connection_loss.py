"""Checks that nothing is lost or done twice when the connection to the host breaks during a command."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks
from mngr.testkit.contract.lifecycle import INSPECT_SCRIPT, WORK_SCRIPT
from mngr.testkit.contract.mngr_program import (
    BIN_DIR,
    IS_FULL_SCALE,
    BackgroundProgram,
    ProgramResult,
    commit_file,
    list_refs,
    run_git,
)
from mngr.testkit.contract.pty_terminal import PtyTerminal

# When to cut, as a fraction of the undisturbed duration. At full scale: 50 cuts in five operations.
AT_MOMENTS = pytest.mark.parametrize("moment", [n / 100 for n in range(5, 100, 10)] if IS_FULL_SCALE else [0.5])
LARGE_OUTPUT_COMMAND = "head -c 3000000 /dev/urandom"


class LossContract(ContractChecks):
    """For providers under test with `cut_connections` and `restore_connections`."""

    @pytest.fixture(autouse=True)
    def restore_connection(self, client: Client) -> Iterator[None]:
        """Restore the connection after each check, also after a failed one."""
        yield
        client.place.restore_connections()

    def test_list_shows_agents_of_an_unreachable_host(self, client: Client) -> None:
        client.create("foo", "--label", "team=red", *SLEEP_COMMAND)
        client("create", "here", *SLEEP_COMMAND)
        before = client.get_agent("foo")
        client.create("unseen", *SLEEP_COMMAND)  # `list` has not shown it yet
        client.place.cut_connections()
        listing = client.run_json("list")
        assert [(row["host"], row["provider"]) for row in listing["errors"]] == [(client.host, client.place.provider)]
        states = {agent["name"]: agent["state"] for agent in listing["agents"]}
        assert states == {"foo": "UNKNOWN", "unseen": "UNKNOWN", "here": "RUNNING"}
        after = next(agent for agent in listing["agents"] if agent["name"] == "foo")
        unchanged = ("id", "host", "provider", "branch", "work_dir", "labels", "project", "kind")
        assert {key: after[key] for key in unchanged} == {key: before[key] for key in unchanged}
        (row,) = [r for r in client.run_json("list", "--hosts")["hosts"] if r["host"] == client.host]
        assert row["state"] == "UNKNOWN" and row["error"]
        for words in (
            ("exec", "foo", "--", "true"),
            ("message", "foo", "-m", "x"),
            ("capture", "foo"),
            ("pull", "foo"),
            ("push", "foo"),
            ("pull", "foo:README.md", "got"),
            ("push", "README.md", "foo:x"),
            ("diff", "foo"),
            ("events", "foo"),
            ("stop", "foo"),
            ("start", "foo"),
            ("destroy", "--force", "foo"),
            ("clone", "foo", "bar"),
            ("snapshot", "create", "foo", "kept"),
            ("label", "foo", "a=b"),
            ("rename", "foo", "bar"),
            ("limit", "foo", "--idle", "1h"),
            ("create", client.build_address("new"), *SLEEP_COMMAND),
        ):
            result = client(*words, code=6)
            assert result.err.startswith("Error: ") and "there is no agent" not in result.err
        assert client("exec", "here", "--", "echo", "fine").out == "fine\n"
        assert not (client.repo / "got").exists()
        client.place.restore_connections()
        assert client.get_agent("foo") == {**before, "activity_at": client.get_agent("foo")["activity_at"]}
        assert sorted(agent["name"] for agent in client.list_agents()) == ["foo", "here", "unseen"]
        assert client.run_json("list")["errors"] == client.run_json("gc", "--dry-run")["results"] == []

    @AT_MOMENTS
    def test_create_survives_connection_loss(self, client: Client, moment: float) -> None:
        seconds = measure_seconds(client, "create", client.build_address("first"), *SLEEP_COMMAND)
        client.host = client.get_agent("first")["host"]
        result = run_and_cut(
            client, moment * seconds, "--format", "json", "create", client.build_address("foo"), *SLEEP_COMMAND
        )
        assert result.code in (0, 6)
        check_listed_unreachable(client, "first")
        client.place.restore_connections()
        client("gc")
        agents = [agent for agent in client.list_agents() if agent["name"] == "foo"]
        assert len(agents) <= 1
        if result.code == 0:
            assert [agent["id"] for agent in agents] == [result.parse_json()["agents"][0]["id"]]
        if not agents:
            agents = [client.create("foo", *SLEEP_COMMAND)]
        assert agents[0]["state"] == "RUNNING"
        assert client.run_script("foo", 'printf %s "$MNGR_AGENT_ID"; git status --porcelain') == agents[0]["id"]
        assert sorted(agent["name"] for agent in client.list_agents()) == ["first", "foo"]
        assert client.run_json("gc", "--dry-run")["results"] == []
        assert set(list_refs(client.repo)) <= {
            "refs/heads/main",
            "refs/heads/mngr/first",
            "refs/heads/mngr/foo",
        }

    @AT_MOMENTS
    def test_pull_survives_connection_loss(self, client: Client, moment: float) -> None:
        client.create("foo", "--transfer", "mirror", *SLEEP_COMMAND)
        client.run_script("foo", f'{LARGE_OUTPUT_COMMAND} >big.bin; cp big.bin "$MNGR_OUTPUT_DIR"')
        old = client.commit("foo", "one.txt")
        seconds = measure_seconds(client, "pull", "foo")
        client.run_script("foo", f'{LARGE_OUTPUT_COMMAND} >big.bin; cp big.bin "$MNGR_OUTPUT_DIR"')
        new = client.commit("foo", "two.txt")
        result = run_and_cut(client, moment * seconds, "pull", "foo")
        assert result.code in (0, 6)
        check_listed_unreachable(client, "foo")
        assert list_refs(client.repo)["refs/heads/mngr/foo"] in ([new] if result.code == 0 else [old, new])
        assert set(list_refs(client.repo)) == {"refs/heads/main", "refs/heads/mngr/foo"}
        run_git(client.repo, "fsck", "--strict")
        client.place.restore_connections()
        client("pull", "foo")
        assert list_refs(client.repo)["refs/heads/mngr/foo"] == new
        output = run_git(client.repo, "hash-object", ".mngr/outputs/foo/big.bin")
        assert output == client.run_script("foo", "git hash-object big.bin").strip()
        assert [path for path in client.repo.rglob("*.lock") if path.name != "mngr.base.lock"] == []

    @AT_MOMENTS
    def test_push_survives_connection_loss(self, client: Client, moment: float) -> None:
        client.create("foo", "--transfer", "mirror", *SLEEP_COMMAND)
        write_large_file(client.repo)
        old = commit_file(client.repo, "one.txt")
        seconds = measure_seconds(client, "push", "foo")
        write_large_file(client.repo)
        new = commit_file(client.repo, "two.txt")
        result = run_and_cut(client, moment * seconds, "push", "foo")
        assert result.code in (0, 6)
        check_listed_unreachable(client, "foo")
        client.place.restore_connections()
        script = "git rev-parse mngr/foo; git status --porcelain; git for-each-ref --format='%(refname)' refs/heads"
        head, *rest = client.run_script("foo", script).split()
        assert head in ([new] if result.code == 0 else [old, new])
        assert rest == ["refs/heads/main", "refs/heads/mngr/foo"]
        client("push", "foo")
        script = "git rev-parse HEAD; git status --porcelain; git for-each-ref --format='%(refname)' refs/mngr; git fsck --strict 2>&1"
        assert client.run_script("foo", script).split() == [new]

    @AT_MOMENTS
    def test_file_copy_survives_connection_loss(self, client: Client, moment: float, tmp_path: Path) -> None:
        client.create("foo", *SLEEP_COMMAND)
        write_large_file(tmp_path)
        seconds = measure_seconds(client, "push", str(tmp_path / "big.bin"), "foo:first.bin")
        old = run_git(tmp_path, "hash-object", "big.bin")
        result = run_and_cut(client, moment * seconds, "push", str(tmp_path / "big.bin"), "foo:second.bin")
        assert result.code in (0, 6)
        client.place.restore_connections()
        remote_hash = client.run_script("foo", "test ! -e second.bin || git hash-object second.bin").strip()
        assert remote_hash in ([old] if result.code == 0 else ["", old])
        seconds = measure_seconds(client, "pull", "foo:first.bin", str(tmp_path / "back.bin"))
        client.run_script("foo", f"{LARGE_OUTPUT_COMMAND} >first.bin")
        result = run_and_cut(client, moment * seconds, "pull", "foo:first.bin", str(tmp_path / "back.bin"))
        assert result.code in (0, 6)
        client.place.restore_connections()
        new = client.run_script("foo", "git hash-object first.bin").strip()
        assert run_git(tmp_path, "hash-object", "back.bin") in ([new] if result.code == 0 else [old, new])
        assert list(tmp_path.glob(".mngr-*")) == []

    @AT_MOMENTS
    def test_message_arrives_at_most_once(self, client: Client, moment: float) -> None:
        client.create("foo", "player")
        seconds = measure_seconds(client, "message", "foo", "-m", "before")
        result = run_and_cut(client, moment * seconds, "message", "foo", "-m", "one\ntwo")
        assert result.code in (0, 5, 6)
        check_listed_unreachable(client, "foo")
        client.place.restore_connections()
        client("message", "foo", "-m", "after", "--wait")
        received = [row["text"] for row in client.run_json("transcript", "foo")["transcript"] if row["role"] == "user"]
        sent = ["before", "one\ntwo", "after"]
        assert received in ([sent] if result.code == 0 else [sent, ["before", "after"]])

    def test_exec_reports_connection_loss(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        script = "echo ran >>log; echo begun; sleep 2; echo on >>log"
        with BackgroundProgram(client, "exec", "foo", "--", "sh", "-c", script) as process:
            assert process.read_line() == "begun"
            client.place.cut_connections()
            result = process.wait_for_end()
        assert result.code == 255 and result.err.startswith("Error: ")
        client("exec", "foo", "--", "sh", "-c", script, code=6)
        client.place.restore_connections()
        assert client.run_script("foo", "cat log").split()[:1] == ["ran"]
        assert client.run_script("foo", "grep -c ran log").strip() == "1"

    @AT_MOMENTS
    def test_destroy_survives_connection_loss(self, client: Client, moment: float) -> None:
        client.create("other", *SLEEP_COMMAND)
        client.create("foo", "player", "-m", "hello")
        client("wait", "foo")
        client.run_script("other", WORK_SCRIPT)
        client.run_script("foo", WORK_SCRIPT)
        before, agent = client.run_script("foo", INSPECT_SCRIPT), client.get_agent("foo")
        seconds = measure_seconds(client, "destroy", "--force", "other")
        result = run_and_cut(client, moment * seconds, "destroy", "--force", "foo")
        assert result.code in (0, 6)
        client.place.restore_connections()
        listed = [a["id"] for a in client.list_agents()]
        trashed = [entry["id"] for entry in client.run_json("undestroy", "--list")["trash"] if entry["name"] == "foo"]
        assert agent["id"] in listed + trashed and listed in ([], [agent["id"]])
        if listed:
            client("destroy", "--force", "foo")
        assert client.list_agents() == []
        client("undestroy", "foo")
        assert client.run_script("foo", INSPECT_SCRIPT) == before
        client("start", "foo")
        assert [row["text"] for row in client.run_json("transcript", "foo")["transcript"]] == [
            "hello",
            "ok: hello",
        ]
        assert [a["id"] for a in client.list_agents()] == [agent["id"]]
        assert client.run_json("gc", "--dry-run")["results"] == []

    def test_following_commands_end_with_a_reason(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        argv = [str(BIN_DIR / "mngr"), "connect", "foo"]
        with (
            BackgroundProgram(client, "events", "foo", "--follow", "--format", "{type}") as events,
            BackgroundProgram(client, "wait", "foo", "--state", "DONE") as wait,
            PtyTerminal(argv, client.repo, client.env) as terminal,
        ):
            assert events.read_line() == "created"
            terminal.wait_for_text("detach:")
            client.place.cut_connections()
            assert (events.wait_for_end().code, wait.wait_for_end().code) == (6, 6)
            assert terminal.wait_for_exit() != 0
        client.place.restore_connections()
        assert client.get_agent("foo")["state"] == "RUNNING"


def measure_seconds(client: Client, *words: str) -> float:
    """Run a command and return how many seconds it takes."""
    start = time.monotonic()
    client(*words)
    return time.monotonic() - start


def run_and_cut(client: Client, seconds: float, *words: str) -> ProgramResult:
    """Start a command, cut the connection `seconds` later, and wait until the command ends."""
    client("list")  # so that mngr knows the agents before the cut
    with BackgroundProgram(client, *words) as process:
        try:
            process.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        client.place.cut_connections()
        result = process.wait_for_end()
    assert "Traceback" not in result.err and (result.code == 0 or "error" in result.err.lower()), result
    return result


def check_listed_unreachable(client: Client, *names: str) -> None:
    """Check that `list` names the host as unreachable, and its agents as UNKNOWN."""
    listing = client.run_json("list")
    assert [row["host"] for row in listing["errors"]] == [client.host]
    states = {agent["name"]: agent["state"] for agent in listing["agents"]}
    assert {name: states.get(name) for name in names} == dict.fromkeys(names, "UNKNOWN")


def write_large_file(directory: Path) -> None:
    """Write a file that takes a while to send."""
    (directory / "big.bin").write_bytes(
        subprocess.run(LARGE_OUTPUT_COMMAND.split(), capture_output=True, check=True).stdout
    )
