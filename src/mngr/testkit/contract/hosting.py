"""Hosts that are made when an agent asks for one, stopped, started and taken away."""

from __future__ import annotations

from mngr.testkit.contract.living import LOOK, WORK
from mngr.testkit.contract.place import RUN, Checks, Client


class NewHostContract(Checks):
    """For providers that make hosts."""

    def test_who_asks_for_a_new_host_has_it_for_itself(self, client: Client) -> None:
        provider = client.place.provider
        made = [client.json("create", f"{name}@.{provider}", *RUN)["agents"][0] for name in ("one", "two")]
        first, second = (agent["host"] for agent in made)
        assert first != second and {agent["provider"] for agent in made} == {provider}
        client("create", f"three@{first}.{provider}", *RUN)
        rows = client.json("list", "--hosts")["hosts"]
        assert {r["host"]: (r["state"], r["agents"]) for r in rows if r["provider"] == provider} == {
            first: ("RUNNING", 2),
            second: ("RUNNING", 1),
        }
        script = (
            'echo "$MNGR_AGENT_NAME" >>"${MNGR_AGENT_DIR%/*}/../guests"; cat "${MNGR_AGENT_DIR%/*}/../guests"'
        )
        assert client.sh("one", script) == "one\n"
        assert client.sh("two", script) == "two\n"
        assert client.sh("three", script) == "one\nthree\n"

    def test_what_cannot_be_made_leaves_no_host(self, client: Client) -> None:
        before = client.json("list", "--hosts")["hosts"]
        client("create", f"foo@.{client.place.provider}", "--", "no-such-program", code=1)
        client("create", f"foo@.{client.place.provider}", "--from", "/nowhere", *RUN, code=1)
        assert client.json("list", "--hosts")["hosts"] == before
        assert client.agents() == []

    def test_a_host_that_is_taken_away_leaves_the_work_of_its_agents(self, client: Client) -> None:
        provider = client.place.provider
        host = client.json("create", f"foo@.{provider}", *RUN)["agents"][0]["host"]
        client.sh("foo", WORK)
        before = client.sh("foo", LOOK)
        assert "foo" in client("destroy", f"@{host}.{provider}", code=1).err  # it runs
        client("destroy", "--force", f"@{host}.{provider}")
        assert client.agents() == []
        assert host not in [row["host"] for row in client.json("list", "--hosts")["hosts"]]
        client("undestroy", "foo")
        assert client.sh("foo", LOOK) == before


class StopHostContract(Checks):
    """For providers whose hosts can be stopped."""

    def test_a_stopped_host_keeps_everything_and_goes_on(self, client: Client) -> None:
        agent = client.create("foo", "player", "-m", "hello")
        client("wait", "foo")
        client.sh("foo", WORK)
        before = client.sh("foo", LOOK)
        where = f"@{client.host}.{client.place.provider}"
        client("stop", where)
        shown = client.json("list")
        assert shown["errors"] == []
        assert [(a["id"], a["state"], a["host_state"]) for a in shown["agents"]] == [
            (agent["id"], "STOPPED", "STOPPED")
        ]
        (row,) = [r for r in client.json("list", "--hosts")["hosts"] if r["host"] == client.host]
        assert row["state"] == "STOPPED"
        refused = client("exec", "foo", "--", "true", code=6).err
        assert f"the host {client.host} is stopped" in refused and f"mngr start {where}" in refused
        client("stop", where)  # it is
        client("start", "foo")
        assert client.agent("foo")["host_state"] == "RUNNING"
        client("message", "foo", "-m", "again", "--wait")
        said = [row["text"] for row in client.json("transcript", "foo")["transcript"]]
        assert said == ["hello", "ok: hello", "again", "ok: again"]
        assert client.sh("foo", LOOK) == before
        client("stop", where)
        client("start", where)
        assert (client.agent("foo")["state"], client.agent("foo")["host_state"]) == ("STOPPED", "RUNNING")
