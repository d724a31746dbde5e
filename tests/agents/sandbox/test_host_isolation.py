"""The isolation check: mngr names the isolation of this machine, or refuses with the reason and the next command."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mngr.agents.sandbox import scoped_sockets
from mngr.base.paths import Home
from mngr.providers.local import LocalHost
from mngr.setup import doctor
from tests.conftest import BIN_DIR, MngrProgram
from tests.support.landlock import HAS_SCOPES
from tests.support.no_bwrap import make_path_without_bwrap

# Starts a command in a user namespace in which nobody can create further user namespaces.
NO_USER_NAMESPACES = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'


def find_isolation_check(mngr: MngrProgram, **options: dict[str, str]) -> dict[str, str]:
    (check,) = [check for check in mngr.run_json("doctor", **options)["checks"] if check["name"] == "sandbox"]
    return dict(check)


def test_doctor_names_the_isolation_in_force(mngr: MngrProgram) -> None:
    version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    check = find_isolation_check(mngr)
    assert check["status"] == "ok"
    assert check["found"] == f"{version}, user namespaces, network namespaces, seccomp"


def test_doctor_warns_when_bubblewrap_is_missing(mngr: MngrProgram, tmp_path: Path) -> None:
    path = make_path_without_bwrap(tmp_path / "bin", mngr.env["PATH"])
    check = find_isolation_check(mngr, env={"PATH": path})
    assert (check["status"], check["hint"]) == ("warning", "apt-get install bubblewrap")
    assert check["problem"] == "bubblewrap (bwrap) is not installed, so --sandbox and clean rooms do not work"


def test_sandbox_is_refused_where_user_namespaces_are_missing(mngr: MngrProgram) -> None:
    command = [str(BIN_DIR / "mngr"), "create", "foo", "--sandbox", "--", "true"]
    argv = ["unshare", "--user", "--map-root-user", "sh", "-c", NO_USER_NAMESPACES, "sh", *command]
    result = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "--sandbox: bubblewrap does not work on this machine: bwrap: " in result.stderr
    assert "sysctl -w kernel.unprivileged_userns_clone=1" in result.stderr
    assert "to run the agent without isolation, leave out --sandbox\n" in result.stderr
    assert not os.path.exists(mngr.home)


def test_doctor_warns_if_a_sandbox_with_the_network_reaches_sockets_without_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = LocalHost(Home(str(tmp_path)))
    assert [check.name for check in doctor._check_isolation(host)] == [
        "sandbox",
        *([] if HAS_SCOPES else ["sandbox sockets"]),
    ]
    monkeypatch.setattr(scoped_sockets, "WORDS", ())  # as on an older kernel
    check = list(doctor._check_isolation(host))[-1]
    assert (check.name, check.status) == ("sandbox sockets", "warning") and "--network on" in str(check.problem)


@pytest.mark.parametrize("missing", ["no program", "/usr/bin/perl"])
def test_a_program_behind_the_scope_gets_its_words_and_variables_unchanged(missing: str) -> None:
    """Without perl, mngr uses Python. The scope needs no privileges here, because the process may gain none."""
    words = [word.replace(missing, "/nowhere") for word in scoped_sockets.WORDS]
    argv = [
        "setpriv",
        "--no-new-privs",
        *words,
        "/usr/bin/env",
        "sh",
        "-c",
        'env -0; printf "%s|" "$@"',
        "sh",
        "a b",
        "",
        "c\nd",
    ]
    env = {
        "PATH": "/usr/bin:/bin",
        "ENV": "x",
        "LC_ALL": "none",
        "PERL5OPT": "-MNothing",
        "PYTHONPATH": "/",
        "A": "b\nc",
    }
    result = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    *variables, printed = result.stdout.split("\0")
    assert dict(row.split("=", 1) for row in variables if not row.startswith(("PWD=", "_=", "SHLVL="))) == env
    assert (printed, result.stderr) == ("a b||c\nd|", "")


def test_a_missing_program_behind_the_scope_is_reported() -> None:
    argv = ["setpriv", "--no-new-privs", *scoped_sockets.WORDS, "/nowhere"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode != 0
