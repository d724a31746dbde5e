"""Checks with two clients at the same time."""

from __future__ import annotations

import json

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks, run_concurrently


class ConcurrencyContract(ContractChecks):
    """Two processes of one user, and two users with separate homes, on one host."""

    def test_concurrent_creates_and_messages_take_effect_once(self, client: Client) -> None:
        client.create("first", *SLEEP_COMMAND)
        calls = [(client, ("create", client.build_address("foo"), *SLEEP_COMMAND))] * 3
        assert sorted(result.returncode for result in run_concurrently(*calls)) == [0, 1, 1]
        assert sorted(a["name"] for a in client.list_agents()) == ["first", "foo"]
        assert client.run_script("foo", 'printf %s "$MNGR_AGENT_ID"') == client.get_agent("foo")["id"]
        assert client.run_json("gc", "--dry-run")["results"] == []
        client.create("bar", "player")
        texts = [f"from sender {n}\nline two" for n in range(4)]
        results = run_concurrently(*[(client, ("message", "bar", "-m", text)) for text in texts])
        assert [result.returncode for result in results] == [0] * 4
        rows = client.run_json("transcript", "bar")["transcript"]
        assert sorted(row["text"] for row in rows if row["role"] == "user") == texts

    def test_two_users_create_agents_on_one_host(self, client: Client, other: Client) -> None:
        client.create("first", *SLEEP_COMMAND)
        other.host = client.host
        results = run_concurrently(
            *[(client, ("create", client.build_address(f"mine-{n}"), *SLEEP_COMMAND)) for n in range(2)],
            *[(other, ("create", other.build_address(f"theirs-{n}"), *SLEEP_COMMAND)) for n in range(2)],
        )
        assert [result.returncode for result in results] == [0] * 4, [result.stderr for result in results]
        for user, names in ((client, {"mine-0", "mine-1"}), (other, {"theirs-0", "theirs-1"})):
            agents = {a["name"]: a for a in user.list_agents()}
            assert names <= set(agents)
            for name, agent in agents.items():
                assert (agent["state"], agent["host"]) == ("RUNNING", client.host), agent
                assert user.run_script(agent["id"], 'printf %s "$MNGR_AGENT_NAME"') == name

    def test_two_users_can_use_the_same_name(self, client: Client, other: Client) -> None:
        client.create("first", *SLEEP_COMMAND)
        other.host = client.host
        words = ("--format", "json", "create", client.build_address("foo"), *SLEEP_COMMAND)
        created = [
            (user, json.loads(result.stdout)["agents"][0])
            for user, result in zip((client, other), run_concurrently((client, words), (other, words)), strict=True)
            if result.returncode == 0
        ]
        assert created
        assert (
            len({agent["id"] for _, agent in created})
            == len({agent["work_dir"] for _, agent in created})
            == len(created)
        )
        for user, agent in created:
            assert user.run_script(agent["id"], 'printf %s "$MNGR_AGENT_ID"') == agent["id"]
            assert user.run_script(agent["id"], "pwd -P; git status --porcelain").count("\n") == 1
            ids = [a["id"] for a in user.list_agents() if a["name"] == "foo"]
            assert ids.count(agent["id"]) == 1 and len(set(ids)) == len(ids)
            user("destroy", "--force", agent["id"])
            assert agent["id"] not in [a["id"] for a in user.list_agents()]
