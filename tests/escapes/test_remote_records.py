"""Attempts of an agent on another machine: its record and its files must not lead mngr to files of this machine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import run_git
from tests.escapes.attempt import COPY, LOOK, SAVE, SYNC, attack, some
from tests.support.hosts.sshd import Farm
from tests.support.person import PEOPLE

# Makes a bare repository among the outputs that runs a program when git works there.
_EVIL_REPOSITORY = """
git init -q --bare "$OUTPUTS/evil"; cd "$OUTPUTS/evil"; rm -rf hooks
git config core.repositoryFormatVersion 1; git config extensions.partialClone x; git config remote.x.promisor true
git config remote.x.url "ext::sh -c touch% $MARK"; git config protocol.ext.allow always; git config core.fsmonitor "touch $MARK; false"
tree=$(printf '' | git mktree); commit=$(git commit-tree -m x "$tree"); git update-ref refs/heads/main "$commit"
rm -f "objects/$(echo "$tree" | cut -c1-2)/$(echo "$tree" | cut -c3-)"
"""
_EVERY = (*LOOK, *SYNC, "clone foo bar", "stop foo", "snapshot create foo kept", "destroy --force foo", "undestroy foo")


@dataclass(frozen=True)
class RecordAttempt:
    """What an agent on another machine writes into its own record there, and what the user does afterwards."""

    name: str
    fields: Mapping[str, object] = field(default_factory=dict)  # the variables of the attempt are in braces
    verbs: tuple[str, ...] = _EVERY
    plant: str = ""  # a shell program of the agent on its machine


ATTEMPTS = [
    RecordAttempt("the source is a repository that came as an output", {"source": "{REPO}/.mngr/outputs/foo/evil"}, ("pull foo", *LOOK, "destroy --force foo"), _EVIL_REPOSITORY),
    RecordAttempt("the source is a directory of the user", {"source": "{TREASURE}", "transfer": "worktree"}),
    RecordAttempt("the source is the repository of the user, as for a worktree", {"source": "{REPO}", "transfer": "worktree", "branch": "main"}),
    RecordAttempt("the work dir is a directory of the user", {"work_dir": "{TREASURE}"}, ("list --git", "destroy --force foo")),
    RecordAttempt("the agent says that it is on this machine", {"provider": "local", "host": "local", "work_dir": "{TREASURE}", "source": "{TREASURE}"}),
    RecordAttempt("the agent says that it has a sandbox on this machine", {"provider": "local", "host": "local", "sandbox": True}, plant='echo "touch $MARK; false" >"$AGENT/sandbox"'),
    RecordAttempt("the id leads to another directory", {"id": "../../../outside/treasure"}),
    RecordAttempt("the name leads to another directory", {"name": "../../outside/treasure"}),
    RecordAttempt("the name is an option", {"name": "--force"}),
    RecordAttempt("the branch is an option of git", {"branch": "--upload-pack=touch {MARK}"}),
    RecordAttempt("the base is an option of git", {"base": "--output={NEW}"}),
    RecordAttempt("the branch is the user's own branch", {"branch": "main"}, ("pull foo", "diff foo", "destroy --force foo")),
    RecordAttempt("the host is an option of ssh", {"host": "-oProxyCommand=touch {MARK}"}),
    RecordAttempt("the kind does not exist", {"kind": "../../evil", "sandbox": True, "network": "allow=$(touch {MARK})"}),
    RecordAttempt("labels and variables hold words that a shell could obey", {"labels": {"a": "$(touch {MARK})", "\x1b[2J": "`touch {MARK}`"}}),
    RecordAttempt("the fields have wrong types", {"labels": [], "branch": {}, "created_at": [[]], "source": 7}),
    RecordAttempt("the record is a link to a secret", plant='ln -sf "$SECRET" "$AGENT/agent.json"'),
    RecordAttempt("the files of the agent are links to a secret", verbs=("pull foo", *SAVE, *COPY), plant='for f in env command events.jsonl status transcript.jsonl outputs/x; do rm -f "$AGENT/$f"; ln -s "$SECRET" "$AGENT/$f"; done'),
]  # fmt: skip


@pytest.mark.parametrize("attempt", some(ATTEMPTS, one_of=8))
def test_an_agent_on_another_machine_leaves_no_mark(attempt: RecordAttempt, farm: Farm) -> None:
    with attack(PEOPLE[0]) as target:
        target.user.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
        target.user("create", "foo@h1", "--", "sleep", "1000")
        host_home = farm.home("h1") / ".mngr"
        agent_dir = host_home / "agents" / os.readlink(host_home / "names" / "foo")
        env = {**os.environ, **target.variables, "AGENT": str(agent_dir), "OUTPUTS": str(agent_dir / "outputs")}
        subprocess.run(["sh", "-ec", attempt.plant], cwd=host_home / "work/foo", env=env, check=True)
        if attempt.fields:
            path = agent_dir / "agent.json"
            changes = json.loads(fill(json.dumps(attempt.fields), target.variables))
            path.write_text(json.dumps({**json.loads(path.read_text()), **changes}) + "\n")
        for verb in attempt.verbs:
            target.run_verb(verb)
            assert target.list_marks() == [], verb


def test_an_agent_on_another_machine_gets_nothing_of_another_project(farm: Farm) -> None:
    """The machine names that project as the agent's source. A copy of the agent gets files and commits of its source."""
    with attack(PEOPLE[0]) as target:
        target.user.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
        other = target.root / "other"
        subprocess.run(["git", "init", "-q", str(other)], check=True)
        (other / ".mngr").mkdir()
        (other / ".mngr/settings.toml").write_text('[project]\ncarry = [".env"]\n')
        (other / ".gitignore").write_text(".env\n")
        (other / ".env").write_text(target.outside.secret)
        (other / "large").write_bytes(os.urandom(2 << 20))
        for words in (["add", "-A"], ["commit", "-qm", "x"], ["repack", "-adq"]):
            subprocess.run(["git", *words], cwd=other, env=target.user.env, check=True)
        target.user("trust", "--yes", cwd=other)
        target.user("create", "foo@h1", "--", "sleep", "1000")
        host_home = farm.home("h1") / ".mngr"
        path = host_home / "agents" / os.readlink(host_home / "names" / "foo") / "agent.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "source": str(other)}) + "\n")
        for verb in (
            "clone foo bar",
            "snapshot create foo kept",
            "snapshot restore kept baz",
            "destroy --force foo",
            "undestroy foo",
        ):
            assert "Error" not in target.run_verb(verb)
        files = [file for file in host_home.rglob("*") if file.is_file() and not file.is_symlink()]
        assert [file for file in files if target.outside.secret.encode() in file.read_bytes()] == []
        assert [file for file in files if file.stat().st_size > 1 << 20] == []


