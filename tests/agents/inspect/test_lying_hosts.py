"""Tests hosts that give invalid answers: mngr rejects the answer, and other hosts are not affected."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mngr.agents.saved import host_stream
from mngr.agents.sync import files
from mngr.base.errors import ConnectionLost, Unreachable
from mngr.host import remote_host
from mngr.host.remote_host import RemoteHost
from mngr.providers.shared import host_preparation
from tests.conftest import MngrProgram, kill_tmux_servers
from tests.support.hosts.boxes import Boxes

pytestmark = [pytest.mark.hosts, pytest.mark.sampled(2)]

RUN = ("--", "sleep", "1000")


@pytest.fixture
def boxes(tmp_path: Path, mngr: MngrProgram) -> Iterator[Boxes]:
    """Hosts that are directories. `foo` is on the host h1, and `good` is on this machine."""
    engine = Boxes(tmp_path / "engine")
    mngr.env.update(engine.env)
    mngr("create", "foo@h1.box", *RUN)
    mngr("create", "good", *RUN)
    yield engine
    kill_tmux_servers(engine.boxes)


@pytest.mark.parametrize("number", ["99999999999999999999", "\u00b2"])
def test_list_survives_invalid_numbers_from_a_host(mngr: MngrProgram, boxes: Boxes, number: str) -> None:
    agent = mngr.get_agent("foo")["id"]
    row = f"pane {agent} agent s %1 1 0 {number} 0 0 title"
    boxes.lie("h1", f"tmux() {{ command tmux \"$@\"; echo '{row}'; }}")
    assert sorted(a["name"] for a in mngr.list_agents()) == ["foo", "good"]
    mngr("explain", "foo")
    mngr("stop", "@h1.box")  # what it said is remembered
    assert sorted(a["name"] for a in mngr.list_agents()) == ["foo", "good"]


def test_a_directory_name_cannot_imitate_tmux_output(mngr: MngrProgram, boxes: Boxes) -> None:
    """An agent on the host can create such a directory."""
    box_agents = boxes.boxes / "h1/home/.mngr/agents"
    local_agents = mngr.home / "agents"
    for agents_dir in (box_agents, local_agents):
        (agent_dir,) = agents_dir.glob("a-*")
        (agents_dir / f"a-x\npane {agent_dir.name} agent s %1 1 0 99999999999999999999 0 0 t").mkdir()
    assert {a["name"]: a["state"] for a in mngr.list_agents()} == {"foo": "RUNNING", "good": "RUNNING"}


def test_a_host_with_an_invalid_exit_code_counts_as_unreachable(mngr: MngrProgram, boxes: Boxes) -> None:
    lie = "command printf '%s:abc;' \"${1%%:*}\""
    boxes.lie("h1", f'printf() {{ case $1 in mngr-*) {lie} ;; *) command printf "$@" ;; esac; }}')
    listing = mngr.run_json("list")
    assert {a["name"]: a["state"] for a in listing["agents"]} == {"foo": "UNKNOWN", "good": "RUNNING"}
    assert [error["host"] for error in listing["errors"]] == ["h1"]
    assert "h1 (box) did not answer: " in mngr("list", "--hosts").err


def test_usage_names_the_hosts_that_it_does_not_count(mngr: MngrProgram, boxes: Boxes) -> None:
    mngr("create", "bar", "player")
    (boxes.place / "away").touch()
    assert "not counted: h1 (box) did not answer: " in mngr("usage").err
    usage = mngr.run_json("usage")
    assert [row["group"] for row in usage["usage"]] == ["bar"]
    assert [error["host"] for error in usage["errors"]] == ["h1"]
    (boxes.place / "away").unlink()
    assert mngr.run_json("usage")["errors"] == []


class Teller:
    """A transport to a host that writes this text on both streams, with mngr's marker in place of each @."""

    tell = """m=$({ printf %s "$0"; cat; } | grep -ao 'mngr-[0-9a-f]*:' | tail -n 1)
    printf %s "$1" | sed "s/@/$m/g" | tee /dev/stderr"""

    def __init__(self, text: str) -> None:
        self._text = text

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        return ["sh", "-c", self.tell, program, self._text]

    def make_lost_error(self, stderr: str) -> Unreachable:
        return Unreachable("lost")

    def close(self) -> None:
        pass


