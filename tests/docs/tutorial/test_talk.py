"""Agents that receive messages, and how to follow what happens to them."""

from __future__ import annotations

import json
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents, run_all, work

STEPS = """\
cat > ../steps.json <<'EOF'
[{"reply": "good morning"}, "wait",
 {"write": {"path": "poem.txt", "content": "roses are red\\n"}}, {"commit": "Write a poem"}, {"ask": "another one?"},
 {"reply": "as you like"}]
EOF
mngr create poet player -- ../steps.json"""


@pytest.fixture
def poet(e2e: E2eSession, shop: object) -> None:
    """The scripted agent of this section, ready for messages."""
    run_all(e2e, STEPS, "mngr wait poet --state WAITING --timeout 20s")


def list_conversation(e2e: E2eSession, name: str) -> list[str]:
    """Return an agent's conversation, one line per message."""
    result = e2e.run(f"mngr transcript {name} --format json")
    expect(result).to_succeed()
    rows = json.loads(result.stdout)["transcript"]
    return [f"{row['role']}: {row['text']}" for row in rows if row["role"] in ("user", "assistant")]


def test_a_scripted_agent_receives_messages(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # create a scripted agent, which needs no model; it receives messages and carries out the steps of its script
    cat > ../steps.json <<'EOF'
    [{"reply": "good morning"}, "wait",
     {"write": {"path": "poem.txt", "content": "roses are red\\n"}}, {"commit": "Write a poem"}, {"ask": "another one?"},
     {"reply": "as you like"}]
    EOF
    mngr create poet player -- ../steps.json
    """)
    e2e.write_tutorial_block("""
    # send a message; mngr confirms that the agent has received it
    mngr message poet -m 'hello'
    """)
    expect(e2e.run("mngr create poet player -- ../steps.json")).to_fail(2).to_match_lines("""
        Error: cannot read the scenario ../steps.json: No such file or directory
        Hint: name a JSON file, or write JSON: mngr create NAME player -- ...
    """)
    expect(e2e.run(STEPS, comment="create a scripted agent")).to_succeed()
    result = e2e.run(
        "mngr message poet -m 'hello'", comment="send a message; mngr confirms that the agent has received it"
    )
    expect(result).to_succeed().to_equal("delivered to poet (proof: transcript)")
    run_all(e2e, "mngr wait poet --state WAITING --timeout 20s")
    assert list_conversation(e2e, "poet") == ["user: hello", "assistant: good morning"]


@pytest.mark.usefixtures("poet")
def test_a_message_to_an_unknown_agent_or_without_text_fails(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # send a message; mngr confirms that the agent has received it
    mngr message poet -m 'hello'
    """)
    expect(e2e.run("mngr message poet pot -m 'hello'")).to_fail(4).to_match_lines("""
        delivered to poet (proof: transcript)
        Error: pot: there is no agent 'pot'
        Hint: did you mean 'poet'?
    """)
    expect(e2e.run("mngr message poet -m ''")).to_fail(1).to_match_lines("""
        Error: the message is empty
        Hint: give it with -m TEXT, or on standard input: echo TEXT | mngr message NAME
    """)


@pytest.mark.usefixtures("poet")
def test_message_can_wait_for_the_end_of_the_turn(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # send a message, and wait until the agent has answered
    mngr message poet -m 'a poem, please' --wait --timeout 20s
    """)
    run_all(e2e, "mngr message poet -m hello --wait --timeout 20s")
    result = e2e.run(
        "mngr message poet -m 'a poem, please' --wait --timeout 20s", comment="wait until the agent's turn ends"
    )
    expect(result).to_succeed().to_equal("delivered to poet (proof: transcript), now WAITING (question)")
    expect(work(e2e, "poet")).to_match_tree({"poem.txt": "roses are red\n"})
    expect(e2e.run("git log --format=%s mngr/poet")).to_match_lines("""
        Write a poem
        Open the shop
    """)


def test_message_from_stdin_reaches_several_agents(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # send the text from standard input to several agents
    mngr create other player
    echo 'good morning to all' | mngr message poet other --wait --timeout 20s
    """)
    run_all(e2e, "mngr create poet player", "mngr create other player")
    result = e2e.run(
        "echo 'good morning to all' | mngr message poet other --wait --timeout 20s",
        comment="send the text from standard input to several agents",
    )
    expect(result).to_succeed().to_match_lines("""
        delivered to poet (proof: transcript), now WAITING (end_of_turn)
        delivered to other (proof: transcript), now WAITING (end_of_turn)
    """)
    assert list_conversation(e2e, "poet") == ["user: good morning to all", "assistant: ok: good morning to all"]


