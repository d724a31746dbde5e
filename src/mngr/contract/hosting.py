"""Hosts that are made when an agent asks for one."""

from __future__ import annotations

from mngr.contract.place import RUN, Checks, Client


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
