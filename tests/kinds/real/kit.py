"""The contract of every coding agent, checked with the real program: one class, and a subclass for each kind."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from mngr.kinds.coding_agent import FEATURES
from mngr.testkit.modelserver import ModelServer
from tests.conftest import MngrProgram, wait_for
from tests.support.paths import ROOT

PLACE = ROOT / ".agents"
Steps = list[dict[str, Any]]
ODD = "héllo 🌍 \"q\" 'a' `b` $HOME \\ %s\n\n```python\nprint('x')  # two\n```\n- last"
# A question in the form that every program's own tool accepts, and the names of these tools.
COLOURS = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
QUESTION = {
    "id": "colour",
    "question": "Which colour?",
    "header": "Colour",
    "type": "choice",
    "options": COLOURS,
}
ASKERS = ("AskUserQuestion", "request_user_input", "question", "ask_user")


def fake(steps: Steps, text: str = "go") -> str:
    """Return a message that contains the script for the model."""
    return f"<fake>{json.dumps(steps)}</fake> {text}"


class AgentContract:
    """The tests for one kind. A subclass sets `kind`, its `features`, and `env`, which points to the model."""

    kind = ""
    version = ""  # a version other than the pinned one
    features: tuple[str, ...] = FEATURES

    def env(self, model: ModelServer, coder: MngrProgram) -> dict[str, str]:
        """Return variables for `create`; may also write into the user's HOME."""
        raise NotImplementedError

    @pytest.fixture
    def fleet(self, coder: MngrProgram, model: ModelServer, tmp_path: Path) -> MngrProgram:
        model.reset()  # otherwise failures already played in one test would be missing in the next
        coder.env.update(self.env(model, coder))
        if self.version:
            program_dir = PLACE / f"{self.kind}@{self.version}" / "node_modules/.bin"
            assert program_dir.is_dir()
            coder.env["PATH"] = f"{program_dir}{os.pathsep}{coder.env['PATH']}"
        return coder

    def create(self, fleet: MngrProgram, name: str, *options: str, message: str = "hello") -> None:
        fleet("create", name, self.kind, "--no-connect", "-m", message, *options)

    def yolo(self, fleet: MngrProgram) -> tuple[str, ...]:
        """Return the options that switch off permission prompts, if the program has them."""
        fleet.env["MNGR__YOLO__ANYWHERE"] = "true"
        return ("--yolo",) if "permissions" in self.features else ()

    def rows(self, fleet: MngrProgram, name: str) -> list[dict[str, Any]]:
        transcript: list[dict[str, Any]] = fleet.run_json("transcript", name)["transcript"]
        return transcript

    def state(self, fleet: MngrProgram, name: str) -> tuple[str, str | None]:
        agent = fleet.get_agent(name)
        return agent["state"], agent["state_reason"]

    def work(self, fleet: MngrProgram, name: str) -> Path:
        return Path(fleet.get_agent(name)["work_dir"])

    # The tests.

    def test_it_works_to_the_end_of_its_turn(self, fleet: MngrProgram) -> None:
        steps: Steps = [{"text": "on it", "sh": "echo hi > out.txt"}, {"text": "all done"}]
        if "tools" not in self.features:
            steps = self.edit("out.txt", "hi\n")
        self.create(fleet, "foo", *self.yolo(fleet), message=fake(steps))
        fleet("wait", "foo", "--timeout", "60")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        assert (self.work(fleet, "foo") / "out.txt").read_text() == "hi\n"
        rows = self.rows(fleet, "foo")
        assert rows[0]["role"] == "user" and rows[0]["text"].startswith("<fake>")
        assert rows[-1]["role"] == "assistant"
        if "tools" in self.features:
            assert "all done" in rows[-1]["text"]
            assert [r["input"] for r in rows if r["role"] == "tool" and "echo hi" in json.dumps(r["input"])]
        assert all(row["at"] for row in rows)
        if "usage" in self.features:
            counts = [row["usage"] for row in rows if row["usage"]]
            assert counts and all(count["input_tokens"] > 0 for count in counts)
            assert all(row["model"] for row in rows if row["usage"])
        self.resumes(fleet)

    def edit(self, path: str, content: str) -> Steps:
        raise NotImplementedError

    def resumes(self, fleet: MngrProgram) -> None:
        """Check that the conversation survives a stop, a start and a clone."""
        before = self.rows(fleet, "foo")
        fleet("stop", "foo")
        assert self.rows(fleet, "foo") == before
        fleet("start", "foo")
        fleet("message", "foo", "-m", "once more", "--wait", "--timeout", "60")
        after = self.rows(fleet, "foo")
        assert after[: len(before)] == before
        assert [row["text"].strip() for row in after[len(before) :] if row["role"] == "user"] == ["once more"]
        fleet("clone", "foo", "bar")
        fleet("message", "bar", "-m", "and you", "--wait", "--timeout", "60")
        texts = [row["text"].strip() for row in self.rows(fleet, "bar") if row["role"] == "user"]
        assert texts[0].startswith("<fake>") and texts[-2:] == ["once more", "and you"]
        fleet("destroy", "--force", "bar")

    def test_messages_arrive_unchanged(self, fleet: MngrProgram) -> None:
        texts = [ODD, "0123456789 abcdef é\n" * 5000, "- a list\n- of two"]
        self.create(fleet, "foo", message="hello")
        for text in texts:
            fleet("message", "foo", "--wait", "--timeout", "90", stdin=text)
        received = [row["text"] for row in self.rows(fleet, "foo") if row["role"] == "user"]
        assert [text.rstrip() for text in received] == ["hello", *(text.rstrip() for text in texts)]
        if self.obeys:
            fleet("message", "foo", "-m", "a\ttab, which some make spaces", "--wait", "--timeout", "60")
            for text in self.obeys:
                result = fleet("message", "foo", "-m", text, code=1)
                assert "the program would run a message that starts with" in result.err

    obeys: tuple[str, ...] = ()

    def test_a_permission_is_waited_for(self, fleet: MngrProgram) -> None:
        if "permissions" not in self.features:
            return
        steps: Steps = [{"text": "may I", **self.asking("echo hi > out.txt")}, {"text": "all done"}]
        self.create(fleet, "foo", message=fake(steps))
        fleet("wait", "foo", "--timeout", "60")
        assert self.state(fleet, "foo") == ("WAITING", "permission")
        assert "is waiting for an answer" in fleet("message", "foo", "-m", "1", code=1).err
        assert not (self.work(fleet, "foo") / "out.txt").exists()
        fleet("message", "foo", "--allow", "--wait", "--timeout", "60")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        assert (self.work(fleet, "foo") / "out.txt").read_text() == "hi\n"
        fleet(
            "message",
            "foo",
            "--wait",
            "--timeout",
            "60",
            "-m",
            fake([self.asking("echo no > no.txt"), {"text": "ended"}]),
        )
        assert self.state(fleet, "foo") == ("WAITING", "permission")
        fleet("message", "foo", "--deny")
        fleet("wait", "foo", "--timeout", "60")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        assert not (self.work(fleet, "foo") / "no.txt").exists()
        assert "is not waiting for a permission" in fleet("message", "foo", "--allow", code=1).err

    def asking(self, command: str) -> dict[str, Any]:
        """Return a model's step for which the program asks before it runs a command."""
        return {"sh": command}

    def test_a_question_is_waited_for(self, fleet: MngrProgram) -> None:
        """A program without such questions continues to the end of its turn, whatever its model tries."""
        has_questions = "questions" in self.features
        tools = (self.asker,) if has_questions else ASKERS if "tools" in self.features else ()
        self.create(fleet, "foo", message=fake([*map(self.question, tools), {"text": "all done"}]))
        fleet("wait", "foo", "--timeout", "60")
        if has_questions:
            self.is_answered(fleet, "foo")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        rows = self.rows(fleet, "foo")
        assert rows[-1]["text"] == "all done"
        assert ["Red" in str(row["output"]) for row in rows if row["role"] == "tool"] == [has_questions] * len(tools)

    asker = ""  # the tool with which its model asks the user

    def question(self, tool: str) -> dict[str, Any]:
        return {"text": "one thing", "tool": tool, "input": {"questions": [QUESTION]}}

    def is_answered(self, fleet: MngrProgram, name: str) -> None:
        """Check that only a person at the screen can answer: any text or permission would choose an answer."""
        assert self.state(fleet, name) == ("WAITING", "question")
        result = fleet("message", name, "-m", "2", code=1)
        assert "is waiting for an answer" in result.err and f"mngr connect {name}" in result.err
        assert "is not waiting for a permission" in fleet("message", name, "--allow", code=1).err
        assert f"mngr connect {name}" in fleet.run_json("explain", name)["next_step"]
        wait_for(lambda: re.search(r"1\. +Red", fleet("capture", name).out))

        def is_over() -> bool:
            fleet.run_tmux(
                "send-keys", "-t", f"={name}:", "Enter"
            )  # the program may ignore a key while the question appears
            return self.state(fleet, name) != ("WAITING", "question")

        wait_for(is_over)
        fleet("wait", name, "--timeout", "60")

    def test_yolo_is_refused_where_more_is_at_stake(self, fleet: MngrProgram) -> None:
        if "permissions" not in self.features:
            assert "has no effect" in fleet("create", "foo", self.kind, "--yolo", code=2).err
            return
        result = fleet("create", "foo", self.kind, "--yolo", code=1)
        assert "without a sandbox" in result.err and "--sandbox" in result.err
        assert fleet.run_json("list")["agents"] == []

    def test_it_recovers_from_limits_refused_logins_and_crashes(self, fleet: MngrProgram) -> None:
        if "limits" in self.features:
            self.create(fleet, "foo", *self.impatient(), message="hello")
            reasons = {429: "rate_limit", 401: "login"}
            if self.relents:
                del reasons[429]
                self.tries_again(fleet)
            for status, reason in reasons.items():
                fail = {"status": status, "times": -1, "headers": self.soon}
                fleet("message", "foo", "-m", fake([{"text": "x", "fail": fail}], f"{status}"))
                fleet("wait", "foo", "--state", "PARKED", "--timeout", "60")
                assert self.state(fleet, "foo") == ("PARKED", reason)
            fleet("message", "foo", "-m", fake([{"text": "fine"}], "well again"), "--wait", "--timeout", "60")
            assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")
        else:
            self.create(fleet, "foo", message="hello")
        os.kill(fleet.get_agent("foo")["pid"], signal.SIGKILL)
        wait_for(lambda: fleet.get_agent("foo")["state"] == "FAILED")
        fleet("start", "foo")
        fleet("message", "foo", "-m", "back", "--wait", "--timeout", "60")
        received = [row["text"].strip() for row in self.rows(fleet, "foo") if row["role"] == "user"]
        assert (received[0], received[-1]) == ("hello", "back")

    def tries_again(self, fleet: MngrProgram) -> None:
        fail = {"status": 429, "times": self.relents}
        fleet("wait", "foo", "--timeout", "60")
        fleet("message", "foo", "-m", fake([{"text": "x", "fail": fail}], "429"))
        wait_for(lambda: self.state(fleet, "foo") == ("RUNNING", "retrying"))
        fleet("wait", "foo", "--timeout", "60")
        assert self.state(fleet, "foo") == ("WAITING", "end_of_turn")

    soon: dict[str, str] = {}  # response headers of a failure that make it retry at once
    relents = 0  # for a program that retries for long: the number of failures after which the model works again

    def impatient(self) -> tuple[str, ...]:
        """Return options for `create` that make the program give up soon."""
        return ()