def test_message_can_start_a_stopped_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # send a message to a stopped agent; with --start, mngr starts the agent first
    mngr stop other
    mngr message other --start -m 'are you there?' --wait --timeout 20s
    """)
    run_all(e2e, "mngr create other player", "mngr stop other")
    expect(e2e.run("mngr message other -m 'are you there?'")).to_fail(1).to_match_lines("""
        Error: other is not running (state: STOPPED)
        Hint: start it and send the message: mngr message other -m 'are you there?' --start
    """)
    result = e2e.run(
        "mngr message other --start -m 'are you there?' --wait --timeout 20s", comment="start the agent first"
    )
    expect(result).to_succeed().to_match_lines("""
        delivered to other (proof: transcript), now WAITING (end_of_turn)
    """)
    assert list_conversation(e2e, "other") == ["user: are you there?", "assistant: ok: are you there?"]


def test_create_sends_the_first_message(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # create an agent and send it a first message, either from the command line or from a file
    mngr create third player -m 'what is your name?'
    echo 'and yours?' > ../question.txt
    mngr create fourth player --message-file ../question.txt
    """)
    expect(
        e2e.run(
            "mngr create third player -m 'what is your name?'", comment="create an agent and send its first message"
        )
    ).to_succeed()
    run_all(e2e, "echo 'and yours?' > ../question.txt")
    expect(e2e.run("mngr create fourth player --message-file ../question.txt")).to_succeed()
    assert list_conversation(e2e, "third")[0] == "user: what is your name?"
    assert list_conversation(e2e, "fourth")[0].strip() == "user: and yours?"
    expect(e2e.run("mngr create fifth player --message-file ../no.txt")).to_fail(1).to_match_lines("""
        Error: --message-file: cannot read ../no.txt: No such file or directory
        Hint: see whether the file exists: ls -l ../no.txt
    """)


def test_transcript_shows_the_conversation_and_usage_its_cost(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # show the agent's conversation
    mngr transcript poet
    """)
    e2e.write_tutorial_block("""
    # show what the models of all agents cost on each day; scripted agents cost nothing
    mngr usage --by day
    """)
    run_all(e2e, "mngr create poet player -m hello", "mngr wait poet --state WAITING --timeout 20s")
    expect(e2e.run("mngr transcript poet", comment="show the agent's conversation")).to_succeed().to_match_lines("""
        user  [TIME]
          hello

        assistant  [TIME]
          ok: hello
        ...
    """)
    run_all(e2e, "mngr create foo -- sleep 1000")
    expect(e2e.run("mngr transcript foo")).to_fail(1).to_match_lines("""
        Error: foo has no transcript, because agents of kind command do not write one
        Hint: see its screen: mngr capture foo
    """)
    result = e2e.run("mngr usage --by day", comment="show the model costs of all agents")
    expect(result).to_succeed().to_equal("no agent has used a model")
    expect(e2e.run("mngr usage --by colour")).to_fail(2).to_match_lines("""
        Error: mngr cannot group usage by 'colour'
        Hint: use one of: agent, day, model, kind, project, label.KEY
    """)


def test_events_shows_what_happened_to_an_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # show all events of an agent, then only some of them
    mngr events poet
    mngr events poet --type message --since 10m --format '{at} {type}'
    """)
    run_all(e2e, "mngr create poet player", "mngr message poet -m hello --wait --timeout 20s")
    result = e2e.run("mngr events poet", comment="show the events of an agent")
    expect(result).to_succeed().to_match_lines("""
        [TIME]  poet ... created ... name=poet kind=player ...
        ...
        [TIME]  poet ... message ... characters=5
        [TIME]  poet ... turn_start ...
        [TIME]  poet ... turn_end ...
        ...
    """)
    result = e2e.run("mngr events poet --type message --since 10m --format '{at} {type}'")
    expect(result).to_succeed().to_match_lines("[TIME] message")
    expect(e2e.run("mngr events poet --since yesterday")).to_fail(2).to_match_lines("""
        Error: 'yesterday' is not a length of time
        Hint: write it as 90s, 10m, 1h30m or 2d
    """)


