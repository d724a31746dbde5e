"""Runs mngr as the user who runs the tests, and, if that is root, also as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import mngr
from mngr.testkit.contract.mngr_program import clean_up, new_env, new_repo
from tests.conftest import BIN_DIR, MngrProgram

NOBODY = 65534
PEOPLE = ["root", "nobody"] if os.getuid() == 0 else ["user"]
# An ordinary user cannot read root's Python, so it is mounted where the user can.
_BECOME = """\
for name in python site source; do mount --bind "$1" "$name"; shift; done
cd "$DIRECTORY" 2>/dev/null || cd "$1"
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


class Person(MngrProgram):
    """Runs mngr as one user, and tries commands inside an agent."""

    uid = os.getuid()

    def argv(self, *words: str) -> list[str]:
        """Return the command line that runs mngr as this user."""
        return [str(BIN_DIR / "mngr"), *words]

    def run_bytes(
        self,
        *words: str,
        data: bytes | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
        **more: object,
    ) -> subprocess.CompletedProcess[bytes]:
        input_options = {"input": data} if data is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            self.argv(*words), cwd=cwd or self.repo, capture_output=True, timeout=timeout, check=False,
            env={**self.env, "DIRECTORY": str(cwd or self.repo), **(env or {})}, **{**input_options, **more},
        )  # fmt: skip

    def tries(self, agent: str, line: str) -> list[str]:
        """Return the lines that a shell in the agent's work dir prints, including stderr."""
        return self("exec", agent, "--", "sh", "-c", f"exec 2>&1\n{line}", code=None).out.splitlines()

    def tries_python(self, agent: str, program: str, *words: str) -> list[str]:
        """Return the lines that a Python program in the agent's work dir prints."""
        return self("exec", agent, "--", "python3", "-c", program, *words).out.splitlines()


class Nobody(Person):
    """An ordinary user, while the tests run as root."""

    uid = NOBODY

    def argv(self, *words: str) -> list[str]:
        root = self.home.parent
        places = [sys.base_prefix, sysconfig.get_path("purelib"), str(Path(mngr.__file__).parents[1])]
        python = root / "python" / "bin" / Path(sys.executable).resolve().name
        become = ["unshare", "--mount", "sh", "-e", "-c", f'cd "{root}"\n{_BECOME}', "become"]
        return [*become, *places, str(self.repo), str(python), "-P", "-m", "mngr", *words]


@contextmanager
def person(name: str) -> Iterator[Person]:
    """A user with a repository and a home, in a directory that everyone may enter."""
    root = Path(tempfile.mkdtemp(prefix="mngr-", dir="/tmp"))  # short: a socket path has at most 108 bytes
    root.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        env = new_env(root)
        repo = new_repo(root, env, patch)
        user: Person = Person(repo, root / "home", env)
        if name == "nobody":
            for mount in ("python", "site", "source"):
                (root / mount).mkdir()
            env["PATH"] = f"{root}/python/bin:/usr/local/bin:/usr/bin:/bin"
            env["PYTHONPATH"] = f"{root}/source:{root}/site"
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(root)], check=True)
            user = Nobody(repo, root / "home", env)
        try:
            yield user
        finally:
            clean_up(root)
