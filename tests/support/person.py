"""The program as somebody runs it: as whoever runs the tests, and, where that is root, as an ordinary user too."""

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
from mngr.testkit.contract.program import clean_up, new_env, new_repo
from tests.conftest import BIN_DIR, MngrProgram

NOBODY = 65534
PEOPLE = ["root", "nobody"] if os.getuid() == 0 else ["user"]
# An ordinary user cannot reach root's Python, so it is bound to a place where he can.
_BECOME = """\
for name in python site source; do mount --bind "$1" "$name"; shift; done
cd "$1"
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


class Person(MngrProgram):
    """Runs mngr, and can have an agent try something."""

    uid = os.getuid()

    def argv(self, *words: str) -> list[str]:
        """What to run so that this person runs mngr."""
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
        given = {"input": data} if data is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            self.argv(*words), cwd=cwd or self.repo, env={**self.env, **(env or {})}, capture_output=True,
            timeout=timeout, check=False, **{**given, **more},
        )  # fmt: skip

    def tries(self, agent: str, line: str) -> list[str]:
        """The lines that a shell prints in the agent's place, complaints and all."""
        return self("exec", agent, "--", "sh", "-c", f"exec 2>&1\n{line}", code=None).out.splitlines()

    def tries_python(self, agent: str, program: str, *words: str) -> list[str]:
        """The lines that a Python program prints in the agent's place."""
        return self("exec", agent, "--", "python3", "-c", program, *words).out.splitlines()


class Nobody(Person):
    """An ordinary user."""

    uid = NOBODY

    def argv(self, *words: str) -> list[str]:
        root = self.home.parent
        places = [sys.base_prefix, sysconfig.get_path("purelib"), str(Path(mngr.__file__).parents[1])]
        python = root / "python" / "bin" / Path(sys.executable).resolve().name
        become = ["unshare", "--mount", "sh", "-e", "-c", f'cd "{root}"\n{_BECOME}', "become"]
        return [*become, *places, str(self.repo), str(python), "-P", "-m", "mngr", *words]


@contextmanager
def person(name: str) -> Iterator[Person]:
    """Somebody with a repository and a home, in a place that everybody may pass through."""
    root = Path(tempfile.mkdtemp(prefix="mngr-", dir="/tmp"))  # a socket's path has 108 bytes
    root.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        env = new_env(root)
        repo = new_repo(root, env, patch)
        someone: Person = Person(repo, root / "home", env)
        if name == "nobody":
            for place in ("python", "site", "source"):
                (root / place).mkdir()
            env["PATH"] = f"{root}/python/bin:/usr/local/bin:/usr/bin:/bin"
            env["PYTHONPATH"] = f"{root}/source:{root}/site"
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(root)], check=True)
            someone = Nobody(repo, root / "home", env)
        try:
            yield someone
        finally:
            clean_up(root)