@pytest.mark.parametrize("code", ["abc", "\u00b2", "-1", "1000", "1_0", "", "9" * 5000])
def test_an_invalid_exit_code_is_a_lost_connection(code: str) -> None:
    step = (["true"], b"")
    with pytest.raises(Unreachable, match="lost"):
        remote_host.run(Teller(f"@{code};"), ["true"])
    with pytest.raises(Unreachable, match="lost"):
        remote_host.run_until_failure(Teller(f"@0;@{code};"), [step, step])
    with pytest.raises(ConnectionLost):
        RemoteHost("box", "x", Teller(f"@7;@{code};"), "/nowhere", 0).run_attached(["true"])
    assert [done.code for done in remote_host.run_until_failure(Teller("@0;@0;@0;"), [step, step])] == [0, 0]


def test_a_process_without_a_valid_pid_is_a_lost_connection(capfd: pytest.CaptureFixture[str]) -> None:
    for text in ("@abc;", "@" + "9" * 5000 + ";", "@" + "9" * 5000):
        with pytest.raises(Unreachable, match="lost"):
            RemoteHost("box", "x", Teller(text), "/nowhere", 0).run_attached(["true"])


def test_output_before_a_command_starts_uses_limited_memory(
    capfd: pytest.CaptureFixture[str],
) -> None:
    stderr_filter = remote_host._StderrFilter(b"mngr-x:")
    for _ in range(100):
        stderr_filter.feed(b"mngr-" * 10_000)
    assert len(stderr_filter.get_held()) < 2_000_000 and capfd.readouterr().err.startswith("mngr-mngr-")


class Flood(Teller):
    """A transport to a host that writes one line without end."""

    tell = "exec cat /dev/zero"


