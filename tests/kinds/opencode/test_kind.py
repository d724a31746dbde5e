"""The opencode plugin with events recorded from the real program, and the configuration derived from a user's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mngr.base.errors import MngrError, NotFound
from mngr.base.model import AgentRecord
from mngr.base.paths import Home
from mngr.host import scripts
from mngr.host.protocol import Host
from mngr.kinds.opencode import kind as opencode
from mngr.kinds.opencode import user_conversations
from mngr.kinds.opencode.kind import OpencodeKind
from mngr.providers.local import LocalProvider
from tests.support.paths import ROOT

CORPUS = ROOT / "tests/corpus/opencode"
PLAY = Path(__file__).with_name("opencode_play.mjs")
READY = ("WAITING", "end_of_turn")
BUSY = ("RUNNING", "")
ASKS = ("WAITING", "permission")
in_node = pytest.mark.agents  # Node.js runs the plugin


class Played:
    """What the plugin wrote and requested for a recording."""

    def __init__(self, directory: Path, recording: Path, **env: str) -> None:
        for name in ("inbox", "opencode"):
            (directory / name).mkdir(exist_ok=True)
        plugin = directory / "opencode.mjs"
        plugin.write_text(scripts.read_program_beside(str(opencode.__file__), "opencode.js"))
        variables = {**os.environ, "MNGR_AGENT_DIR": str(directory), "MNGR_WORK_DIR": "/here", **env}
        result = subprocess.run(
            ["node", PLAY, plugin, recording],
            env=variables,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        output = json.loads(result.stdout)
        self.directory = directory
        self.statuses: list[dict[str, Any]] = output["states"]
        self.states = [(row["state"], row["reason"]) for row in self.statuses]
        self.posts: list[Any] = output["posts"]
        self.left: list[int] = output["left"]

    def rows(self, name: str) -> list[dict[str, Any]]:
        path = self.directory / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def said(self) -> list[tuple[str, str]]:
        """The conversation as (role, text or tool)."""
        return [(row["role"], row.get("tool") or row["text"]) for row in self.rows("transcript.jsonl")]


@in_node
@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("tool", [READY, BUSY, ASKS, BUSY, READY]),
        ("helper", [READY, BUSY, ASKS, BUSY, READY]),
        ("question", [READY, BUSY, ("WAITING", "question"), BUSY, READY]),
        ("interrupt", [READY, BUSY, READY]),
        ("busy", [READY, BUSY, ASKS, BUSY, READY]),
        ("retry", [READY, BUSY, ("RUNNING", "retrying"), BUSY, READY]),
        ("far", [READY, BUSY, ("PARKED", "quota"), READY]),
        ("quota", [READY, BUSY, ("PARKED", "quota")]),
        ("login", [READY, BUSY, ("PARKED", "login")]),
        ("cut", [READY, BUSY, ("RUNNING", "retrying"), BUSY, READY]),
    ],
)
def test_recorded_events_lead_to_the_expected_states(tmp_path: Path, name: str, states: list[tuple[str, str]]) -> None:
    played = Played(tmp_path, CORPUS / f"{name}.jsonl")
    assert played.states == states
    assert [row for row in played.rows("events.jsonl") if row["type"] == "fault"] == []


@in_node
def test_the_status_has_the_end_of_a_limit(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert Played(tmp_path / "a", CORPUS / "quota.jsonl").statuses[-1]["until"] == "2026-11-17T07:20:00.000Z"
    assert Played(tmp_path / "b", CORPUS / "far.jsonl").statuses[2]["until"] == "2026-11-16T05:55:27.053Z"


@in_node
def test_the_transcript_has_every_message_and_its_usage(tmp_path: Path) -> None:
    played = Played(tmp_path, CORPUS / "busy.jsonl")
    assert [(role, text[-8:]) for role, text in played.said] == [
        ("user", "/fake> b1"[-8:]),
        ("assistant", "first"),
        ("user", "/fake> b2"[-8:]),
        ("tool", "bash"),
        ("assistant", "d answer"),
    ]
    rows = played.rows("transcript.jsonl")
    assert [bool(row.get("usage")) for row in rows] == [False, False, False, True, True]
    assert rows[3]["usage"].keys() == {
        "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd",
    }  # fmt: skip
    assert {row["model"] for row in rows if row.get("usage")} == {"fake-model"}


@in_node
def test_text_before_a_tool_call_is_written_before_the_call_ends(tmp_path: Path) -> None:
    lines = [x for x in (CORPUS / "tool.jsonl").read_text().splitlines() if '"type": "permission.' not in x]
    text_line = next(number for number, line in enumerate(lines) if '"text": "on it"' in line)
    recording = tmp_path / "recording"
    recording.write_text("\n".join(lines[: text_line + 1]))
    assert Played(tmp_path, recording).said[1:] == [("assistant", "on it")]


@in_node
def test_text_before_an_interruption_is_kept(tmp_path: Path) -> None:
    played = Played(tmp_path, CORPUS / "interrupt.jsonl")
    assert played.said[-1][0] == "assistant" and played.said[-1][1].startswith("one two three")


@in_node
def test_the_usage_of_a_sub_agent_belongs_to_its_tool_call(tmp_path: Path) -> None:
    played = Played(tmp_path, CORPUS / "helper.jsonl")
    assert [role for role, _ in played.said] == ["user", "assistant", "tool", "assistant"]
    parts = [
        json.loads(line)["properties"].get("part", {}) for line in (CORPUS / "helper.jsonl").read_text().splitlines()
    ]
    tokens = sum(part["tokens"]["input"] for part in parts if part.get("type") == "step-finish")
    rows = played.rows("transcript.jsonl")
    assert sum(row["usage"]["input_tokens"] for row in rows if row.get("usage")) == tokens
    assert [row["usage"]["calls"] for row in rows if "calls" in (row.get("usage") or {})] == [2]
    assert [row["type"] for row in played.rows("events.jsonl")].count("turn_end") == 1


@in_node
def test_the_message_of_a_refused_login_is_not_stored(tmp_path: Path) -> None:
    played = Played(tmp_path, CORPUS / "login.jsonl")
    assert "x-api-key" not in json.dumps(played.rows("events.jsonl"))


@in_node
def test_a_message_counts_as_delivered_when_opencode_has_stored_it(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    first = (CORPUS / "busy.jsonl").read_text().splitlines()[:2]
    recording.write_text("\n".join([json.dumps({"box": "1.message", "text": "hi", "after": 0}), *first]))
    played = Played(tmp_path, recording)
    assert played.posts == [
        ["/session", {}],
        ["/tui/select-session", {"sessionID": "ses_new"}],
        ["/session/ses_new/prompt_async", {"parts": [{"type": "text", "text": "hi"}]}],
    ]
    assert [row["type"] for row in played.rows("events.jsonl")] == ["ready", "message"]


@in_node
def test_a_message_waits_until_the_answer_to_the_last_one_has_begun(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (CORPUS / "busy.jsonl").read_text().splitlines()]
    roles = [row["properties"].get("info", {}).get("role") for row in rows]
    answer = rows[roles.index("assistant")]
    message = {"box": "1.message", "text": "hi", "after": 0, "stays": True}
    recorded = [
        *rows[:2],
        message,
        {"box": "2.deny", "after": 0},
        answer,
    ]  # once it has taken the second file, it has also seen the first
    recording = tmp_path / "recording"
    recording.write_text("\n".join(json.dumps(row) for row in recorded))
    played = Played(tmp_path, recording)
    assert played.left == [0, 0, 1, 1, 0]
    assert [body["parts"][0]["text"] for _, body in played.posts] == ["hi"]


@in_node
def test_a_message_at_the_end_of_a_turn_begins_the_next_turn(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (CORPUS / "retry.jsonl").read_text().splitlines()]
    end = next(
        n
        for n, row in enumerate(rows)
        if row["type"] == "session.status" and row["properties"]["status"]["type"] == "idle"
    )
    message, part = json.loads(json.dumps(rows[:2]))
    message["properties"]["info"]["id"] = part["properties"]["part"]["messageID"] = "msg_late"
    part["properties"]["part"]["id"] = "prt_late"
    recording = tmp_path / "recording"
    recording.write_text("\n".join(json.dumps(row) for row in [*rows[:end], message, part, *rows[end:]]))
    assert Played(tmp_path, recording).states == [READY, BUSY, ("RUNNING", "retrying"), BUSY]


@in_node
def test_an_answer_given_before_the_question_does_not_count(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    ask = {
        "type": "permission.asked",
        "properties": {"id": "per_1", "permission": "bash", "patterns": ["ls"]},
    }
    rows = [ask, {"box": "1.allow", "after": -10}, {"box": "2.deny", "after": 10}]
    recording.write_text("\n".join(json.dumps(row) for row in rows))
    assert Played(tmp_path, recording).posts == [["/permission/per_1/reply", {"reply": "reject"}]]


def play_in_another_work_dir(directory: Path, **env: str) -> Played:
    (directory / "opencode").mkdir()
    (directory / "opencode/session").write_text("ses_old\n/there\n")
    recording = directory / "recording"
    rows = (CORPUS / "cut.jsonl").read_text().splitlines()
    recording.write_text("\n".join(row for row in rows if '"type": "message.' in row) if env else "{}")
    return Played(directory, recording, **env)


@in_node
def test_a_conversation_from_another_directory_is_moved_here(tmp_path: Path) -> None:
    played = play_in_another_work_dir(tmp_path)
    request = {"sessionID": "ses_old", "destination": {"directory": "/here"}}
    assert played.posts[0] == ["/experimental/control-plane/move-session", request]
    assert (tmp_path / "opencode/session").read_text() == "ses_old\n/here\n"
    assert played.rows("events.jsonl")[0]["data"] == {"resumed": True}


@in_node
def test_a_conversation_that_cannot_be_moved_is_copied_without_repeated_rows(tmp_path: Path) -> None:
    played = play_in_another_work_dir(tmp_path, IMMOVABLE="1")
    assert played.posts[1] == ["/session/ses_old/fork", {}]
    assert (tmp_path / "opencode/session").read_text() == "ses_new\n/here\n"
    assert (played.states, played.said) == ([READY], [])


def test_an_exported_conversation_is_converted_to_the_schema() -> None:
    rows = list(user_conversations.parse_export(json.loads((CORPUS / "exported.json").read_text())))
    assert [(row.role, row.tool or row.text[-9:]) for row in rows] == [
        ("user", "/fake> go"),
        ("assistant", "on it"),
        ("tool", "bash"),
        ("assistant", "all done"),
    ]
    assert [row.usage.cost_usd for row in rows if row.usage] == [0.024741, 0.024855]
    assert str(rows[2].output).startswith("XDG_") and rows[2].at == "2026-11-16T04:40:21.594Z"


def test_an_unknown_conversation_is_not_found(user: Path) -> None:
    with pytest.raises(NotFound, match="no conversation 'ses_x'"):
        OpencodeKind("opencode", dict).get_user_conversation("ses_x")


# The configuration.


def test_a_sandbox_allows_the_addresses_of_the_configured_models(user: Path) -> None:
    kind = OpencodeKind("opencode", dict)
    assert kind.list_model_addresses({}) == ()
    assert kind.list_model_addresses({"OPENAI_API_KEY": "k"}) == ("api.openai.com:443",)
    (user / ".local/share/opencode/auth.json").write_text('{"anthropic": {"type": "api", "key": "k"}}')
    provider = {"mine": {"options": {"baseURL": "{env:WHERE}/v1"}}}
    (user / ".config/opencode/opencode.json").write_text(json.dumps({"provider": provider}))
    assert kind.list_model_addresses({"WHERE": "http://box:8080"}) == ("box:8080", "api.anthropic.com:443")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for name in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    (tmp_path / "user/.config/opencode").mkdir(parents=True)
    (tmp_path / "user/.local/share/opencode").mkdir(parents=True)
    return tmp_path / "user"


def make_record(**fields: Any) -> AgentRecord:
    return AgentRecord(
        id="a-0123456789ab", name="foo", kind="opencode", phase="ready", project="p", source=None,
        work_dir="/w", transfer="none", created_at="2026-11-16T04:00:00.000Z", **fields,
    )  # fmt: skip


def prepare(tmp_path: Path, settings: dict[str, Any], **fields: Any) -> tuple[Path, dict[str, Any]]:
    """Return the directory of a prepared agent, and its configuration."""
    home = Home(str(tmp_path / "home"))
    host: Host = LocalProvider(home).open("local")
    record = make_record(**fields)
    agent_dir = Path(home.agent_dir(record.id))
    agent_dir.mkdir(parents=True)
    OpencodeKind("opencode", lambda: settings).prepare(host, record)
    return agent_dir, json.loads((agent_dir / "opencode/config/opencode/opencode.json").read_text())


MINE = """{
  // how I find my model
  "model": "p/m", "provider": {"p": {"options": {"apiKey": "{env:MY_KEY}", "x": "{file:key}", "u": "http://h//x"}}},
  "mcp": {"s": {"type": "local"}}, "plugin": ["other"], "theme": "dark", /* and so on, */
}"""


def test_by_default_only_the_model_settings_of_the_user_are_copied(tmp_path: Path, user: Path) -> None:
    (user / ".config/opencode/opencode.jsonc").write_text(MINE)
    (user / ".config/opencode/key").write_text('se"cret\n')
    agent_dir, config = prepare(tmp_path, {})
    assert config["model"] == "p/m"
    options = config["provider"]["p"]["options"]
    assert options == {"apiKey": "{env:MY_KEY}", "x": 'se"cret', "u": "http://h//x"}
    assert not {"mcp", "theme"} & set(config)
    assert config["plugin"] == [(agent_dir / "opencode.js").as_uri()]
    assert config["permission"]["bash"] == "ask"
    assert (user / ".config/opencode/opencode.jsonc").read_text() == MINE


def test_an_invalid_configuration_is_named_in_the_error(user: Path) -> None:
    (user / ".config/opencode/opencode.json").write_text('{"model": ')
    with pytest.raises(MngrError, match=r"opencode\.json is not JSON"):
        OpencodeKind("opencode", dict).get_user_variables()


def test_carry_copies_the_chosen_settings_and_files(tmp_path: Path, user: Path) -> None:
    (user / ".config/opencode/opencode.jsonc").write_text(MINE)
    (user / ".config/opencode/AGENTS.md").write_text("be kind")
    (user / ".config/opencode/command").mkdir()
    (user / ".config/opencode/command/x.md").write_text("x")
    agent_dir, config = prepare(tmp_path, {"carry": ["settings", "mcp", "memory"]})
    assert (config["theme"], config["mcp"]) == ("dark", {"s": {"type": "local"}})
    assert len(config["plugin"]) == 1
    assert (agent_dir / "opencode/config/opencode/AGENTS.md").read_text() == "be kind"
    assert not (agent_dir / "opencode/config/opencode/command").exists()


def test_yolo_overrides_the_permissions_of_a_project(tmp_path: Path, user: Path) -> None:
    kind, host = OpencodeKind("opencode", dict), LocalProvider(Home(str(tmp_path / "home"))).open("local")
    careful, yolo = (kind.build_variables(host, make_record(options=options)) for options in ({}, {"yolo": True}))
    assert "OPENCODE_PERMISSION" not in careful
    assert json.loads(yolo["OPENCODE_PERMISSION"]) == {"**": "allow"}


def test_variables_named_in_the_configuration_are_passed(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (user / ".config/opencode/opencode.jsonc").write_text(MINE)
    monkeypatch.setenv("MY_KEY", "k")
    monkeypatch.setenv("OTHER_KEY", "o")
    variables = OpencodeKind("opencode", dict).get_user_variables()
    assert variables["MY_KEY"] == "k" and "OTHER_KEY" not in variables


def test_a_login_is_linked_locally_and_copied_into_a_sandbox(tmp_path: Path, user: Path) -> None:
    auth = user / ".local/share/opencode/auth.json"
    auth.write_text(json.dumps({"p": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}}))
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    (tmp_path / "3").mkdir()
    name = "opencode/data/opencode/auth.json"
    assert (prepare(tmp_path / "1", {})[0] / name).readlink() == auth
    copied = (prepare(tmp_path / "2", {}, sandbox=True)[0] / name).read_text()
    assert json.loads(copied)["p"] == {"type": "oauth", "access": "a", "refresh": "", "expires": 1}
    assert not (prepare(tmp_path / "3", {"login": "none"})[0] / name).exists()
