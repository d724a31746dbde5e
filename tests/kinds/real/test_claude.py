"""The contract with the real Claude Code, and tests of its own features."""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mngr.base import time_format
from mngr.testkit.modelserver import ModelServer
from tests.conftest import IS_FULL_SCALE, MngrProgram, run_git, wait_for
from tests.kinds.real.kit import AgentContract, Steps, fake


class TestClaude(AgentContract):
    """The contract of every coding agent."""

    kind = "claude"
    obeys = ("/help", "!ls")
    asker = "AskUserQuestion"

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": model.url("claude"), "ANTHROPIC_AUTH_TOKEN": "hush-hush"}

    def impatient(self) -> tuple[str, ...]:
        return ("--env", "CLAUDE_CODE_MAX_RETRIES=1")

    def test_in_a_sandbox_it_reaches_only_its_model(self, fleet: MngrProgram, model: ModelServer) -> None:
        steps = [
            {"text": "on it", "sh": "echo hi > out.txt; git add .; git commit -qm work"},
            {"text": "done"},
        ]
        fleet("create", "foo", "claude", "--sandbox", "--yolo", "--no-connect", "-m", fake(steps))
        fleet("wait", "foo", "--timeout", "60")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        assert fleet("exec", "foo", "--", "cat", "out.txt").out == "hi\n"
        record = json.loads((fleet.home / "agents" / fleet.get_agent("foo")["id"] / "agent.json").read_text())
        assert record["network"] == f"allow=127.0.0.1:{model.port}"
        fleet("pull", "foo")
        assert run_git(fleet.repo, "show", "mngr/foo:out.txt") == "hi"

    def test_the_usage_of_sub_agents_is_counted(self, fleet: MngrProgram) -> None:
        task_input = {"description": "look", "prompt": "look around", "subagent_type": "general-purpose"}
        steps: Steps = [{"text": "asking", "tool": "Task", "input": task_input}, {"text": "both done"}]
        self.create(fleet, "foo", *self.yolo(fleet), message=fake(steps))
        fleet("wait", "foo", "--timeout", "60")
        rows = self.rows(fleet, "foo")
        assert rows[0]["role"] == "user" and "both done" in [row["text"] for row in rows]
        usage = [row["usage"] for row in rows if row["tool"] == "sub-agent"]
        assert len(usage) == 1 and usage[0]["input_tokens"] > 0
        # Claude may continue by itself once more when the sub-agent has finished.
        wait_for(
            lambda: self.tokens(fleet) == sum(r["usage"]["input_tokens"] for r in self.rows(fleet, "foo") if r["usage"])
        )

    def tokens(self, fleet: MngrProgram) -> int:
        (agent,) = fleet.run_json("list", "--fields", "name,usage")["agents"]
        return int(agent["usage"]["input_tokens"])

    def test_settings_can_define_a_new_kind(self, fleet: MngrProgram, model: ModelServer) -> None:
        settings = (
            "-S",
            "agents.critic.parent=claude",
            "-S",
            'agents.critic.args=["--append-system-prompt","You are a critic."]',
        )
        fleet(*settings, "create", "foo", "critic", "--no-connect", "-m", fake([{"text": "fine"}]))
        fleet("wait", "foo", "--timeout", "60")
        agent = fleet.get_agent("foo")  # this works without these settings too
        assert (agent["kind"], agent["state"]) == ("critic", "WAITING")
        assert "You are a critic." in (fleet.home / "agents" / agent["id"] / "command").read_text()
        assert self.rows(fleet, "foo")[-1]["text"] == "fine"
        assert (
            "it must be a built-in coding agent" in fleet("-S", "agents.x.parent=y", "create", "bar", "x", code=1).err
        )
        assert (
            "claude has no setting agents.claude.colour"
            in fleet("-S", "agents.claude.colour=red", "create", "bar", "claude", code=2).err
        )

    def test_it_accepts_an_api_key_and_resumes_a_conversation_of_the_user(self, fleet: MngrProgram) -> None:
        """Claude does not ask about a key that only the agent has. The user's conversation stays unchanged."""
        options = ("--env", "ANTHROPIC_AUTH_TOKEN=", "--env", "ANTHROPIC_API_KEY=sk-ant-" + "hush-hush" * 5)
        self.create(fleet, "foo", *options, message=fake([{"text": "fine"}]))
        fleet("wait", "foo", "--timeout", "60")
        (conversation,) = (fleet.home / "agents").glob("*/claude/projects/*/*.jsonl")
        user_conversation = Path(fleet.env["HOME"]) / ".claude/projects/-elsewhere" / conversation.name
        user_conversation.parent.mkdir(parents=True)
        user_conversation.write_bytes(before := conversation.read_bytes())
        self.create(fleet, "bar", "--resume", conversation.stem, message=fake([{"text": "on"}], "more"))
        fleet("wait", "bar", "--timeout", "60")
        answers = [row["text"] for row in self.rows(fleet, "bar") if row["role"] == "assistant"]
        assert (answers[0], answers[-1]) == ("fine", "on") and user_conversation.read_bytes() == before
        assert conversation.stem in fleet("create", "baz", "claude", "--resume", "nope", code=1).err

    def test_limits_are_recognized_and_tokens_stay_secret(self, fleet: MngrProgram) -> None:
        login = ("--env", "ANTHROPIC_AUTH_TOKEN=", "--env", "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-hush-hush")
        self.create(fleet, "foo", *login)
        retried = fake([{"text": "fine", "fail": {"status": 529, "times": 3}}])
        fleet("message", "foo", "-m", retried)
        wait_for(lambda: self.state(fleet, "foo") == ("RUNNING", "retrying"))
        fleet("wait", "foo", "--timeout", "60")
        until = int(time.time()) // 3600 * 3600 + 2 * 3600
        unified = "anthropic-ratelimit-unified"
        headers = {
            f"{unified}-status": "rejected",
            f"{unified}-reset": str(until),
            f"{unified}-representative-claim": "five_hour",
        }
        fleet(
            "message",
            "foo",
            "-m",
            fake([{"text": "x", "fail": {"status": 429, "times": -1, "headers": headers}}]),
        )
        fleet("wait", "foo", "--state", "PARKED", "--timeout", "60")
        agent = fleet.get_agent("foo")
        assert (agent["state_reason"], agent["parked_until"]) == ("quota", time_format.format_timestamp(until))
        self.keeps_secrets(fleet, agent["pid"])

    def keeps_secrets(self, fleet: MngrProgram, pid: int) -> None:
        """Check that the token is only in the environment and in the one file that sets it."""
        assert b"hush-hush" in Path(f"/proc/{pid}/environ").read_bytes()
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert b"hush-hush" not in process.read_bytes()
            except OSError:
                continue
        holders = [path for path in fleet.home.rglob("*") if path.is_file() and b"hush-hush" in path.read_bytes()]
        assert [path.name for path in holders] == ["env"] and holders[0].stat().st_mode & 0o077 == 0
        for command in (
            ("events", "foo"),
            ("transcript", "foo"),
            ("explain", "foo"),
            ("list", "--format", "json"),
        ):
            assert "hush-hush" not in fleet(*command).out
        assert fleet("exec", "foo", "--", "printenv", "CLAUDE_CONFIG_DIR").out.startswith(str(fleet.home))
        assert not (Path(fleet.env["HOME"]) / ".claude").exists()  # the user's own configuration is untouched

    def test_messages_of_many_senders_arrive_in_the_order_of_each(self, fleet: MngrProgram) -> None:
        total, senders = (200, 8) if IS_FULL_SCALE else (16, 4)
        self.create(fleet, "foo", message=fake([{"text": "fine"}] * 1000))
        fleet("wait", "foo", "--timeout", "60")
        # Some versions leave a taken message in the input box.
        fleet.run_tmux("send-keys", "-t", "=foo:", "left over 77", "Home")
        wait_for(lambda: "left over 77" in fleet("capture", "foo").out)

        def send(sender: int) -> None:
            for number in range(total // senders):
                text = f"sender {sender} number {number}"
                fleet("message", "foo", "-m", text, "--timeout", "100", timeout=120)

        with ThreadPoolExecutor(senders) as pool:
            list(pool.map(send, range(senders)))
        fleet("wait", "foo", "--timeout", "60")
        messages = [row["text"].strip() for row in self.rows(fleet, "foo") if row["role"] == "user"]
        numbers = [tuple(int(n) for n in re.findall(r"\d+", text)) for text in messages[1:]]
        assert sorted(numbers) == [(s, n) for s in range(senders) for n in range(total // senders)]
        for sender in range(senders):
            assert [n for s, n in numbers if s == sender] == list(range(total // senders))

    if IS_FULL_SCALE:

        def test_twenty_agents_work_at_the_same_time(self, fleet: MngrProgram) -> None:
            names = [f"foo-{number}" for number in range(1, 21)]
            wait_options = ("--wait", "--timeout", "180")
            started_at = time.monotonic()
            hello = fake([{"text": "hello"}], "to begin")
            fleet("create", "foo", "claude", "--count", "20", "--no-connect", "-m", hello, timeout=120)
            print(f"made and told in {time.monotonic() - started_at:.1f} s")
            steps: Steps = [{"sh": "git status"}, {"text": "seen"}]
            fleet("message", *names, "-m", fake(steps, "to all"), *wait_options, timeout=200)

            def send(name: str) -> None:
                fleet("message", name, "-m", fake([{"text": f"I am {name}"}], name), *wait_options, timeout=200)

            with ThreadPoolExecutor(len(names)) as pool:
                list(pool.map(send, names))
            agents = fleet.run_json("list")["agents"]
            assert {(agent["state"], agent["state_reason"]) for agent in agents} == {("WAITING", "end_of_turn")}
            for name in names:
                rows = [row for row in self.rows(fleet, name) if row["role"] != "tool" and row["text"]]
                conversation = [(row["role"], row["text"].rpartition("</fake> ")[2].strip()) for row in rows]
                questions = [("user", "to begin"), ("user", "to all"), ("user", name)]
                answers = [("assistant", text) for text in ("hello", "seen", f"I am {name}")]
                assert conversation == [row for pair in zip(questions, answers, strict=True) for row in pair]
            fleet("destroy", "--force", *names, timeout=120)
            assert fleet.run_json("list")["agents"] == []
            assert [agent["name"] for agent in agents if Path(f"/proc/{agent['pid']}").exists()] == []

    def test_states_are_right_over_many_turns_with_faults(self, fleet: MngrProgram) -> None:
        """The kind of each turn is known before, and the states during and after it must match."""
        turns, seed = (500, random.randrange(1 << 30)) if IS_FULL_SCALE else (8, 7)
        print(f"seed {seed}, {turns} turns")
        rng = random.Random(seed)
        self.create(fleet, "foo", "--env", "CLAUDE_CODE_MAX_RETRIES=2", message=fake([{"text": "fine"}]))
        fleet("wait", "foo", "--timeout", "60")
        for number in range(turns):
            turn_kind = rng.choice(("plain", "tool", "ask", "refuse", "retry", "cut", "limit", "login", "escape"))
            self.play(fleet, turn_kind, f"turn {number} {turn_kind}")

    def play(self, fleet: MngrProgram, turn_kind: str, text: str) -> None:
        """Play one turn and check its states."""
        end = ("WAITING", "end_of_turn")
        ok: Steps = [{"text": "ended"}]
        asks: Steps = [{"sh": "echo hi > out.txt"}, *ok]
        faults: dict[str, Steps] = {
            "retry": [{"text": "x", "fail": {"status": 529, "times": 1}}],
            "cut": [{"text": "a long answer", "cut": 2}],
            "limit": [{"text": "x", "fail": {"status": 429, "times": -1}}],
            "login": [{"text": "x", "fail": {"status": 401, "times": -1}}],
            "tool": [{"sh": "git status"}, *ok],
            "ask": asks,
            "refuse": asks,
            "escape": [{"text": "x", "delay": 30}],
        }
        fleet("message", "foo", "-m", fake(faults.get(turn_kind, ok), text))
        state = self.state(fleet, "foo")
        if turn_kind == "escape":
            assert state[0] == "RUNNING", text
            fleet("exec", "foo", "--", "true")
            tmux = [
                "tmux",
                "-S",
                str((fleet.home / "tmux.socket").readlink()),
                "send-keys",
                "-t",
                "=foo:",
                "Escape",
            ]
            subprocess.run(tmux, check=True)
        fleet("wait", "foo", "--timeout", "60")
        if turn_kind in ("ask", "refuse"):
            assert self.state(fleet, "foo") == ("WAITING", "permission"), text
            fleet("message", "foo", "--allow" if turn_kind == "ask" else "--deny")
            fleet("wait", "foo", "--timeout", "60")
            # Some versions write the question to their transcript only when it is answered.
            rows = self.rows(fleet, "foo")
            first = next(number for number, row in enumerate(rows) if text in row["text"])
            assert "Bash" in [row["tool"] for row in rows[first:]], text
        expected = {"limit": ("PARKED", "rate_limit"), "login": ("PARKED", "login")}.get(turn_kind, end)
        assert self.state(fleet, "foo") == expected, text
        if turn_kind not in ("escape", "refuse"):
            assert self.rows(fleet, "foo")[-1]["role"] == "assistant", text


class TestClaudeBefore(TestClaude):
    """The contract with an older version, which npm installs by itself if node is not the newest."""

    version = "2.1.197"
