"""The randomised part: an agent plants links, odd names, special files and settings everywhere while every verb runs."""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import pytest

from tests.conftest import IS_FULL_SCALE, SEED
from tests.escapes.attempt import COPY, LOOK, MOVE, RESTART, SAVE, SYNC, TRAP, Target, attack
from tests.support.person import PEOPLE

ROUNDS = 60 if IS_FULL_SCALE else 2
VERBS = (
    LOOK,
    SYNC,
    SAVE,
    COPY,
    RESTART,
    MOVE,
    ("gc",),
    ("push src foo:src", "push README.md foo:README.md"),
    ("message foo -m hello --timeout 1s", "migrate foo @local", "capture foo", "tmr list", "tutorial check"),
)
# What the user runs in a directory of the agent.
VERBS_THERE = (
    "list --git", "diff foo", "init --no-try", "tutorial init --program x", "tutorial sync", "tutorial check", "tmr run --dry-run",
    "tmr verify HEAD", "map a -- true", "pull foo", "push foo", "config set project.program x", "trust --yes",
    "create own --dirty include -- true", "create own2 --dirty ignore -- true", "destroy --force own own2",
)  # fmt: skip

# Changes the agent's files at random until it is stopped. Its arguments are a seed and the paths of the user's files.
CHAOS = r"""
import os, random, shutil, socket, subprocess, sys, time
choose = random.Random(sys.argv[1])
goals = sys.argv[2:]
trap = os.path.expanduser("~/trap")
tops = [os.environ["MNGR_WORK_DIR"], os.environ["MNGR_OUTPUT_DIR"], os.environ["HOME"]]
fixed = [".git", ".git/index", ".git/HEAD", ".git/config", ".git/info/exclude", ".git/info/attributes", ".git/objects/info/alternates",
    ".git/refs/heads/mngr/foo", ".git/packed-refs", ".git/logs/HEAD", ".git/index.lock", ".git/commondir", ".git/shallow", ".git/hooks",
    ".git/modules", ".git/config.worktree", ".git/FETCH_HEAD", ".git/MERGE_HEAD", ".gitignore", ".gitattributes", ".gitmodules",
    "README.md", "src", ".mngr", ".mngr/settings.toml", ".config/git/config", ".gitconfig", ".claude/projects"]
odd = ["a\nb", "\x1b[2J", "-rf", "--checkpoint-action=exec=" + trap, "$(" + trap + ")", "`" + trap + "`", "..\n", "'", "\udcff", "x" * 255]
settings = ["core.fsmonitor", "core.hooksPath", "core.sshCommand", "core.worktree", "core.pager", "filter.x.clean", "filter.x.smudge",
    "diff.external", "remote.evil.url", "remote.evil.uploadpack", "include.path", "core.alternateRefsCommand", "gpg.program", "core.askPass",
    "core.attributesFile", "core.excludesFile", "commit.template", "credential.helper", "init.templateDir", "uploadpack.packObjectsHook"]

def pick():
    top = choose.choice(tops)
    if choose.random() < 0.7:
        return os.path.join(top, choose.choice(fixed))
    found = [os.path.join(parent, name) for parent, folders, files in os.walk(top) for name in folders + files][:500]
    return choose.choice(found or [top + "/x"])

def clear(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, path + ".old%d" % choose.randrange(10 ** 9))
    elif os.path.lexists(path):
        os.unlink(path)

def step():
    path = pick()
    action = choose.choice(["link", "link", "link", "config", "config", "name", "bytes", "sparse", "folder", "delete", "mode", "socket", "commit"])
    if action == "config":
        value = choose.choice([trap, "!" + trap, "ext::" + trap, choose.choice(goals)])
        place = choose.choice([["--local"], ["--global"], ["--file", path]])
        subprocess.run(["git", "config", *place, choose.choice(settings), value], capture_output=True)
    elif action == "commit":
        subprocess.run("git add -A; git commit -qm x", shell=True, capture_output=True)
    elif action == "name":
        open(os.path.join(os.path.dirname(path), choose.choice(odd)), "w").write("x")
    elif action == "mode":
        os.chmod(path, choose.choice([0, 0o6755, 0o777]), follow_symlinks=True)
    else:
        clear(path)
        if action == "link": os.symlink(choose.choice(goals + ["/", "..", "."]), path)
        if action == "bytes": open(path, "wb").write(choose.randbytes(200))
        if action == "sparse": os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 24)
        if action == "folder": os.mkdir(path)
        if action == "socket": os.chdir(os.path.dirname(path)); socket.socket(socket.AF_UNIX).bind(os.path.basename(path))

while True:
    try:
        step()
    except (OSError, ValueError):
        pass
    time.sleep(choose.random() / 20)
"""


@pytest.mark.parametrize("number", range(ROUNDS))
def test_an_agent_that_plants_at_random_while_every_verb_runs_leaves_no_mark(number: int) -> None:
    seed = f"{SEED}-{number}"
    choose = random.Random(seed)
    with attack(PEOPLE[number % len(PEOPLE)]) as target:
        goals = [target.variables[name] for name in ("PRECIOUS", "TREASURE", "SECRET", "NEW", "MARK", "REPO")]
        target.user(
            "create",
            "foo",
            "--sandbox",
            "--",
            "sh",
            "-c",
            "until [ -e ~/go ]; do sleep 0.05; done; exec python3 ~/chaos " + shlex.join([seed, *goals]),
        )
        target.run_in_agent(f"{TRAP}cat > ~/chaos <<'END_OF_CHAOS'\n{CHAOS}END_OF_CHAOS\ntouch ~/go\n")
        groups = choose.sample(VERBS, len(VERBS) if IS_FULL_SCALE else 3)
        for verb in (verb for group in groups for verb in group):
            target.run_verb(verb)
            assert target.list_marks() == [], f"{verb}, MNGR_TEST_SEED={SEED}"
            directory, verb = choose.choice(list_agent_directories(target)), choose.choice(VERBS_THERE)
            if not run_there(target, directory, verb):
                continue
            assert target.list_marks() == [], f"{verb} in {directory}, MNGR_TEST_SEED={SEED}"


def list_agent_directories(target: Target) -> list[Path]:
    """Return the agent's work dir and the directories of its outputs, also of those that the user has pulled."""
    outputs = [path / "outputs" for path in (target.user.home / "agents").glob("*")]
    return [target.user.home / "work" / "foo", target.user.repo / ".mngr" / "outputs" / "foo", *outputs]


def run_there(target: Target, directory: Path, verb: str) -> bool:
    """Run a command of the user in a directory, unless the agent has replaced or deleted the directory."""
    if directory.is_relative_to(target.user.repo) and verb.startswith("tutorial init"):
        return False  # This is the user's project, in which the command may write.
    try:
        target.run_verb(verb, cwd=directory)
    except OSError:
        return False
    return True
