"""Two clients at once."""

from __future__ import annotations

import json

from mngr.testkit.contract.place import RUN, Checks, Client, together


class Sharing(Checks):
    """Two processes of one user, and two users with a home each, on one host."""

    def test_one_name_is_made_once_and_messages_arrive_once_each(self, client: Client) -> None:
        client.create("first", *RUN)
        calls = [(client, ("create", client.at("foo"), *RUN))] * 3
        assert sorted(done.returncode for done in together(*calls)) == [0, 1, 1]
        assert sorted(a["name"] for a in client.agents()) == ["first", "foo"]
        assert client.sh("foo", 'printf %s "$MNGR_AGENT_ID"') == client.agent("foo")["id"]
        assert client.json("gc", "--dry-run")["results"] == []
        client.create("bar", "player")
        texts = [f"from sender {n}\nline two" for n in range(4)]
        sent = together(*[(client, ("message", "bar", "-m", text)) for text in texts])
        assert [done.returncode for done in sent] == [0] * 4
        rows = client.json("transcript", "bar")["transcript"]
        assert sorted(row["text"] for row in rows if row["role"] == "user") == texts

    def test_two_users_make_agents_on_one_host(self, client: Client, other: Client) -> None:
        client.create("first", *RUN)
        other.host = client.host
        made = together(
            *[(client, ("create", client.at(f"mine-{n}"), *RUN)) for n in range(2)],
            *[(other, ("create", other.at(f"theirs-{n}"), *RUN)) for n in range(2)],
        )
        assert [done.returncode for done in made] == [0] * 4, [done.stderr for done in made]
        for who, names in ((client, {"mine-0", "mine-1"}), (other, {"theirs-0", "theirs-1"})):
            shown = {a["name"]: a for a in who.agents()}
            assert names <= set(shown)
            for name, agent in shown.items():
                assert (agent["state"], agent["host"]) == ("RUNNING", client.host), agent
                assert who.sh(agent["id"], 'printf %s "$MNGR_AGENT_NAME"') == name

    def test_two_users_want_the_same_name(self, client: Client, other: Client) -> None:
        client.create("first", *RUN)
        other.host = client.host
        words = ("--format", "json", "create", client.at("foo"), *RUN)
        won = [
            (who, json.loads(done.stdout)["agents"][0])
            for who, done in zip((client, other), together((client, words), (other, words)), strict=True)
            if done.returncode == 0
        ]
        assert won
        assert (
            len({agent["id"] for _, agent in won}) == len({agent["work_dir"] for _, agent in won}) == len(won)
        )
        for who, agent in won:
            assert who.sh(agent["id"], 'printf %s "$MNGR_AGENT_ID"') == agent["id"]
            assert who.sh(agent["id"], "pwd -P; git status --porcelain").count("\n") == 1
            shown = [a["id"] for a in who.agents() if a["name"] == "foo"]
            assert shown.count(agent["id"]) == 1 and len(set(shown)) == len(shown)
            who("destroy", "--force", agent["id"])
            assert agent["id"] not in [a["id"] for a in who.agents()]