def test_an_agent_on_another_machine_gets_no_login_because_it_calls_itself_a_coding_agent(
    farm: Farm, tmp_path: Path
) -> None:
    with attack(PEOPLE[0]) as target:
        (tmp_path / "claude").write_text("#!/bin/sh\necho 2.1.300\n")
        (tmp_path / "claude").chmod(0o755)
        target.user.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
        target.user.env["MNGR__AGENTS__CLAUDE__PROGRAM"] = str(tmp_path / "claude")
        login = Path(target.user.env["HOME"]) / ".claude/.credentials.json"
        login.parent.mkdir()
        login.write_text(json.dumps({"claudeAiOauth": {"accessToken": target.outside.secret}}))
        target.user("create", "foo@h1", "--", "sleep", "1000")
        host_home = farm.home("h1") / ".mngr"
        agent_dir = host_home / "agents" / os.readlink(host_home / "names" / "foo")
        record = json.loads((agent_dir / "agent.json").read_text())
        (agent_dir / "agent.json").write_text(json.dumps({**record, "kind": "claude"}) + "\n")
        for verb in ("stop foo", "start foo", "clone foo bar", "snapshot create foo kept", "snapshot restore kept baz"):
            target.run_verb(verb)
        files = [file for file in farm.home("h1").rglob("*") if file.is_file() and not file.is_symlink()]
        assert [file for file in files if target.outside.secret.encode() in file.read_bytes()] == []


def test_an_agent_on_another_machine_names_no_branches_that_mngr_deletes(farm: Farm) -> None:
    """In an unfinished restore on this machine, the same file lists the branches that the restore has created."""
    with attack(PEOPLE[0]) as target:
        target.user.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
        run_git(target.user.repo, "branch", "precious")
        target.user("create", "foo@h1", "--", "sleep", "1000")
        host_home = farm.home("h1") / ".mngr"
        agent_dir = host_home / "agents" / os.readlink(host_home / "names" / "foo")
        record = json.loads((agent_dir / "agent.json").read_text())
        branches = [["precious", run_git(target.user.repo, "rev-parse", "precious")]]
        (agent_dir / "restoring").write_text(json.dumps(branches))
        (agent_dir / "agent.json").write_text(
            json.dumps({**record, "phase": "destroying", "source": str(target.user.repo)}) + "\n"
        )
        target.run_verb("destroy --force foo")
        assert not agent_dir.exists()
        run_git(target.user.repo, "rev-parse", "--verify", "refs/heads/precious")


def fill(text: str, variables: Mapping[str, str]) -> str:
    """Replace the variables in braces."""
    for name, value in variables.items():
        text = text.replace(f"{{{name}}}", value)
    return text