def test_events_follow_stays_until_it_is_ended(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # print new events of all agents as they happen; the command timeout ends this example after one second
    timeout 1 mngr events --follow || test $? -eq 124
    """)
    run_all(e2e, "mngr create one -- sleep 1000", "mngr create two -- sleep 1000")
    result = e2e.run("timeout 1 mngr events --follow", comment="follow the events")
    expect(result).to_fail(124).to_match_lines("""
        [TIME]  one ... created ... (?)
        [TIME]  two ... created ... (?)
    """)


def test_events_follow_shows_an_event_when_it_happens(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # print new events of all agents as they happen; the command timeout ends this example after one second
    timeout 1 mngr events --follow || test $? -eq 124
    """)
    run_all(e2e, "mngr create one -- sleep 1000")
    terminal = e2e.tty("mngr events --follow", name="events", comment="follow the events of all agents", columns=160)
    terminal.wait_for("one +created")
    run_all(e2e, "mngr create two -- sleep 1000")
    terminal.wait_for("two +created")
    run_all(e2e, "mngr stop one")
    terminal.wait_for("one +stopped")
    terminal.press("C-c")
    assert terminal.wait() == 130


@pytest.mark.usefixtures("poet")
def test_explain_shows_the_state_and_next_finds_the_longest_waiting_agent(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # explain why the agent has its state
    mngr explain poet
    """)
    e2e.write_tutorial_block("""
    # print the name of the agent that has waited for you longest, then attach to this agent
    mngr next --print
    mngr next --connect-command 'echo "$MNGR_AGENT_NAME waits"'
    """)
    result = e2e.run("mngr explain poet", comment="explain why the agent has its state")
    expect(result).to_succeed().to_match_lines("""
        poet has been WAITING (end_of_turn) for [DURATION] (source: hook)
        ...
        → status ... the program last reported WAITING (end_of_turn) ...
        ...
        Next step: send it a message: mngr message poet -m TEXT
    """)
    run_all(e2e, "mngr create other player")
    expect(e2e.run("mngr next --print", comment="show the agent that has waited longest")).to_succeed().to_equal("poet")
    result = e2e.run("""mngr next --connect-command 'echo "$MNGR_AGENT_NAME waits"'""", comment="attach to the agent")
    expect(result).to_succeed().to_equal("poet waits")
    run_all(e2e, "mngr stop poet other")
    result = e2e.run("mngr next --print", comment="no agent waits any more")
    expect(result).to_fail(1).to_match_lines("""
        Error: no agent is waiting for you
        Hint: list the agents: mngr list
    """)


def test_the_board_shows_the_question_and_sends_the_answer(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # see all agents in groups by what they need from you, and answer them; the board needs a terminal, and q leaves it
    mngr board || test $? -eq 1
    """)
    expect(e2e.run("mngr board", comment="there is no terminal here")).to_fail(1).to_match_lines("""
        Error: mngr board needs a terminal
        Hint: list the agents: mngr list
    """)
    run_all(e2e, """mngr create poet player -m go -- '[{"ask": "another one?"}]'""", "mngr wait poet --state WAITING")
    board = e2e.tty("mngr board", name="board", comment="answer the agent from the board", columns=120, rows=30)
    board.wait_for("needs you \\(1\\)")
    board.wait_for("another one\\?")
    board.press("m")
    board.wait_for("Message to poet")
    board.type("yes please\r")
    board.wait_for("sent a message to poet")
    board.press("q")
    assert board.wait() == 0
    expect(e2e.run("mngr transcript poet")).to_contain("yes please")


