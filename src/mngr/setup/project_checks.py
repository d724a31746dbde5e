"""The checks of `mngr doctor` about coding agents, container engines and the current project."""

from __future__ import annotations

import os
import shutil
import tempfile

from mngr.agents.context import Context
from mngr.base import paths, shell
from mngr.base.errors import MngrError
from mngr.base.fanout import map_parallel
from mngr.kinds.coding_agent import CodingAgentKind
from mngr.plugins.loader import CODING_KINDS
from mngr.providers.docker.docker_cli import DockerCli
from mngr.setup.doctor_check import ERROR, INFO, WARNING, DoctorCheck
from mngr.setup.trust import inspect_trust

_CALL_TIMEOUT = 10.0  # seconds for one call of a program
_SECRET_WORDS = ("KEY", "TOKEN")  # a variable with such a word in its name holds a login
_LOGIN_COMMANDS = {"claude": "claude /login", "codex": "codex login", "opencode": "opencode auth login"}
_USER_DIRS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")


def check_coding_agents(ctx: Context) -> list[DoctorCheck]:
    """Check which coding agents are installed, their versions, and whether the user is logged in."""
    kinds = [kind for name in CODING_KINDS if isinstance(kind := ctx.get_kind(name), CodingAgentKind)]
    installed = [kind for kind in kinds if all(shutil.which(program) for program in kind.programs)]
    missing = [kind for kind in kinds if kind not in installed]
    results = map_parallel(_check_coding_agent, installed, at_once=4)
    checks = [
        DoctorCheck(name=kind.name, status=WARNING, problem=str(result), hint=f"mngr doctor {kind.name}")
        if isinstance(result, Exception)
        else result
        for kind, result in zip(installed, results, strict=True)
    ]
    if not installed:
        hint = next((kind.install for kind in missing if kind.install), None)
        problem = "no coding agent is installed; mngr can run other programs only"
        return [DoctorCheck(name="coding agents", status=WARNING, problem=problem, hint=hint)]
    if missing:
        names = ", ".join(kind.name for kind in missing)
        found = f"not installed: {names}; to see how to install one: mngr doctor {missing[0].name}"
        checks.append(DoctorCheck(name="coding agents", status=INFO, found=found))
    return checks


def _check_coding_agent(kind: CodingAgentKind) -> DoctorCheck:
    """Check one installed coding agent."""
    program = kind.programs[0]
    with tempfile.TemporaryDirectory(prefix="mngr-doctor-") as scratch_dir:
        # Some programs create files even for --version, but doctor changes nothing of the user.
        env = {**os.environ, **{name: os.path.join(scratch_dir, name) for name in _USER_DIRS}}
        result = shell.run([program, "--version"], timeout=_CALL_TIMEOUT, env=env)
    if result.code:
        problem = f"{program} --version failed: {result.error_line}"
        return DoctorCheck(name=kind.name, status=WARNING, problem=problem, hint=kind.install or None)
    lines = result.out.decode("utf-8", "replace").split("\n")
    version = next((line.strip() for line in lines if line.strip()), "unknown version")
    login = _find_login(kind)
    if login is not None:
        return DoctorCheck(name=kind.name, found=f"{version}; {login}")
    if not kind.list_login_files():
        return DoctorCheck(name=kind.name, found=f"{version}; mngr cannot tell whether you are logged in")
    hint = _LOGIN_COMMANDS.get(kind.name, program)
    return DoctorCheck(name=kind.name, status=WARNING, problem=f"{version}; mngr found no login", hint=hint)


def _find_login(kind: CodingAgentKind) -> str | None:
    """Return a sentence on the evidence for a login, or None. mngr does not ask the service."""
    variables = [name for name in kind.get_user_variables() if any(word in name for word in _SECRET_WORDS)]
    if variables:
        return f"login: the variable {variables[0]}"
    files = [path for path in kind.list_login_files() if os.path.isfile(path) and os.path.getsize(path)]
    return f"login: the file {files[0]}" if files else None


def check_container_engines() -> list[DoctorCheck]:
    """Check whether docker and podman are installed and answer."""
    installed = [program for program in ("docker", "podman") if shutil.which(program)]
    if not installed:
        found = "neither docker nor podman is installed; only agents in containers need one"
        return [DoctorCheck(name="containers", status=INFO, found=found)]
    return [_check_container_engine(program) for program in installed]


def _check_container_engine(program: str) -> DoctorCheck:
    hint = "sudo systemctl start docker" if program == "docker" else f"{program} info"
    # podman has no daemon that must answer, and its other commands create files of the user.
    words = ("--version",) if program == "podman" else ("ps", "-q")
    try:
        result = DockerCli([program]).run(*words, timeout=_CALL_TIMEOUT)
    except MngrError as error:
        return DoctorCheck(name=program, status=WARNING, problem=error.message, hint=hint)
    if result.code:
        problem = f"{program} {words[0]} failed: {result.error_line}"
        return DoctorCheck(name=program, status=WARNING, problem=problem, hint=hint)
    if program == "podman":
        return DoctorCheck(name=program, found=result.text)
    return DoctorCheck(name=program, found=f"answers; running containers: {len(result.out.split())}")


def check_project(ctx: Context) -> list[DoctorCheck]:
    """Check the set-up, the trust and the ignored settings of the current project."""
    root = paths.find_project_root(ctx.cwd)
    if root is None:
        return [DoctorCheck(name="project", status=INFO, found=f"{ctx.cwd} is not in a git repository")]
    try:
        trust = inspect_trust(ctx)
    except MngrError as error:
        return [DoctorCheck(name="project", status=ERROR, problem=error.message, hint=error.hint or "mngr config path")]
    setup = trust.settings.get("project.setup")
    if setup:
        checks = [DoctorCheck(name="project", found=f"{root}; set-up: {setup}")]
    else:
        found = f"{root} has no set-up command, so agents get a plain copy; to detect one: mngr init"
        checks = [DoctorCheck(name="project", status=INFO, found=found)]
    if not trust.is_trusted:
        keys = ", ".join(change.key for change in trust.changes)
        problem = f"you do not trust these settings of the project yet: {keys}"
        checks.append(DoctorCheck(name="trust", status=WARNING, problem=problem, hint="mngr trust"))
    elif trust.settings:
        checks.append(DoctorCheck(name="trust", found="you trust the project's settings"))
    if trust.ignored:
        problem = (
            f"mngr ignores these settings of the project, because only you may set them: {', '.join(trust.ignored)}"
        )
        hint = f"mngr config set --user {trust.ignored[0]} VALUE"
        checks.append(DoctorCheck(name="ignored settings", status=WARNING, problem=problem, hint=hint))
    return checks