@pytest.mark.parametrize("says", ["", "lock"])
def test_waiting_for_a_remote_lock_times_out(monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setattr(remote_host, "_CONNECT_SECONDS", 0.2)
    host = RemoteHost("box", "x", Silent(says), "/nowhere", 0)
    with pytest.raises(Unreachable, match="lost"), host.lock("/x", timeout=0.1):
        pass


class Silent(Teller):
    """A transport to a host that writes this text and then nothing."""

    tell = 'printf %s "$1"; exec sleep 1000'


def test_a_lock_on_a_host_that_floods_output_fails() -> None:
    with (
        pytest.raises(Unreachable, match="lost"),
        RemoteHost("box", "x", Flood(""), "/nowhere", 0).lock("/x"),
    ):
        pass


KIND = """
import pluggy
from mngr.base.model import AgentState

class Parrot:
    name = "parrot"

    def state(self, record, evidence):
        return {}["nothing"] if record.command == ["raise"] else AgentState(state="DONE", source="x", since=7)

@pluggy.HookimplMarker("mngr")
def mngr_kinds():
    return [Parrot()]
"""


@pytest.mark.parametrize(("word", "error"), [("raise", "KeyError"), ("odd", "TypeError")])
def test_an_unexpected_exception_for_one_host_spares_the_others(
    mngr: MngrProgram, boxes: Boxes, tmp_path: Path, word: str, error: str
) -> None:
    (tmp_path / "site/parrots-1.dist-info").mkdir(parents=True)
    (tmp_path / "site/parrots-1.dist-info/entry_points.txt").write_text("[mngr]\nparrots = parrots\n")
    (tmp_path / "site/parrots.py").write_text(KIND)
    mngr.env["PYTHONPATH"] = str(tmp_path / "site")
    (record,) = boxes.boxes.glob("h1/home/.mngr/agents/a-*/agent.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), "kind": "parrot", "command": [word]}) + "\n")
    for _ in range(2):
        listing = mngr.run_json("list")
        assert [a["name"] for a in listing["agents"]] == ["good"]
        assert [row["host"] for row in listing["errors"]] == ["h1"]
        assert f"a bug in mngr: {error}: " in listing["errors"][0]["error"]
        assert {row["host"] for row in mngr.run_json("list", "--hosts")["hosts"]} == {"local", "h1"}
        (mngr.home / "names/good").unlink(missing_ok=True)  # Now mngr must search for it.
        assert "good" in mngr("explain", "good").out
        stderr = mngr("explain", "nobody", code=None).err
        assert ("may be on a host that does not answer: h1: this is a bug" in stderr) is (word == "raise")
        mngr("stop", "@h1.box", code=None)  # what it said is remembered


def test_a_host_cannot_claim_to_be_gone(mngr: MngrProgram, boxes: Boxes) -> None:
    """mngr asks the engine instead, because `gc` removes everything about a host that is gone."""
    boxes.lie("h1", "echo 'there is no box h1' >&2; exit 1")
    assert mngr.get_agent("foo")["state"] == "UNKNOWN"
    mngr("gc", code=None)
    boxes.lie("h1", "")
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    (boxes.place / "deaf").touch()  # An engine that does not answer has not confirmed it either.
    boxes.lie("h1", "echo 'there is no box h1' >&2; exit 1")
    assert mngr.get_agent("foo")["state"] == "UNKNOWN"
    (boxes.place / "deaf").unlink()
    boxes.lose("h1")
    assert mngr.get_agent("foo")["host_state"] == "GONE"


def test_only_valid_facts_of_a_host_are_kept(mngr: MngrProgram, boxes: Boxes) -> None:
    boxes.lie("h2", "uname() { echo 'Linux\nguest 1\nopening exit\ndoing start'; }")
    mngr("create", "bar@h2.box", *RUN)
    mngr("destroy", "--force", "@h2.box")
    assert boxes.left() == ["h1"]
    invalid_lines = [
        "rest x",
        "env x",
        "engine x",
        "os \x1b[31m",
        "load nan",
        "load 1e5",
        "cpus \u00b2",
        "agents -1",
        "clock 1_0",
    ]
    answer = "\n".join(["home /x", "uid 0", "load 0.25", "os Linux", *invalid_lines, "@0;"])
    assert host_preparation.read_host_facts(Teller(answer), "box").facts == {
        "home": "/x",
        "uid": "0",
        "load": "0.25",
        "os": "Linux",
    }


@pytest.mark.parametrize("uid", ["²", "9" * 5000, "-1", "0\nhome x"])
def test_a_host_without_a_valid_user_is_rejected(mngr: MngrProgram, boxes: Boxes, uid: str) -> None:
    boxes.lie("h2", f"id() {{ echo '{uid}'; }}")
    assert "mngr does not understand the answer of h2" in mngr("create", "bar@h2.box", *RUN, code=6).err
    assert boxes.left() == ["h1"]


def test_invalid_numbers_in_git_state_and_clock_affect_nothing_else(mngr: MngrProgram, boxes: Boxes) -> None:
    boxes.lie("h1", f"date() {{ echo ²; }}; echo 'agent {'9' * 5000}\nclean\nagent 0\nclean\n{'9' * 5000}'")
    assert [a["name"] for a in mngr.run_json("list", "--git")["agents"]] == ["foo", "good"]
    assert "does not tell its time" in mngr("doctor", "@h1.box", code=None).out


def test_an_invalid_exit_code_of_a_stream_is_unreachable() -> None:
    host = RemoteHost("box", "x", Teller(""), "/nowhere", 0)
    for code in ("abc", "²", "9" * 5000):
        with pytest.raises(Unreachable):
            host_stream._parse_result(host, io.BytesIO(f"mngr-1:{code};".encode()), "mngr-1:")
        with pytest.raises(Unreachable):
            files._parse_exit(host, io.BytesIO(f"said\nmngr ended {code}".encode()))
    assert host_stream._parse_result(host, io.BytesIO(b"mngr-1:2;"), "mngr-1:").code == 2
    assert files._parse_exit(host, io.BytesIO(b"said\nmngr ended 2")) == (2, ["said"])
