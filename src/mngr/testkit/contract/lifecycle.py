"""Checks of an agent's life: stop, start, snapshot, clone, destroy and undestroy keep all its work."""

from __future__ import annotations

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks
from mngr.testkit.contract.mngr_program import list_refs, run_git, wait_for

# Work in every form that git tracks, and in some that it does not.
WORK_SCRIPT = """
echo one >committed.txt && git add -A
git -c user.name=Agent -c user.email=agent@example.invalid commit -q -m mine
echo staged >staged.txt && git add staged.txt && echo more >>staged.txt
echo changed >README.md && rm src/app.py && mkdir -p new/empty && printf '\\000\\377' >'new/näme with
line' && echo '#!/bin/sh' >new/tool && chmod +x new/tool && ln -s ../README.md new/link && echo noise >noise.log
"""
# Prints a whole work dir as text. Two work dirs with the same output are the same.
INSPECT_SCRIPT = """
git log --format=%s; git -c core.quotePath=on status --porcelain=v1 -uall --no-renames
git diff --cached --binary | git hash-object --stdin; git diff --binary | git hash-object --stdin
find . -name .git -prune -o -type f ! -name '*.log' -exec git hash-object {} + | sort
find . -name .git -prune -o -type f -perm -100 -print | sort; readlink new/link; test -d new/empty && echo empty
"""


