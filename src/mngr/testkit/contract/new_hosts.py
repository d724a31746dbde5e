"""Checks of hosts that mngr creates, stops, starts and destroys on demand."""

from __future__ import annotations

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks
from mngr.testkit.contract.lifecycle import INSPECT_SCRIPT, WORK_SCRIPT


class NewHostContract(ContractChecks):
    """Checks for providers that create hosts."""

    def test_each_create_gets_its_own_new_host(self, client: Client) -> None:
        provider = client.place.provider
        agents = [
            client.run_json("create", f"{name}@.{provider}", *SLEEP_COMMAND)["agents"][0] for name in ("one", "two")
        ]
        first, second = (agent["host"] for agent in agents)
        assert first != second and {agent["provider"] for agent in agents} == {provider}
        client("create", f"three@{first}.{provider}", *SLEEP_COMMAND)
        rows = client.run_json("list", "--hosts")["hosts"]
        assert {r["host"]: (r["state"], r["agents"]) for r in rows if r["provider"] == provider} == {
            first: ("RUNNING", 2),
            second: ("RUNNING", 1),
        }
        script = 'echo "$MNGR_AGENT_NAME" >>"${MNGR_AGENT_DIR%/*}/../guests"; cat "${MNGR_AGENT_DIR%/*}/../guests"'
        assert client.run_script("one", script) == "one\n"
        assert client.run_script("two", script) == "two\n"
        assert client.run_script("three", script) == "one\nthree\n"

    def test_failed_create_leaves_no_host(self, client: Client) -> None:
        before = client.run_json("list", "--hosts")["hosts"]
        client("create", f"foo@.{client.place.provider}", "--", "no-such-program", code=1)
        client("create", f"foo@.{client.place.provider}", "--from", "/nowhere", *SLEEP_COMMAND, code=1)
        assert client.run_json("list", "--hosts")["hosts"] == before
        assert client.list_agents() == []

    def test_destroyed_host_keeps_the_work_of_its_agents(self, client: Client) -> None:
        provider = client.place.provider
        host = client.run_json("create", f"foo@.{provider}", *SLEEP_COMMAND)["agents"][0]["host"]
        client.run_script("foo", WORK_SCRIPT)
        before = client.run_script("foo", INSPECT_SCRIPT)
        assert "foo" in client("destroy", f"@{host}.{provider}", code=1).err  # it is running
        client("destroy", "--force", f"@{host}.{provider}")
        assert client.list_agents() == []
        assert host not in [row["host"] for row in client.run_json("list", "--hosts")["hosts"]]
        client("undestroy", "foo")
        assert client.run_script("foo", INSPECT_SCRIPT) == before


class StopHostContract(ContractChecks):
    """Checks for providers whose hosts can be stopped."""

    def test_stopped_host_keeps_everything_and_starts_again(self, client: Client) -> None:
        agent = client.create("foo", "player", "-m", "hello")
        client("wait", "foo")
        client.run_script("foo", WORK_SCRIPT)
        before = client.run_script("foo", INSPECT_SCRIPT)
        address = f"@{client.host}.{client.place.provider}"
        client("stop", address)
        listing = client.run_json("list")
        assert listing["errors"] == []
        assert [(a["id"], a["state"], a["host_state"]) for a in listing["agents"]] == [
            (agent["id"], "STOPPED", "STOPPED")
        ]
        (row,) = [r for r in client.run_json("list", "--hosts")["hosts"] if r["host"] == client.host]
        assert row["state"] == "STOPPED"
        stderr = client("exec", "foo", "--", "true", code=6).err
        assert f"the host {client.host} is stopped" in stderr and f"mngr start {address}" in stderr
        client("stop", address)  # already stopped
        client("start", "foo")
        assert client.get_agent("foo")["host_state"] == "RUNNING"
        client("message", "foo", "-m", "again", "--wait")
        texts = [row["text"] for row in client.run_json("transcript", "foo")["transcript"]]
        assert texts == ["hello", "ok: hello", "again", "ok: again"]
        assert client.run_script("foo", INSPECT_SCRIPT) == before
        client("stop", address)
        client("start", address)
        assert (client.get_agent("foo")["state"], client.get_agent("foo")["host_state"]) == (
            "STOPPED",
            "RUNNING",
        )
