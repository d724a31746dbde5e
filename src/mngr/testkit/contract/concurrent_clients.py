"""Two clients at once."""

from __future__ import annotations

import json

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks, run_concurrently


class ConcurrencyContract(ContractChecks):
    """Two processes of one user, and two users with a home each, on one host."""

    def test_concurrent_creates_and_messages_take_effect_once(self, client: Client) -> None:
        client.create("first", *SLEEP_COMMAND)
        calls = [(client, ("create", client.build_address("foo"), *SLEEP_COMMAND))] * 3
        assert sorted(done.returncode for done in run_concurrently(*calls)) == [0, 1, 1]
        assert sorted(a["name"] for a in client.list_agents()) == ["first", "foo"]
        assert client.run_script("foo", 'printf %s "$MNGR_AGENT_ID"') == client.get_agent("foo")["id"]
        assert client.run_json("gc", "--dry-run")["results"] == []
        client.create("bar", "player")
        texts = [f"from sender {n}\nline two" for n in range(4)]
        sent = run_concurrently(*[(client, ("message", "bar", "-m", text)) for text in texts])
        assert [done.returncode for done in sent] == [0] * 4
        rows = client.run_json("transcript", "bar")["transcript"]
        assert sorted(row["text"] for row in rows if row["role"] == "user") == texts

    def test_two_users_create_agents_on_one_host(self, client: Client, other: Client) -> None:
        client.create("first", *SLEEP_COMMAND)
        other.host = client.host
        made = run_concurrently(
            *[(client, ("create", client.build_address(f"mine-{n}"), *SLEEP_COMMAND)) for n in range(2)],
            *[(other, ("create", other.build_address(f"theirs-{n}"), *SLEEP_COMMAND)) for n in range(2)],
        )
        assert [done.returncode for done in made] == [0] * 4, [done.stderr for done in made]
        for who, names in ((client, {"mine-0", "mine-1"}), (other, {"theirs-0", "theirs-1"})):
            shown = {a["name"]: a for a in who.list_agents()}
            assert names <= set(shown)
            for name, agent in shown.items():
                assert (agent["state"], agent["host"]) == ("RUNNING", client.host), agent
                assert who.run_script(agent["id"], 'printf %s "$MNGR_AGENT_NAME"') == name

    def test_two_users_can_use_the_same_name(self, client: Client, other: Client) -> None:
        client.create("first", *SLEEP_COMMAND)
        other.host = client.host
        words = ("--format", "json", "create", client.build_address("foo"), *SLEEP_COMMAND)
        won = [
            (who, json.loads(done.stdout)["agents"][0])
            for who, done in zip((client, other), run_concurrently((client, words), (other, words)), strict=True)
            if done.returncode == 0
        ]
        assert won
        assert len({agent["id"] for _, agent in won}) == len({agent["work_dir"] for _, agent in won}) == len(won)
        for who, agent in won:
            assert who.run_script(agent["id"], 'printf %s "$MNGR_AGENT_ID"') == agent["id"]
            assert who.run_script(agent["id"], "pwd -P; git status --porcelain").count("\n") == 1
            shown = [a["id"] for a in who.list_agents() if a["name"] == "foo"]
            assert shown.count(agent["id"]) == 1 and len(set(shown)) == len(shown)
            who("destroy", "--force", agent["id"])
            assert agent["id"] not in [a["id"] for a in who.list_agents()]
