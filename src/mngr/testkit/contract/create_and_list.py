"""Checks of create and list."""

from __future__ import annotations

import os

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks
from mngr.testkit.contract.mngr_program import list_refs, run_git, wait_for

LIST_FIELDS = (
    "id name kind state state_reason state_source state_since parked_until host provider host_state project work_dir"
    " branch base created_at activity_at labels pid exit_code usage unpulled dirty"
).split()
# Creates a repository on the host itself. An agent on the host runs it.
ORIGIN_SCRIPT = """
mkdir origin && cd origin && git init -q -b main && echo there >README.md && printf '*.log\\n' >.gitignore && git add -A
git -c user.name=Agent -c user.email=agent@example.invalid commit -q -m first && echo noise >x.log && pwd -P
"""


class CreateContract(ContractChecks):
    """Checks of create and list."""

    def test_created_agent_runs_on_its_host_and_is_listed(self, client: Client) -> None:
        created = client.create("foo", "--label", "team=red", "--env", "GIVEN=a 'b' $c\nd", *SLEEP_COMMAND)
        agent = client.get_agent("foo")
        assert list(agent) == LIST_FIELDS
        unchanged = ("id", "name", "kind", "state", "host", "provider", "project", "work_dir", "branch", "base")
        assert {key: agent[key] for key in unchanged} == {key: created[key] for key in unchanged}
        assert (agent["name"], agent["kind"], agent["state"]) == ("foo", "command", "RUNNING")
        assert (agent["host"], agent["provider"]) == (client.host, client.place.provider)
        assert (agent["host_state"], agent["labels"]) == ("RUNNING", {"team": "red"})
        assert (agent["branch"], agent["base"]) == ("mngr/foo", run_git(client.repo, "rev-parse", "HEAD"))
        print_variables = (
            'printf "%s|" "$MNGR_AGENT_ID" "$MNGR_AGENT_NAME" "$MNGR_WORK_DIR" "$MNGR_BRANCH" "$MNGR_BASE" "$GIVEN"'
        )
        output = client.run_script(
            "foo", f'cd "$MNGR_AGENT_DIR"; cd "$MNGR_OUTPUT_DIR"; kill -0 {agent["pid"]}; {print_variables}'
        )
        expected = [agent[key] for key in ("id", "name", "work_dir", "branch", "base")]
        assert output.split("|") == [*expected, "a 'b' $c\nd", ""]
        kind = client.run_script("foo", "if [ -d .git ]; then echo mirror; else echo worktree; fi")
        assert kind == ("worktree\n" if client.place.is_local else "mirror\n")
        assert client.run_script("foo", "cat README.md src/app.py; git status --porcelain") == "hello\nprint('hi')\n"
        rows = client.run_json("list", "--hosts")["hosts"]
        (row,) = [r for r in rows if (r["host"], r["provider"]) == (client.host, client.place.provider)]
        assert (row["state"], row["agents"], row["error"]) == ("RUNNING", 1, None)
        assert client("list", "--host", str(client.host), "--format", "{name}").out == "foo\n"
        assert client("list", "--provider", client.place.provider, "--format", "{name}").out == "foo\n"
        assert client.run_json("list", "--host", "elsewhere")["agents"] == []
        for text in ("foo", f"foo@{client.host}", client.build_address("foo"), client.get_agent("foo")["id"]):
            assert client("exec", text, "--", "printenv", "MNGR_AGENT_NAME").out == "foo\n"
        assert "there is no agent 'bar'" in client("exec", client.build_address("bar"), "--", "true", code=1).err

    def test_state_shows_how_the_program_ended(self, client: Client) -> None:
        client.create("ok", "--", "true")
        client.create("bad", "--", "exit 7;")
        client.create("shot", "--", "kill -9 $$;")
        wait_for(lambda: {a["state"] for a in client.list_agents()} == {"DONE", "FAILED"})
        rows = {a["name"]: (a["state"], a["state_reason"], a["exit_code"], a["pid"]) for a in client.list_agents()}
        assert rows == {
            "ok": ("DONE", None, 0, None),
            "bad": ("FAILED", "exit 7", 7, None),
            "shot": ("FAILED", "exit 137", 137, None),
        }

    def test_mirror_is_a_repository_and_copy_is_not(self, client: Client) -> None:
        run_git(client.repo, "branch", "side")
        run_git(client.repo, "tag", "v1")
        run_git(client.repo, "update-ref", "refs/other/thing", "HEAD")
        run_git(client.repo, "config", "alias.mine", "status")
        (client.repo / ".git/hooks/post-checkout").write_text("#!/bin/sh\ntouch ../hooked\n")
        (client.repo / ".git/hooks/post-checkout").chmod(0o755)
        head = run_git(client.repo, "rev-parse", "HEAD")
        client.create("foo", "--transfer", "mirror", *SLEEP_COMMAND)
        refs = client.run_script("foo", "git for-each-ref --format='%(refname) %(objectname)'").splitlines()
        names = ("refs/heads/main", "refs/heads/mngr/foo", "refs/heads/side", "refs/tags/v1")
        assert refs == [f"{name} {head}" for name in names]
        script = "git symbolic-ref HEAD; git remote; git config alias.mine || :; ls .git/hooks .git/objects/info 2>/dev/null || :"
        assert "alternates" not in client.run_script("foo", script) and "hooked" not in client.run_script(
            "foo", "ls .."
        )
        assert client.run_script("foo", script).split()[0] == "refs/heads/mngr/foo"
        assert "post-checkout" not in client.run_script("foo", script)
        assert "status" not in client.run_script("foo", script).split()
        assert "refs/heads/mngr/foo" not in list_refs(client.repo)
        (client.repo / "noise.log").write_text("ignored")
        (client.repo / "new é.txt").write_text("not ignored")
        (client.repo / "tool").write_text("#!/bin/sh\necho ran\n")
        (client.repo / "tool").chmod(0o755)
        os.symlink("README.md", client.repo / "link")
        agent = client.create("copied", "--transfer", "copy", *SLEEP_COMMAND)
        assert (agent["branch"], agent["base"]) == (None, None)
        assert client.run_script("copied", "./tool; readlink link; cat 'new é.txt'") == "ran\nREADME.md\nnot ignored"
        assert client.run_script("copied", "printf '%s\\n' .[!.]* *").split("\n")[:-1] == sorted(
            [".gitignore", "README.md", "link", "new é.txt", "src", "tool"]
        )

    def test_create_from_a_host_directory_in_every_transfer_mode(self, client: Client) -> None:
        client.create("base", "--transfer", "copy", *SLEEP_COMMAND)
        origin = client.run_script("base", ORIGIN_SCRIPT).strip()
        modes = {"worktree": "mngr/worktree", "mirror": "mngr/mirror", "copy": None, "none": "main"}
        files = {}
        for mode, branch in modes.items():
            options = [] if mode == "worktree" else ["--transfer", mode]  # the default mode
            agent = client.create(mode, "--from", client.build_host_source(origin), *options, *SLEEP_COMMAND)
            assert (mode, agent["branch"], agent["project"]) == (mode, branch, "origin")
            assert (agent["work_dir"] == origin) == (mode == "none")
            files[mode] = client.run_script(mode, "cat README.md; ls; ls -d .git || :").split()
        assert files["worktree"] == files["mirror"] == ["there", "README.md", ".git"]
        assert files["copy"] == ["there", "README.md"] and files["none"] == [
            "there",
            "README.md",
            "x.log",
            ".git",
        ]
        branches = client.run_script("base", "git -C origin branch --format='%(refname:short)'").split()
        assert branches == ["main", "mngr/worktree"]  # a mirror's branch is only in the mirror
        assert list(list_refs(client.repo)) == ["refs/heads/main"]
        client("destroy", "--force", *modes)
        script = "cat origin/README.md; git -C origin worktree list | wc -l; ls .."
        assert client.run_script("base", script).split() == ["there", "1", "base"]

    def test_uncommitted_files_are_copied_only_on_request(self, client: Client) -> None:
        (client.repo / "README.md").write_text("changed\n")
        (client.repo / "src/app.py").unlink()
        (client.repo / "naïve name").write_bytes(bytes(range(256)))
        (client.repo / "naïve name").chmod(0o755)
        (client.repo / "noise.log").write_text("ignored")
        stderr = client("create", client.build_address("foo"), *SLEEP_COMMAND, code=1).err
        assert "uncommitted changes" in stderr and "--dirty include" in stderr
        assert client.list_agents() == []
        client.create("clean", "--dirty", "ignore", *SLEEP_COMMAND)
        assert client.run_script("clean", "git status --porcelain; cat README.md") == "hello\n"
        client.create("foo", "--dirty", "include", *SLEEP_COMMAND)
        script = (
            "git -c core.quotePath=off status --porcelain -uall; cat README.md; git hash-object *name; test -x *name"
        )
        blob = run_git(client.repo, "hash-object", "naïve name")
        lines = client.run_script("foo", script).splitlines()
        assert [line.split(maxsplit=1)[1] for line in lines[:3]] == ["README.md", "src/app.py", '"naïve name"']
        assert lines[3:] == ["changed", blob]

    def test_create_several_agents_and_reject_a_used_name(self, client: Client) -> None:
        client.create("first", *SLEEP_COMMAND)  # so that the host exists
        agents = client.run_json("create", client.build_address("w"), "--count", "3", *SLEEP_COMMAND)["agents"]
        assert [(a["name"], a["state"], a["host"]) for a in agents] == [
            (f"w-{n}", "RUNNING", client.host) for n in (1, 2, 3)
        ]
        assert len({a["id"] for a in agents} | {a["work_dir"] for a in agents}) == 6
        stderr = client("create", client.build_address("w-2"), *SLEEP_COMMAND, code=1).err
        assert "there is already an agent called 'w-2'" in stderr
        assert sorted(a["name"] for a in client.list_agents()) == ["first", "w-1", "w-2", "w-3"]
        reused = client.run_json("create", client.build_address("w-2"), "--reuse", *SLEEP_COMMAND)["agents"]
        assert [a["id"] for a in reused] == [agents[1]["id"]]

    def test_the_project_is_set_up_on_the_host(self, client: Client) -> None:
        (client.repo / ".mngr").mkdir()
        (client.repo / ".mngr" / "settings.toml").write_text(
            '[project]\nsetup = "mkdir -p build && pwd -P >build/where"\ncarry = ["secret.log"]\n'
        )
        run_git(client.repo, "add", "-A")
        run_git(client.repo, "commit", "-q", "-m", "settings")
        client("trust", "--yes")
        (client.repo / "secret.log").write_text("carried")
        (client.repo / "other.log").write_text("not carried")
        client.create("foo", *SLEEP_COMMAND)
        output = client.run_script("foo", "pwd -P; cat build/where secret.log; test ! -e other.log")
        assert output.split("\n")[0] == output.split("\n")[1] and output.endswith("\ncarried")

    def test_failed_create_leaves_nothing(self, client: Client) -> None:
        client.create("first", *SLEEP_COMMAND)
        before = list_refs(client.repo)
        for words in (
            ("--", "no-such-program"),
            ("-S", "project.setup=exit 3", *SLEEP_COMMAND),
            ("--branch", "no-such-base:new", *SLEEP_COMMAND),
            ("--transfer", "mirror", "--", "no-such-program"),
            ("--transfer", "copy", "--", "no-such-program"),
        ):
            result = client("create", client.build_address("foo"), *words, code=1)
            assert result.err.startswith("Error: ") and "\nHint: " in result.err
        assert [a["name"] for a in client.list_agents()] == ["first"]
        assert list_refs(client.repo) == before
        assert client.run_script("first", "ls ..").split() == ["first"]
        assert client.run_json("gc", "--dry-run")["results"] == []
        assert client.create("foo", *SLEEP_COMMAND)["branch"] == "mngr/foo"
