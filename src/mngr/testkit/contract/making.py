"""How agents come to be, and how `list` shows them."""

from __future__ import annotations

import os

from mngr.testkit.contract.place import RUN, Checks, Client
from mngr.testkit.contract.program import git, refs, wait_for

FIELDS = (
    "id name kind state state_reason state_source state_since parked_until host provider host_state project work_dir"
    " branch base created_at activity_at labels pid exit_code usage unpulled dirty"
).split()
# A repository on the host itself, made by an agent that is there.
ORIGIN = """
mkdir origin && cd origin && git init -q -b main && echo there >README.md && printf '*.log\\n' >.gitignore && git add -A
git -c user.name=Agent -c user.email=agent@example.invalid commit -q -m first && echo noise >x.log && pwd -P
"""


class Making(Checks):
    """create and list."""

    def test_an_agent_runs_on_its_host_and_list_says_so(self, client: Client) -> None:
        made = client.create("foo", "--label", "team=red", "--env", "GIVEN=a 'b' $c\nd", *RUN)
        agent = client.agent("foo")
        assert list(agent) == FIELDS
        same = ("id", "name", "kind", "state", "host", "provider", "project", "work_dir", "branch", "base")
        assert {key: agent[key] for key in same} == {key: made[key] for key in same}
        assert (agent["name"], agent["kind"], agent["state"]) == ("foo", "command", "RUNNING")
        assert (agent["host"], agent["provider"]) == (client.host, client.place.provider)
        assert (agent["host_state"], agent["labels"]) == ("RUNNING", {"team": "red"})
        assert (agent["branch"], agent["base"]) == ("mngr/foo", git(client.repo, "rev-parse", "HEAD"))
        own = 'printf "%s|" "$MNGR_AGENT_ID" "$MNGR_AGENT_NAME" "$MNGR_WORK_DIR" "$MNGR_BRANCH" "$MNGR_BASE" "$GIVEN"'
        said = client.sh("foo", f'cd "$MNGR_AGENT_DIR"; cd "$MNGR_OUTPUT_DIR"; kill -0 {agent["pid"]}; {own}')
        ours = [agent[key] for key in ("id", "name", "work_dir", "branch", "base")]
        assert said.split("|") == [*ours, "a 'b' $c\nd", ""]
        kind = client.sh("foo", "if [ -d .git ]; then echo mirror; else echo worktree; fi")
        assert kind == ("worktree\n" if client.place.is_here else "mirror\n")
        assert client.sh("foo", "cat README.md src/app.py; git status --porcelain") == "hello\nprint('hi')\n"
        rows = client.json("list", "--hosts")["hosts"]
        (row,) = [r for r in rows if (r["host"], r["provider"]) == (client.host, client.place.provider)]
        assert (row["state"], row["agents"], row["error"]) == ("RUNNING", 1, None)
        assert client("list", "--host", str(client.host), "--format", "{name}").out == "foo\n"
        assert client("list", "--provider", client.place.provider, "--format", "{name}").out == "foo\n"
        assert client.json("list", "--host", "elsewhere")["agents"] == []
        for text in ("foo", f"foo@{client.host}", client.at("foo"), client.agent("foo")["id"]):
            assert client("exec", text, "--", "printenv", "MNGR_AGENT_NAME").out == "foo\n"
        assert "there is no agent 'bar'" in client("exec", client.at("bar"), "--", "true", code=1).err

    def test_the_end_of_a_program_is_its_state(self, client: Client) -> None:
        client.create("ok", "--", "true")
        client.create("bad", "--", "exit 7;")
        client.create("shot", "--", "kill -9 $$;")
        wait_for(lambda: {a["state"] for a in client.agents()} == {"DONE", "FAILED"})
        rows = {a["name"]: (a["state"], a["state_reason"], a["exit_code"], a["pid"]) for a in client.agents()}
        assert rows == {
            "ok": ("DONE", None, 0, None),
            "bad": ("FAILED", "exit 7", 7, None),
            "shot": ("FAILED", "exit 137", 137, None),
        }

    def test_a_mirror_is_a_repository_of_its_own_and_a_copy_is_none(self, client: Client) -> None:
        git(client.repo, "branch", "side")
        git(client.repo, "tag", "v1")
        git(client.repo, "update-ref", "refs/other/thing", "HEAD")
        git(client.repo, "config", "alias.mine", "status")
        (client.repo / ".git/hooks/post-checkout").write_text("#!/bin/sh\ntouch ../hooked\n")
        (client.repo / ".git/hooks/post-checkout").chmod(0o755)
        head = git(client.repo, "rev-parse", "HEAD")
        client.create("foo", "--transfer", "mirror", *RUN)
        there = client.sh("foo", "git for-each-ref --format='%(refname) %(objectname)'").splitlines()
        names = ("refs/heads/main", "refs/heads/mngr/foo", "refs/heads/side", "refs/tags/v1")
        assert there == [f"{name} {head}" for name in names]
        look = "git symbolic-ref HEAD; git remote; git config alias.mine || :; ls .git/hooks .git/objects/info 2>/dev/null || :"
        assert "alternates" not in client.sh("foo", look) and "hooked" not in client.sh("foo", "ls ..")
        assert client.sh("foo", look).split()[0] == "refs/heads/mngr/foo"
        assert "post-checkout" not in client.sh("foo", look)
        assert "status" not in client.sh("foo", look).split()
        assert "refs/heads/mngr/foo" not in refs(client.repo)
        (client.repo / "noise.log").write_text("ignored")
        (client.repo / "new é.txt").write_text("not ignored")
        (client.repo / "tool").write_text("#!/bin/sh\necho ran\n")
        (client.repo / "tool").chmod(0o755)
        os.symlink("README.md", client.repo / "link")
        agent = client.create("copied", "--transfer", "copy", *RUN)
        assert (agent["branch"], agent["base"]) == (None, None)
        assert client.sh("copied", "./tool; readlink link; cat 'new é.txt'") == "ran\nREADME.md\nnot ignored"
        assert client.sh("copied", "printf '%s\\n' .[!.]* *").split("\n")[:-1] == sorted(
            [".gitignore", "README.md", "link", "new é.txt", "src", "tool"]
        )

    def test_from_a_directory_of_the_host_in_every_mode(self, client: Client) -> None:
        client.create("base", "--transfer", "copy", *RUN)
        origin = client.sh("base", ORIGIN).strip()
        modes = {"worktree": "mngr/worktree", "mirror": "mngr/mirror", "copy": None, "none": "main"}
        seen = {}
        for mode, branch in modes.items():
            words = [] if mode == "worktree" else ["--transfer", mode]  # which is what it is without asking
            agent = client.create(mode, "--from", client.there(origin), *words, *RUN)
            assert (mode, agent["branch"], agent["project"]) == (mode, branch, "origin")
            assert (agent["work_dir"] == origin) == (mode == "none")
            seen[mode] = client.sh(mode, "cat README.md; ls; ls -d .git || :").split()
        assert seen["worktree"] == seen["mirror"] == ["there", "README.md", ".git"]
        assert seen["copy"] == ["there", "README.md"] and seen["none"] == [
            "there",
            "README.md",
            "x.log",
            ".git",
        ]
        branches = client.sh("base", "git -C origin branch --format='%(refname:short)'").split()
        assert branches == ["main", "mngr/worktree"]  # a mirror's branch is its own
        assert list(refs(client.repo)) == ["refs/heads/main"]
        client("destroy", "--force", *modes)
        look = "cat origin/README.md; git -C origin worktree list | wc -l; ls .."
        assert client.sh("base", look).split() == ["there", "1", "base"]

    def test_uncommitted_work_comes_along_only_when_asked(self, client: Client) -> None:
        (client.repo / "README.md").write_text("changed\n")
        (client.repo / "src/app.py").unlink()
        (client.repo / "naïve name").write_bytes(bytes(range(256)))
        (client.repo / "naïve name").chmod(0o755)
        (client.repo / "noise.log").write_text("ignored")
        refused = client("create", client.at("foo"), *RUN, code=1).err
        assert "uncommitted changes" in refused and "--dirty include" in refused
        assert client.agents() == []
        client.create("clean", "--dirty", "ignore", *RUN)
        assert client.sh("clean", "git status --porcelain; cat README.md") == "hello\n"
        client.create("foo", "--dirty", "include", *RUN)
        look = "git -c core.quotePath=off status --porcelain -uall; cat README.md; git hash-object *name; test -x *name"
        blob = git(client.repo, "hash-object", "naïve name")
        seen = client.sh("foo", look).splitlines()
        assert [line.split(maxsplit=1)[1] for line in seen[:3]] == ["README.md", "src/app.py", '"naïve name"']
        assert seen[3:] == ["changed", blob]

    def test_several_at_once_and_a_name_only_once(self, client: Client) -> None:
        client.create("first", *RUN)  # so that there is a host
        made = client.json("create", client.at("w"), "--count", "3", *RUN)["agents"]
        assert [(a["name"], a["state"], a["host"]) for a in made] == [
            (f"w-{n}", "RUNNING", client.host) for n in (1, 2, 3)
        ]
        assert len({a["id"] for a in made} | {a["work_dir"] for a in made}) == 6
        refused = client("create", client.at("w-2"), *RUN, code=1).err
        assert "there is already an agent called 'w-2'" in refused
        assert sorted(a["name"] for a in client.agents()) == ["first", "w-1", "w-2", "w-3"]
        again = client.json("create", client.at("w-2"), "--reuse", *RUN)["agents"]
        assert [a["id"] for a in again] == [made[1]["id"]]

    def test_the_project_is_set_up_on_the_host(self, client: Client) -> None:
        (client.repo / ".mngr").mkdir()
        (client.repo / ".mngr" / "settings.toml").write_text(
            '[project]\nsetup = "mkdir -p build && pwd -P >build/where"\ncarry = ["secret.log"]\n'
        )
        git(client.repo, "add", "-A")
        git(client.repo, "commit", "-q", "-m", "settings")
        (client.repo / "secret.log").write_text("carried")
        (client.repo / "other.log").write_text("not carried")
        client.create("foo", *RUN)
        said = client.sh("foo", "pwd -P; cat build/where secret.log; test ! -e other.log")
        assert said.split("\n")[0] == said.split("\n")[1] and said.endswith("\ncarried")

    def test_what_cannot_be_made_leaves_nothing(self, client: Client) -> None:
        client.create("first", *RUN)
        before = refs(client.repo)
        for words in (
            ("--", "no-such-program"),
            ("-S", "project.setup=exit 3", *RUN),
            ("--branch", "no-such-base:new", *RUN),
            ("--transfer", "mirror", "--", "no-such-program"),
            ("--transfer", "copy", "--", "no-such-program"),
        ):
            ran = client("create", client.at("foo"), *words, code=1)
            assert ran.err.startswith("Error: ") and "\nHint: " in ran.err
        assert [a["name"] for a in client.agents()] == ["first"]
        assert refs(client.repo) == before
        assert client.sh("first", "ls ..").split() == ["first"]
        assert client.json("gc", "--dry-run")["results"] == []
        assert client.create("foo", *RUN)["branch"] == "mngr/foo"