class LifecycleContract(ContractChecks):
    """Checks of stop, start, limit, rename, label, clone, snapshot, destroy, undestroy and gc."""

    def test_stopped_agent_keeps_everything_and_resumes(self, client: Client) -> None:
        client.create("foo", "player", "--", '[{"reply": "a"}, "wait", {"reply": "b"}]')
        client.create("bar", "--", "echo begun >>begun; exec sleep 1000")
        client("message", "foo", "-m", "one", "--wait")
        client.run_script("foo", "echo draft >draft.txt")
        pid = client.get_agent("bar")["pid"]
        client("stop", "foo", "bar")
        assert {a["name"]: (a["state"], a["pid"]) for a in client.list_agents()} == {
            "foo": ("STOPPED", None),
            "bar": ("STOPPED", None),
        }
        assert client.run_script("foo", f"kill -0 {pid} 2>/dev/null || echo gone; cat draft.txt") == "gone\ndraft\n"
        client("start", "foo", "bar")
        wait_for(lambda: client.run_script("bar", "cat begun") == "begun\nbegun\n")
        client("message", "foo", "-m", "two", "--wait")
        texts = [row["text"] for row in client.run_json("transcript", "foo")["transcript"]]
        assert texts == ["one", "a", "two", "b"]

    def test_an_idle_agent_is_stopped_and_a_busy_one_is_not(self, client: Client) -> None:
        client.create("idle", *SLEEP_COMMAND)
        client.create("busy", "--", "while :; do echo tick; sleep 0.2; done")
        client("limit", "idle", "busy", "--idle", "2s")
        agent = wait_for(lambda: (a := client.get_agent("idle"))["state"] == "STOPPED" and a)
        assert agent["state_reason"] == "idle" and client.get_agent("busy")["state"] == "RUNNING"
        assert client("list").err == ""  # no warning, because the watcher runs
        client("limit", "busy", "--lifetime", "1s", "--idle", "none")
        wait_for(lambda: client.get_agent("busy")["state_reason"] == "lifetime")

    def test_names_and_labels_can_change(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        agent_id = client.get_agent("foo")["id"]
        client("rename", "foo", "bar")
        client("label", "bar", "team=red", "x=y")
        client("label", "bar", "x-")
        agent = client.get_agent("bar")
        assert (agent["id"], agent["labels"], agent["state"]) == (agent_id, {"team": "red"}, "RUNNING")
        assert "there is no agent 'foo'" in client("exec", "foo", "--", "true", code=1).err
        client.create("foo", "--branch", ":second", *SLEEP_COMMAND)
        assert sorted(a["name"] for a in client.list_agents()) == ["bar", "foo"]

    def test_undestroy_restores_all_work(self, client: Client) -> None:
        client.create("other", *SLEEP_COMMAND)
        client.create("foo", "player", "--label", "team=red", "--env", "GIVEN=a 'b'")
        client("message", "foo", "-m", "hello", "--wait")
        client.run_script("foo", WORK_SCRIPT)
        before, view = client.run_script("foo", INSPECT_SCRIPT), client.get_agent("foo")
        assert "foo" in client("destroy", "foo", code=1).err  # it is running
        client("destroy", "--force", "foo")
        assert [a["name"] for a in client.list_agents()] == ["other"]
        assert client.run_script("other", f"test -e '{view['work_dir']}' || echo gone") == "gone\n"
        (entry,) = client.run_json("undestroy", "--list")["trash"]
        assert (entry["name"], entry["dirty"], entry["problem"]) == ("foo", True, None)
        assert client.run_json("gc")["results"] == []
        client("undestroy", "foo")
        after = client.get_agent("foo")
        unchanged = ("id", "name", "branch", "base", "created_at", "labels", "project", "host", "provider", "kind")
        assert {key: after[key] for key in unchanged} == {key: view[key] for key in unchanged}
        assert after["state"] == "STOPPED" and client.run_script("foo", INSPECT_SCRIPT) == before
        client("start", "foo")
        client("message", "foo", "-m", "again", "--wait")
        texts = [row["text"] for row in client.run_json("transcript", "foo")["transcript"]]
        assert texts == ["hello", "ok: hello", "again", "ok: again"]
        assert client.run_script("foo", 'printf %s "$GIVEN"') == "a 'b'"

    def test_undestroy_restores_mirror_and_copy(self, client: Client) -> None:
        client.create("mirror", "--transfer", "mirror", *SLEEP_COMMAND)
        client.create("copy", "--transfer", "copy", *SLEEP_COMMAND)
        client.run_script("mirror", WORK_SCRIPT)
        client.run_script("copy", "echo changed >README.md; rm src/app.py; mkdir e; printf '\\000\\377' >'b in'")
        scripts = {"mirror": INSPECT_SCRIPT, "copy": "find . | sort; cat README.md; git hash-object 'b in'"}
        before = {name: client.run_script(name, script) for name, script in scripts.items()}
        client("destroy", "--force", "mirror", "copy")
        client("undestroy", "mirror", "copy")
        assert {name: client.run_script(name, script) for name, script in scripts.items()} == before

    def test_clone_has_the_same_work_and_is_independent(self, client: Client) -> None:
        client.create("foo", "player", "--label", "team=red", "-m", "hello")
        client("wait", "foo")
        client.run_script("foo", WORK_SCRIPT)
        (agent,) = client.run_json("clone", "foo", "bar")["agents"]
        assert (agent["name"], agent["branch"], agent["labels"]) == ("bar", "mngr/bar", {"team": "red"})
        assert (agent["host"], agent["provider"]) == (client.host, client.place.provider)
        assert client.run_script("bar", INSPECT_SCRIPT) == client.run_script("foo", INSPECT_SCRIPT)
        assert client.run_script("bar", "git branch --show-current").strip() == "mngr/bar"
        client("message", "bar", "-m", "only for bar", "--wait")
        users = {
            name: [r["text"] for r in client.run_json("transcript", name)["transcript"] if r["role"] == "user"]
            for name in ("foo", "bar")
        }
        assert users == {"foo": ["hello"], "bar": ["hello", "only for bar"]}
        client.commit("bar", "own.txt")
        assert "own.txt" not in client.run_script("foo", "git log --format=%s; ls")

    def test_a_snapshot_outlives_its_agent(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        client.run_script("foo", WORK_SCRIPT)
        before = client.run_script("foo", INSPECT_SCRIPT)
        client("snapshot", "create", "foo", "kept")
        client.run_script("foo", "echo later >README.md")
        client("destroy", "--force", "foo")
        client("snapshot", "restore", "kept", "bar")
        agent = client.get_agent("bar")
        assert (agent["state"], agent["branch"], agent["host"]) == ("RUNNING", "mngr/bar", client.host)
        assert client.run_script("bar", INSPECT_SCRIPT) == before
        assert [row["name"] for row in client.run_json("snapshot", "list")["snapshots"]] == ["kept"]

    def test_destroy_keeps_a_branch_with_commits(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        client.create("idle", *SLEEP_COMMAND)
        commit = client.commit("foo", "one.txt")
        client("pull", "foo")
        client("destroy", "--force", "foo", "idle")
        assert list_refs(client.repo).get("refs/heads/mngr/foo") == commit
        assert "refs/heads/mngr/idle" not in list_refs(client.repo)
        assert run_git(client.repo, "worktree", "list").count("\n") == 0

    def test_gc_finds_nothing_to_clean_up(self, client: Client) -> None:
        client.create("foo", "--idle-timeout", "1h", *SLEEP_COMMAND)
        client.create("done", "--transfer", "mirror", "--", "true")
        client.create("off", "player")
        client("stop", "off")
        assert client.run_json("gc", "--dry-run")["results"] == []
        assert client("gc").err == "nothing to clean up\n"
        wait_for(lambda: client.get_agent("done")["state"] == "DONE")
        assert {a["name"]: a["state"] for a in client.list_agents()} == {
            "foo": "RUNNING",
            "done": "DONE",
            "off": "STOPPED",
        }
