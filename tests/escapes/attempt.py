"""An attempt to leave a mark outside, the user whom it attacks, and the marks that it must not leave."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from tests.conftest import SEED
from tests.escapes.services import Services
from tests.support.person import PEOPLE, Person, person

AGENT = ("--sandbox", "--", "sleep", "1000")

# Groups of commands that the user runs on the agent `foo`. Words that begin with `git` run git in the user's repository.
LOOK = ("list --git", "diff foo", "diff foo --committed", "explain foo", "events foo", "transcript foo", "usage foo")
SYNC = ("pull foo", "pull foo:. ../came", "push foo --stash", "git fetch -q mngr::foo mngr/foo")
SAVE = ("snapshot create foo kept", "destroy --force foo", "undestroy foo")
COPY = (
    "clone foo bar",
    "create baz --from foo --dirty include -- sleep 1000",
    "create inside --from {STATE}/work/foo --dirty ignore -- sleep 1000",
    "create there --from @local:{STATE}/work/foo --dirty ignore -- sleep 1000",
    "destroy --force baz",
    "undestroy baz",
)
RESTART = ("stop foo", "start foo")
MOVE = ("rename foo foo2", "label foo2 a=b", "rename foo2 foo")
EVERY_VERB = (*LOOK, *SYNC, *RESTART, *MOVE, *COPY, *SAVE, "gc")

# A program that a hostile setting runs. Outside a sandbox it leaves a mark. Inside, it replaces everything that mngr lets
# it write, apart from the agent's own files, by links to files of the user.
TRAP = r"""
cat > ~/trap <<'END'
#!/bin/sh
touch "$MARK"
while read -r _ _ _ _ dir options _; do
    case $dir:$options in "$MNGR_AGENT_DIR"*|"$MNGR_WORK_DIR"*) continue ;; "$STATE"/*:rw*) ;; *) continue ;; esac
    cd "$dir" || continue
    for name in * work.bundle work.tar git.tar raw indexes.tar; do
        rm -rf "./$name"
        case $name in raw) ln -s "$TREASURE" "$name" ;; *) ln -s "$PRECIOUS" "$name" ;; esac
    done
done < /proc/self/mountinfo
END
sed -i "2i MARK='$MARK' PRECIOUS='$PRECIOUS' TREASURE='$TREASURE' STATE='$STATE' MNGR_WORK_DIR='$MNGR_WORK_DIR' MNGR_AGENT_DIR='$MNGR_AGENT_DIR'" ~/trap
chmod 755 ~/trap
"""


@dataclass(frozen=True)
class Attempt:
    """A hostile program for the agent's sandbox, and the commands of the user that follow it.

    The program finds these variables: MARK (a file that must not appear), PRECIOUS and TREASURE (a file and a directory
    that must not change), SECRET (a file that must not be read), NEW (a path where nothing must appear), STATE (mngr's
    home), PORT, ABSTRACT and SOCKET (addresses that must not answer) and VICTIM (a process that must survive).
    A line of its output that starts with MARK is a mark, too.
    """

    name: str  # a sentence that says what is tried
    plant: str  # a shell program that the agent runs
    verbs: tuple[str, ...] = ()  # what the user does afterwards
    proof: str = ""  # a shell program that, after `plant`, leaves a mark where there is no sandbox
    options: tuple[str, ...] = field(default=AGENT)  # how the agent is created


@dataclass(frozen=True)
class Outside:
    """Files of the user that nobody may touch. A mark is any change of them."""

    root: Path
    secret: str

    @staticmethod
    def create(root: Path) -> Outside:
        """Create the files in a new directory."""
        secret = "secret-" + secrets.token_hex(12)
        (root / "marks").mkdir(parents=True)
        (root / "treasure" / "inner").mkdir(parents=True)
        (root / "treasure" / "coin").write_text("gold\n")
        (root / "treasure" / "inner" / "coin").write_text("silver\n")
        (root / "precious").write_text("precious\n")
        (root / "secret").write_text(secret + "\n")
        return Outside(root, secret)

    def get_variables(self) -> dict[str, str]:
        """Return the variables that lead an attempt to these files."""
        names = {"MARK": "marks/ran", "PRECIOUS": "precious", "TREASURE": "treasure", "SECRET": "secret", "NEW": "new"}
        return {name: str(self.root / path) for name, path in names.items()}


def read_state(directory: Path) -> dict[str, str]:
    """Return every path below a directory with its type, mode and contents."""
    state = {}
    for top, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            mode = os.lstat(path).st_mode
            content = ""
            if stat.S_ISLNK(mode):
                content = os.readlink(path)
            elif stat.S_ISREG(mode):
                content = Path(path).read_bytes().decode(errors="replace")
            state[os.path.relpath(path, directory)] = f"{mode:o} {content}"
    return state


class Target:
    """A user with files, a repository and perhaps a hostile agent."""

    def __init__(self, user: Person) -> None:
        self.user = user
        self.root = user.home.parent
        self.outside = Outside.create(self.root / "outside")
        if user.uid != os.getuid():
            subprocess.run(["chown", "-R", f"{user.uid}:{user.uid}", str(self.outside.root)], check=True)
        self.variables = {**self.outside.get_variables(), "STATE": str(user.home), "REPO": str(user.repo)}
        self._before: dict[str, str] = {}
        self.remember()

    def remember(self) -> None:
        """Take the user's files as they are now for the state that must not change."""
        self._before = self._read_users_files()

    def _read_users_files(self) -> dict[str, str]:
        """Return the user's files, without those that commands of the user may change."""
        files = {f"outside/{path}": text for path, text in read_state(self.outside.root).items()}
        files |= {f"user/{path}": text for path, text in read_state(Path(self.user.env["HOME"])).items()}
        for path, text in read_state(self.user.repo).items():
            top = path.split("/")[0]
            if top not in (".git", ".mngr") or path.startswith((".git/hooks", ".git/config")):
                files[f"repo/{path}"] = text
        return files

    def build_script(self, script: str) -> str:
        """Return a shell program with the variables of the attempt."""
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in self.variables.items()) + script

    def run_in_agent(self, script: str, agent: str = "foo", *, code: int | None = 0) -> str:
        """Run a shell program of the agent in its sandbox, and return its output."""
        words = ("exec", agent, "--", "sh", "-ec", self.build_script(script))
        result = self.user(*words, code=code, timeout=30)
        return result.out + result.err

    def run_verb(self, verb: str, **more: object) -> str:
        """Run a command of the user. It may fail, but it may neither hang nor crash."""
        words = shlex.split(verb.format(**self.variables))
        if words[0] == "git":
            subprocess.run(words, cwd=self.user.repo, env=self.user.env, capture_output=True, timeout=30, check=False)
            return ""
        result = self.user(*words, code=None, timeout=30, **more)  # type: ignore[arg-type]
        crashes = [path.read_text() for path in (self.user.home / "crashes").glob("*")]
        assert crashes == [] and "Traceback" not in result.err, f"{verb} crashed: {result.err} {crashes}"
        assert result.code != 2, f"{verb} is no command: {result.err}"
        return result.out + result.err

    def list_marks(self, output: str = "") -> list[str]:
        """Return everything that an attempt has left outside, changed there, or brought in from there."""
        after = self._read_users_files()
        marks = [f"created {path}" for path in after.keys() - self._before.keys()]
        marks += [f"deleted {path}" for path in self._before.keys() - after.keys()]
        marks += [f"changed {path}" for path in after.keys() & self._before.keys() if after[path] != self._before[path]]
        marks += [f"printed {line}" for line in output.splitlines() if line.startswith("MARK")]
        if self.outside.secret in output:
            marks.append("printed the secret")
        for directory in ("work", "agents"):
            marks += [f"copied the secret to {path}" for path in self._find_secret(self.user.home / directory)]
        for arrived in (self.root / "came", self.user.repo / ".mngr" / "outputs"):
            marks += [f"brought {path}" for path in list_dangerous_files(arrived)]
        return sorted(marks)

    def _find_secret(self, directory: Path) -> Iterator[Path]:
        """Yield the files below a directory that hold the secret."""
        for top, _, files in os.walk(directory):
            for path in (Path(top, name) for name in files):
                try:
                    status = path.lstat()
                    is_small_file = stat.S_ISREG(status.st_mode) and status.st_size < 1 << 20
                    if is_small_file and self.outside.secret.encode() in path.read_bytes():
                        yield path
                except (FileNotFoundError, NotADirectoryError):
                    continue  # The agent deleted or replaced it meanwhile.


def list_dangerous_files(directory: Path) -> Iterator[str]:
    """Yield files that must never arrive from an agent: links that lead out, devices, pipes and set-uid programs."""
    for top, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                goal = os.path.normpath(os.path.join(top, os.readlink(path)))
                if not f"{goal}/".startswith(f"{directory}/"):
                    yield f"{path} -> {goal}"
            elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or mode & (stat.S_ISUID | stat.S_ISGID):
                yield path


@contextmanager
def attack(name: str) -> Iterator[Target]:
    """A fresh target: the user `name` without any agent."""
    with person(name) as user:
        yield Target(user)


class Named(Protocol):
    """Anything with a name, such as an attempt."""

    @property
    def name(self) -> str: ...


def is_drawn(text: str, one_of: int) -> bool:
    """True for one text in `one_of`. MNGR_TEST_SEED decides which ones."""
    return int.from_bytes(hashlib.sha256(f"{SEED} {text}".encode()).digest()[:4], "big") % one_of == 0


def some(attempts: Sequence[Named], one_of: int) -> list[object]:
    """Return test parameters: `make test` runs one attempt in `one_of`, and `make test-hosts` runs the others."""
    return [
        pytest.param(attempt, id=attempt.name, marks=[] if is_drawn(attempt.name, one_of) else [pytest.mark.hosts])
        for attempt in attempts
    ]


def for_each_person(attempts: Sequence[Named], one_of: int) -> list[object]:
    """Return test parameters (user, attempt).

    `make test` runs one attempt in `one_of`, and `make test-hosts` runs the others. An ordinary user gets one attempt
    in four of each, and all of them in `make test-all`.
    """
    return [
        pytest.param(
            name,
            attempt,
            id=f"{name}-{attempt.name}",
            marks=[
                *([] if is_drawn(attempt.name, one_of) else [pytest.mark.hosts]),
                *([pytest.mark.sampled(4)] if name == "nobody" else []),
            ],
        )
        for attempt in attempts
        for name in PEOPLE
    ]


def prove(attempt: Attempt, tmp_path: Path, repo: Path) -> list[str]:
    """Return the marks that the attempt leaves where there is no sandbox."""
    outside = Outside.create(tmp_path / "outside")
    agent_home, work = tmp_path / "agent" / "home", tmp_path / "work"
    (agent_home.parent / "outputs").mkdir(parents=True)
    agent_home.mkdir()
    (agent_home / ".gitconfig").write_text((Path(os.environ["HOME"]) / ".gitconfig").read_text())
    subprocess.run(["git", "clone", "-q", "--no-local", str(repo), str(work)], check=True)
    subprocess.run(["git", "-C", str(work), "checkout", "-qb", "mngr/foo"], check=True)
    own = {"HOME": agent_home, "MNGR_WORK_DIR": work, "MNGR_AGENT_DIR": agent_home.parent, "STATE": tmp_path / "none"}
    own["MNGR_OUTPUT_DIR"] = agent_home.parent / "outputs"
    with Services(outside.root, outside.secret, os.getuid()) as services:
        env = {**os.environ, **outside.get_variables(), **services.variables}
        env |= {name: str(path) for name, path in own.items()}
        before, output = read_state(outside.root), ""
        for script in (attempt.plant, attempt.proof):
            result = subprocess.run(
                ["sh", "-ec", script], cwd=work, env=env, capture_output=True, text=True, timeout=30, check=False
            )
            output += result.stdout
        after = read_state(outside.root)
        marks = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        marks += [line for line in output.splitlines() if line.startswith("MARK") or outside.secret in line]
        return marks + services.list_marks()