def test_web_prints_a_url_and_serves_the_page_only_with_its_token(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # see and steer all agents in a browser; the command timeout ends this example after one second
    timeout 1 mngr web --no-open || test $? -eq 124
    """)
    server = e2e.tty("mngr web --no-open", name="web", comment="start the page")
    expect(server.wait_for(r"http://127.0.0.1:\d+/\?token=")).to_match_lines("<url>/?token=...")
    e2e.comment("ask for the page without the token")
    with pytest.raises(HTTPError, match="401"):
        urlopen(e2e.names["url"])
    server.press("C-c")
    assert server.wait() in (0, 130)  # the shell around it may answer first


CONFIGURE_NOTIFICATIONS = """\
mngr config set notify.channels '["command"]'
mngr config set notify.command 'echo "$1" >> "$MNGR_HOME/notifications.txt"'"""


def test_a_command_of_the_user_gets_notifications(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # run a command of your own when an agent needs you, with the agent's question as $1; other channels are desktop, ntfy and webhook
    mngr config set notify.channels '["command"]'
    mngr config set notify.command 'echo "$1" >> "$MNGR_HOME/notifications.txt"'
    mngr notify --test
    """)
    run_all(e2e, CONFIGURE_NOTIFICATIONS)
    expect(e2e.run("mngr notify --test", comment="send a test notification")).to_succeed().to_match_lines("""
        command: works (the command exited with code 0)
    """)
    result = e2e.run('cat "$MNGR_HOME/notifications.txt"', comment="the command has written the text")
    expect(result).to_succeed().to_equal("mngr can reach you | mngr notify --follow")


def test_notifications_are_sent_while_the_command_runs_and_listed_later(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # send notifications as long as this command runs, then list them; the command timeout ends this example after two seconds
    timeout 2 mngr notify --follow || test $? -eq 124
    mngr notify
    """)
    run_all(e2e, CONFIGURE_NOTIFICATIONS)
    script = """\
timeout 5 mngr notify --follow & sleep 2; mngr create poet player -m go -- '[{"ask": "another one?"}]'
wait || test $? -eq 124"""
    result = e2e.run(script, comment="an agent asks while the command runs", timeout=30)
    expect(result).to_contain("poet asks a question: “another one?” | mngr message poet -m TEXT")
    result = e2e.run('cat "$MNGR_HOME/notifications.txt"', comment="the command got the question")
    expect(result).to_succeed().to_contain("poet asks a question: “another one?”")
    expect(e2e.run("mngr notify", comment="list the notifications")).to_succeed().to_match_lines("""
        AT ... NOTIFICATION ... CHANNELS
        ... poet asks a question ... command: sent
    """)


def test_wait_until_agents_reach_a_state(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # wait until all agents have reached a state, or until the first of them has reached it
    mngr wait poet other --state WAITING --timeout 20s
    mngr wait poet foo --any --state WAITING,DONE --timeout 20s
    """)
    run_all(e2e, "mngr create poet player", "mngr create other player", "mngr create foo -- sleep 1000")
    result = e2e.run("mngr wait poet other --state WAITING --timeout 20s", comment="wait for all agents")
    expect(result).to_succeed().to_match_lines("""
        poet WAITING (end_of_turn)
        other WAITING (end_of_turn)
    """)
    result = e2e.run("mngr wait poet foo --any --state WAITING,DONE --timeout 20s", comment="wait for the first agent")
    expect(result).to_succeed().to_equal("poet WAITING (end_of_turn)")
    expect(e2e.run("mngr wait foo --state DONE --timeout 0.1s")).to_fail(5).to_match_lines("""
        Error: foo is still RUNNING after 0.1s, not DONE
        Hint: see why: mngr explain foo
    """)
    assert agents(e2e)["foo"]["state"] == "RUNNING"
