"""Tests `mngr notify --follow` with real agents, a real web server and kill -9."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.mapreduce.run_repo import register_run
from mngr.notifications.outbox import read_outbox
from tests.conftest import MngrProgram, wait_for
from tests.support.notify_follower import Follower, configure, wait_for_count
from tests.support.runfolder import RunFolder
from tests.support.web_receiver import Received, WebReceiver


def list_titles(receiver: WebReceiver) -> list[str]:
    return [item["title"] for item in receiver.list_json()]


def test_a_permission_is_sent_with_its_question_and_a_command_that_answers_it(
    mngr: MngrProgram, to_receiver: WebReceiver
) -> None:
    with Follower(mngr) as follower:
        mngr("create", "foo", "player", "--", '[{"permission": "may I\\u001b[31m push?"}, {"exit": 0}]')
        mngr("message", "foo", "-m", "go")
        (item,) = wait_for_count(to_receiver, 1)
        assert (item["event"], item["question"]) == ("permission", "may I push?")
        assert item["text"].startswith("foo asks for permission: “may I push?” | mngr message foo --allow")
        assert "foo asks for permission" in follower.read_line()
    command = item["commands"][0].split()
    assert command[0] == "mngr"
    mngr(*command[1:])
    mngr("wait", "foo", "--state", "DONE")


def test_programs_can_read_the_notifications_from_standard_output(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    with Follower(mngr, "--format", "jsonl") as follower:
        mngr("create", "foo", "--label", "team=red", "--", "false")
        row = json.loads(follower.read_line())
        (item,) = wait_for_count(to_receiver, 1)
    assert row == item


def test_failures_logins_and_ended_turns_are_sent_and_stops_are_not(
    mngr: MngrProgram, to_receiver: WebReceiver
) -> None:
    with Follower(mngr):
        mngr("create", "bar", "--", "sh", "-c", "exit 3")
        mngr("create", "done", "--", "true")
        mngr("create", "stopped", "--", "sleep", "1000")
        mngr("stop", "stopped")
        mngr("create", "gone", "--", "sleep", "1000")
        mngr("destroy", "--force", "gone")
        mngr("create", "foo", "player", "--", '[{"park": {"reason": "quota", "seconds": 100}}, {"park": "login"}]')
        for _ in range(3):
            mngr("message", "foo", "-m", "go", "--wait")
        wait_for_count(to_receiver, 3)
    titles = ["bar has failed (exit 3)", "foo has ended its turn and waits for you", "foo needs a login"]
    assert sorted(list_titles(to_receiver)) == titles


def test_an_agent_whose_process_vanished_is_reported_once_although_no_event_says_so(
    mngr: MngrProgram, to_receiver: WebReceiver
) -> None:
    mngr("create", "foo", "player", "--", '[{"crash": "lost"}]')
    with Follower(mngr):
        mngr("message", "foo", "-m", "go", code=None)
        (item,) = wait_for_count(to_receiver, 1)
        assert (item["event"], item["state_reason"]) == ("failed", "lost")
    with Follower(mngr):
        mngr("create", "bar", "--", "false")
        wait_for_count(to_receiver, 2)
    assert list_titles(to_receiver) == ["foo has failed (lost)", "bar has failed (exit 1)"]


def test_changes_before_the_first_start_are_not_sent(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    mngr("create", "old", "--", "false")
    mngr("wait", "old", "--state", "FAILED")
    with Follower(mngr):
        mngr("create", "new", "--", "false")
        wait_for_count(to_receiver, 1)
    assert list_titles(to_receiver) == ["new has failed (exit 1)"]


def test_a_long_past_before_the_first_start_is_not_sent_either(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    row = {"v": 1, "type": "permission", "source": "hook", "data": {"text": "x" * 1000}}
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 600))
    with open(mngr.get_agent_dir("foo") / "events.jsonl", "a", encoding="utf-8") as file:
        file.write("".join(json.dumps({**row, "at": at, "n": n}) + "\n" for n in range(700)))  # more than two reads
    with Follower(mngr):
        mngr("create", "new", "--", "false")
        wait_for_count(to_receiver, 1)
        mngr("stop", "foo")
        mngr("create", "last", "--", "false")
        wait_for_count(to_receiver, 2)
    assert list_titles(to_receiver) == ["new has failed (exit 1)", "last has failed (exit 1)"]


def test_the_failure_of_an_agent_without_events_is_sent(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    mngr(
        "create",
        "foo",
        "--",
        "sh",
        "-c",
        'read x; rm "$MNGR_AGENT_DIR/events.jsonl"; mkdir "$MNGR_AGENT_DIR/events.jsonl"; exit 3',
    )
    with Follower(mngr):
        mngr("message", "foo", "-m", "go", code=None)
        wait_for_count(to_receiver, 1)
    assert list_titles(to_receiver) == ["foo has failed (exit 3)"]


def test_changes_while_no_follower_runs_are_sent_by_the_next_one(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    mngr("create", "foo", "player", "--", '[{"ask": "one?"}, {"ask": "two?"}, {"reply": "end"}]')
    with Follower(mngr) as follower:
        mngr("message", "foo", "-m", "go", "--wait")
        wait_for_count(to_receiver, 1)
        follower.kill()
    mngr("message", "foo", "-m", "a", "--wait")
    mngr("message", "foo", "-m", "b", "--wait")
    mngr("create", "bar", "--", "false")
    mngr("wait", "bar", "--state", "FAILED")
    with Follower(mngr):
        items = wait_for_count(to_receiver, 4)
    assert sorted(item["question"] for item in items) == ["", "end", "one?", "two?"]
    assert len({item["id"] for item in items}) == 4


def test_changes_that_are_too_old_are_not_sent(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    with Follower(mngr):
        mngr("create", "foo", "--", "false")
        wait_for_count(to_receiver, 1)
    mngr("create", "bar", "--", "false")
    mngr("wait", "bar", "--state", "FAILED")
    path = mngr.get_agent_dir("bar") / "events.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "at": "2026-01-01T00:00:00.000Z"}) + "\n" for row in rows))
    with Follower(mngr):
        mngr("create", "new", "--", "false")
        wait_for_count(to_receiver, 2)
    assert list_titles(to_receiver) == ["foo has failed (exit 1)", "new has failed (exit 1)"]


def test_a_kill_while_a_channel_works_repeats_at_most_this_notification_with_its_id(
    mngr: MngrProgram, to_receiver: WebReceiver
) -> None:
    hanging: list[Received] = []

    def answer(request: Received) -> int | None:
        if not hanging:
            hanging.append(request)
            return None
        return 200

    to_receiver.answer = answer
    with Follower(mngr) as follower:
        for name in ("a", "b", "c"):
            mngr("create", name, "--", "false")
        wait_for_count(to_receiver, 1)
        wait_for(lambda: len(read_outbox(Home(str(mngr.home))).entries) == 3)
        follower.kill()
    with Follower(mngr):
        items = wait_for_count(to_receiver, 4)
        wait_for(lambda: "not sent" not in mngr("notify").out)
    ids = [item["id"] for item in items]
    assert len(ids) == 4 and len(set(ids)) == 3
    assert ids.count(hanging[0].parse_json()["id"]) == 2


def test_a_second_follower_of_the_home_says_so_and_exits_with_1(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    with Follower(mngr) as follower:
        result = mngr("notify", "--follow", code=1)
        assert f"process {follower.process.pid}" in result.err and "Hint: " in result.err
        follower.kill()
    with Follower(mngr) as follower:
        assert follower.process.poll() is None


def test_a_channel_that_hangs_delays_no_other_and_its_failure_can_be_listed(
    mngr: MngrProgram, receiver: WebReceiver, tmp_path: Path
) -> None:
    receiver.answer = lambda request: None
    log = tmp_path / "log"
    configure(mngr, channels='["webhook", "command"]', webhook_url=receiver.url, timeout="2s")
    configure(mngr, command=f'printf "%s %s\\n" "$(date +%s.%N)" "$1" >>{log}')
    with Follower(mngr) as follower:
        for number in range(3):
            mngr("create", f"a{number}", "--", "false")
        created_at = time.time()
        wait_for(lambda: log.exists() and len(log.read_text().splitlines()) == 3)
        assert all(float(line.split()[0]) < created_at + 3.0 for line in log.read_text().splitlines())
        wait_for(lambda: "webhook: 127.0.0.1 did not answer within 2s; mngr tries again" in follower.read_stderr())
        rows = mngr.run_json("notify")["notifications"]
        results = {(delivery["channel"], delivery["ok"]) for row in rows for delivery in row["deliveries"]}
        assert results == {("command", True), ("webhook", None)}
        assert "webhook: will try again after 1 of 5 attempts" in mngr("notify").out


def test_a_failed_notification_is_tried_again_and_waits_behind_no_other(
    mngr: MngrProgram, to_receiver: WebReceiver
) -> None:
    def answer(request: Received) -> int:
        has_next = any(item["name"] == "b" for item in to_receiver.list_json())
        return 200 if has_next else 503

    to_receiver.answer = answer
    with Follower(mngr):
        mngr("create", "a", "--", "false")
        wait_for_count(to_receiver, 1)
        mngr("create", "b", "--", "false")
        wait_for(lambda: [item["name"] for item in to_receiver.list_json()][-2:] == ["b", "a"], 40.0)
    items = to_receiver.list_json()
    assert len({item["id"] for item in items}) == 2


def test_a_final_error_of_the_server_is_not_tried_again(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    to_receiver.answer = lambda request: 404
    with Follower(mngr) as follower:
        mngr("create", "a", "--", "false")
        wait_for(lambda: "mngr gives up" in follower.read_stderr())
    assert len(to_receiver.requests) == 1
    assert "gave up after 1 of 5 attempts: 127.0.0.1 answered with HTTP status 404" in mngr("notify").out


def test_the_filter_selects_by_the_fields_of_a_notification(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    with Follower(mngr, "--filter", "event == done and labels.team == red"):
        mngr("create", "a", "--", "true")
        mngr("create", "b", "--label", "team=red", "--", "false")
        mngr("create", "c", "--label", "team=red", "--", "true")
        wait_for_count(to_receiver, 1)
    assert list_titles(to_receiver) == ["c is done"]


def test_an_agent_that_writes_its_own_events_cannot_flood_a_person(mngr: MngrProgram, to_receiver: WebReceiver) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    row = {"v": 1, "at": "2999-01-01T00:00:00.000Z", "type": "permission", "source": "hook", "data": {}}
    with Follower(mngr) as follower:
        with open(mngr.get_agent_dir("foo") / "events.jsonl", "a", encoding="utf-8") as file:
            file.write("".join(json.dumps({**row, "agent": "x", "data": {"n": n}}) + "\n" for n in range(1000)))
        wait_for(lambda: "changes were not sent" in follower.read_stderr())
        wait_for_count(to_receiver, 200)
    assert len(to_receiver.requests) == 200


def test_alarms_and_ends_of_runs_are_sent_also_those_while_no_follower_runs(
    mngr: MngrProgram, to_receiver: WebReceiver
) -> None:
    mngr("list")
    folder = RunFolder(mngr.repo, "nightly")
    home = Home(str(mngr.home))
    with Follower(mngr) as follower:
        follower.kill()
    register_run(home, folder.run)
    links = Path(home.cache) / "runs"
    links.mkdir(parents=True, exist_ok=True)
    (links / "nightly").symlink_to(folder.run.path)

    def add_row(kind: str, **data: object) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 1))
        with open(folder.run.journal, "a", encoding="utf-8") as file:
            file.write(json.dumps({"v": 1, "at": at, "type": kind, **data}) + "\n")

    add_row("alarm", text="the login is \x1b[31mdead")
    with Follower(mngr):
        (alarm,) = wait_for_count(to_receiver, 1)
        add_row("ended", outcome="settled")
        _, end = wait_for_count(to_receiver, 2)
    assert (alarm["event"], alarm["run"], alarm["question"]) == ("alarm", "nightly", "the login is dead")
    assert alarm["commands"] == [f"cd {mngr.repo} && mngr tmr status nightly"]
    assert (end["event"], end["title"], end["question"]) == ("ended", "the run nightly has ended", "settled")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_follower_that_is_asked_to_end_saves_the_result_of_the_last_delivery(
    mngr: MngrProgram, to_receiver: WebReceiver, number: int, code: int
) -> None:
    with Follower(mngr) as follower:

        def answer(request: Received) -> int:
            os.kill(follower.process.pid, number)
            return 200

        to_receiver.answer = answer
        mngr("create", "a", "--", "false")
        assert follower.process.wait(10.0) == code
    assert "webhook: sent" in mngr("notify").out
