"""The life of an agent: stopped, started, kept, copied, destroyed and brought back, with all its work."""

from __future__ import annotations

from mngr.testkit.contract.place import RUN, Checks, Client
from mngr.testkit.contract.program import git, refs, wait_for

# Work in every form that git knows, and some that it does not.
WORK = """
echo one >committed.txt && git add -A
git -c user.name=Agent -c user.email=agent@example.invalid commit -q -m mine
echo staged >staged.txt && git add staged.txt && echo more >>staged.txt
echo changed >README.md && rm src/app.py && mkdir -p new/empty && printf '\\000\\377' >'new/näme with
line' && echo '#!/bin/sh' >new/tool && chmod +x new/tool && ln -s ../README.md new/link && echo noise >noise.log
"""
# All of it as text: two work dirs that print the same are the same.
LOOK = """
git log --format=%s; git -c core.quotePath=on status --porcelain=v1 -uall --no-renames
git diff --cached --binary | git hash-object --stdin; git diff --binary | git hash-object --stdin
find . -name .git -prune -o -type f ! -name '*.log' -exec git hash-object {} + | sort
find . -name .git -prune -o -type f -perm -100 -print | sort; readlink new/link; test -d new/empty && echo empty
"""


class Living(Checks):
    """stop, start, limit, rename, label, clone, snapshot, destroy, undestroy, gc."""

    def test_a_stopped_agent_keeps_everything_and_goes_on(self, client: Client) -> None:
        client.create("foo", "player", "--", '[{"reply": "a"}, "wait", {"reply": "b"}]')
        client.create("bar", "--", "echo begun >>begun; exec sleep 1000")
        client("message", "foo", "-m", "one", "--wait")
        client.sh("foo", "echo draft >draft.txt")
        pid = client.agent("bar")["pid"]
        client("stop", "foo", "bar")
        assert {a["name"]: (a["state"], a["pid"]) for a in client.agents()} == {
            "foo": ("STOPPED", None),
            "bar": ("STOPPED", None),
        }
        assert client.sh("foo", f"kill -0 {pid} 2>/dev/null || echo gone; cat draft.txt") == "gone\ndraft\n"
        client("start", "foo", "bar")
        wait_for(lambda: client.sh("bar", "cat begun") == "begun\nbegun\n")
        client("message", "foo", "-m", "two", "--wait")
        said = [row["text"] for row in client.json("transcript", "foo")["transcript"]]
        assert said == ["one", "a", "two", "b"]

    def test_an_idle_agent_is_stopped_and_a_busy_one_is_not(self, client: Client) -> None:
        client.create("idle", *RUN)
        client.create("busy", "--", "while :; do echo tick; sleep 0.2; done")
        client("limit", "idle", "busy", "--idle", "2s")
        agent = wait_for(lambda: (a := client.agent("idle"))["state"] == "STOPPED" and a)
        assert agent["state_reason"] == "idle" and client.agent("busy")["state"] == "RUNNING"
        assert client("list").err == ""  # the watcher is there
        client("limit", "busy", "--lifetime", "1s", "--idle", "none")
        wait_for(lambda: client.agent("busy")["state_reason"] == "lifetime")

    def test_names_and_labels_can_change(self, client: Client) -> None:
        client.create("foo", *RUN)
        agent_id = client.agent("foo")["id"]
        client("rename", "foo", "bar")
        client("label", "bar", "team=red", "x=y")
        client("label", "bar", "x-")
        agent = client.agent("bar")
        assert (agent["id"], agent["labels"], agent["state"]) == (agent_id, {"team": "red"}, "RUNNING")
        assert "there is no agent 'foo'" in client("exec", "foo", "--", "true", code=1).err
        client.create("foo", "--branch", ":second", *RUN)
        assert sorted(a["name"] for a in client.agents()) == ["bar", "foo"]

    def test_destroyed_work_comes_back_whole(self, client: Client) -> None:
        client.create("other", *RUN)
        client.create("foo", "player", "--label", "team=red", "--env", "GIVEN=a 'b'")
        client("message", "foo", "-m", "hello", "--wait")
        client.sh("foo", WORK)
        before, view = client.sh("foo", LOOK), client.agent("foo")
        assert "foo" in client("destroy", "foo", code=1).err  # it runs
        client("destroy", "--force", "foo")
        assert [a["name"] for a in client.agents()] == ["other"]
        assert client.sh("other", f"test -e '{view['work_dir']}' || echo gone") == "gone\n"
        (grave,) = client.json("undestroy", "--list")["graves"]
        assert (grave["name"], grave["dirty"], grave["problem"]) == ("foo", True, None)
        assert client.json("gc")["results"] == []
        client("undestroy", "foo")
        after = client.agent("foo")
        same = ("id", "name", "branch", "base", "created_at", "labels", "project", "host", "provider", "kind")
        assert {key: after[key] for key in same} == {key: view[key] for key in same}
        assert after["state"] == "STOPPED" and client.sh("foo", LOOK) == before
        client("start", "foo")
        client("message", "foo", "-m", "again", "--wait")
        said = [row["text"] for row in client.json("transcript", "foo")["transcript"]]
        assert said == ["hello", "ok: hello", "again", "ok: again"]
        assert client.sh("foo", 'printf %s "$GIVEN"') == "a 'b'"

    def test_a_mirror_and_a_copy_come_back_too(self, client: Client) -> None:
        client.create("mirror", "--transfer", "mirror", *RUN)
        client.create("copy", "--transfer", "copy", *RUN)
        client.sh("mirror", WORK)
        client.sh("copy", "echo changed >README.md; rm src/app.py; mkdir e; printf '\\000\\377' >'b in'")
        look = {"mirror": LOOK, "copy": "find . | sort; cat README.md; git hash-object 'b in'"}
        before = {name: client.sh(name, script) for name, script in look.items()}
        client("destroy", "--force", "mirror", "copy")
        client("undestroy", "mirror", "copy")
        assert {name: client.sh(name, script) for name, script in look.items()} == before

    def test_a_clone_has_the_same_work_and_goes_its_own_way(self, client: Client) -> None:
        client.create("foo", "player", "--label", "team=red", "-m", "hello")
        client("wait", "foo")
        client.sh("foo", WORK)
        (agent,) = client.json("clone", "foo", "bar")["agents"]
        assert (agent["name"], agent["branch"], agent["labels"]) == ("bar", "mngr/bar", {"team": "red"})
        assert (agent["host"], agent["provider"]) == (client.host, client.place.provider)
        assert client.sh("bar", LOOK) == client.sh("foo", LOOK)
        assert client.sh("bar", "git branch --show-current").strip() == "mngr/bar"
        client("message", "bar", "-m", "only for bar", "--wait")
        users = {
            name: [r["text"] for r in client.json("transcript", name)["transcript"] if r["role"] == "user"]
            for name in ("foo", "bar")
        }
        assert users == {"foo": ["hello"], "bar": ["hello", "only for bar"]}
        client.commit("bar", "own.txt")
        assert "own.txt" not in client.sh("foo", "git log --format=%s; ls")

    def test_a_snapshot_outlives_its_agent(self, client: Client) -> None:
        client.create("foo", *RUN)
        client.sh("foo", WORK)
        before = client.sh("foo", LOOK)
        client("snapshot", "create", "foo", "kept")
        client.sh("foo", "echo later >README.md")
        client("destroy", "--force", "foo")
        client("snapshot", "restore", "kept", "bar")
        agent = client.agent("bar")
        assert (agent["state"], agent["branch"], agent["host"]) == ("RUNNING", "mngr/bar", client.host)
        assert client.sh("bar", LOOK) == before
        assert [row["name"] for row in client.json("snapshot", "list")["snapshots"]] == ["kept"]

    def test_a_branch_with_work_of_its_own_stays(self, client: Client) -> None:
        client.create("foo", *RUN)
        client.create("idle", *RUN)
        done = client.commit("foo", "one.txt")
        client("pull", "foo")
        client("destroy", "--force", "foo", "idle")
        assert refs(client.repo).get("refs/heads/mngr/foo") == done
        assert "refs/heads/mngr/idle" not in refs(client.repo)
        assert git(client.repo, "worktree", "list").count("\n") == 0

    def test_there_is_nothing_to_clean_up(self, client: Client) -> None:
        client.create("foo", "--idle-timeout", "1h", *RUN)
        client.create("done", "--transfer", "mirror", "--", "true")
        client.create("off", "player")
        client("stop", "off")
        assert client.json("gc", "--dry-run")["results"] == []
        assert client("gc").err == "nothing to clean up\n"
        wait_for(lambda: client.agent("done")["state"] == "DONE")
        assert {a["name"]: a["state"] for a in client.agents()} == {
            "foo": "RUNNING",
            "done": "DONE",
            "off": "STOPPED",
        }
