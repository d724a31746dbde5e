"""Runs the `docker` or `podman` program and interprets its error messages."""

from __future__ import annotations

import os

from mngr.base import shell
from mngr.base.errors import HostStopped, MngrError, TimedOut, Unreachable
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mngr.base.shell import ProcessResult

CALL_TIMEOUT = 30.0  # seconds; for calls that the engine answers at once
_UNREACHABLE_MESSAGES = (
    "cannot connect to ",
    "error during connect",
    "unable to connect to ",
    "unable to resolve docker endpoint",
    "failed to resolve active destination",
)
_STOPPED_MESSAGES = ("is not running", "is paused", "container state improper")
_GONE_MESSAGES = ("no such container", "no container with name or id")
_NO_IMAGE_MESSAGES = ("no such image", "image not known")


# Ends all processes that have this environment variable.
_KILL_SCRIPT = """
for one in /proc/[0-9]*; do
    if tr '\\0' '\\n' 2>/dev/null <"$one/environ" | grep -qxF -e "$1"; then kill -HUP "${one#/proc/}"; fi
done
"""


class DockerCli:
    """One engine, used through its command-line program. Every call has a time limit."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)

    def run(self, *words: str, stdin: bytes = b"", timeout: float = CALL_TIMEOUT) -> ProcessResult:
        """Run the program and return its result. Raise Unreachable if the engine does not answer."""
        try:
            result = shell.run([*self.words, *words], stdin=stdin, timeout=timeout)
        except TimedOut:
            raise Unreachable(
                f"{self.words[0]} did not answer within {timeout:g}s",
                f"see whether it runs: {shell.join(self.words)} info",
            ) from None
        if result.code and (unreachable := self.find_unreachable_error(result.err.decode("utf-8", "replace"))):
            raise unreachable
        return result

    def run_checked(self, problem: str, *words: str, stdin: bytes = b"", timeout: float = CALL_TIMEOUT) -> str:
        """Run the program and return its output. Raise MngrError with `problem` and the reason if it fails."""
        result = self.run(*words, stdin=stdin, timeout=timeout)
        if result.code:
            raise self.build_error(problem, result.err)
        return result.text

    def build_error(self, problem: str, stderr: bytes) -> MngrError:
        """Return an error with the engine's message and a hint that names the engine's own program."""
        reason = parse_error(stderr)
        return MngrError(f"{problem}: {reason}", _suggest_hint(reason, shell.join(self.words)))

    def find_unreachable_error(self, stderr: str) -> Unreachable | None:
        """Return the error if standard error says that the engine does not answer, otherwise None."""
        lower = stderr.lower()
        if "response from daemon" in lower:
            return None
        if "permission denied while trying to connect" in lower:
            return Unreachable(
                f"you have no permission to use {self.words[0]}",
                "join the group docker: sudo usermod -aG docker $USER; then log in again",
            )
        line = next(
            (line for line in stderr.splitlines() if any(word in line.lower() for word in _UNREACHABLE_MESSAGES)),
            None,
        )
        if line is None:
            return None
        why = line.rpartition("stderr=")[2] if "stderr=" in line else line
        hint = f"start it, then check it: {shell.join(self.words)} info"
        return Unreachable(why.strip(), hint)


class DockerTransport:
    """The transport to one container. A command runs by `exec` as the container's user."""

    def __init__(self, engine: DockerCli, provider: str, host: str, container: str, user: str, home: str) -> None:
        self._engine = engine
        self._provider = provider
        self._host = host
        self._container = container
        variables = ("-e", f"HOME={home}", "-e", f"USER={'root' if user == '0:0' else 'agent'}")
        self._as = ["-u", user, *variables]

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        env_command = [] if only is None else ["env", "-i", *only]
        words = [*env_command, "sh", "-c", scripts.escape_non_ascii(program)]
        return self._build_attach(words) if terminal else self._build_exec(["-i"], words)

    def _build_exec(self, exec_options: list[str], words: list[str]) -> list[str]:
        return [*self._engine.words, "exec", *exec_options, *self._as, self._container, *words]

    def _build_attach(self, words: list[str]) -> list[str]:
        """Return a command with a terminal that also ends its processes when the terminal closes.

        Engines let these processes run on, so they are found by a variable that only they have.
        """
        mark = f"MNGR_TERMINAL={os.urandom(8).hex()}"
        # Docker always reserves keys for detaching, so choose a sequence that nobody types.
        exec_options = ["-i", "-t", "--detach-keys", "ctrl-\\,ctrl-@,ctrl-\\,ctrl-@", "-e", mark]
        exec_options += ["-e", f"TERM={os.environ.get('TERM', 'xterm')}"]
        kill_argv = self._build_exec([], ["sh", "-c", _KILL_SCRIPT, "end", mark])
        script = f"trap : HUP TERM; {shell.join(self._build_exec(exec_options, words))}; code=$?"
        return [
            "sh",
            "-c",
            f"{script}; [ $code -eq 0 ] || {shell.join(kill_argv)} >/dev/null 2>&1 </dev/null; exit $code",
        ]

    def make_lost_error(self, stderr: str) -> Unreachable:
        lower = stderr.lower()
        if any(word in lower for word in _GONE_MESSAGES):
            return Unreachable(
                f"the container {self._host} is gone",
                f"create it again from its volume: mngr start @{self._host}.{self._provider}",
            )
        if any(word in lower for word in _STOPPED_MESSAGES):
            return HostStopped(self._provider, self._host)
        if unreachable := self._engine.find_unreachable_error(stderr):
            return unreachable
        why = parse_error(stderr.encode()) if stderr else "the connection ended"
        return Unreachable(
            f"{self._host}: {why}", "mngr does not know whether the command ran; see the agents: mngr list"
        )

    def close(self) -> None:
        pass


def choose_cli(options: Mapping[str, object]) -> DockerCli:
    """Return the engine that the provider's settings name."""
    program = str(options.get("program") or "docker")
    words = [program]
    is_podman = program.rpartition("/")[2].startswith("podman")
    if options.get("context"):
        words += ["--connection" if is_podman else "--context", str(options["context"])]
    if options.get("host"):
        words += ["--url" if is_podman else "--host", str(options["host"])]
    return DockerCli(words)


def is_container_gone(result: ProcessResult) -> bool:
    """True when the call failed because there is no such container."""
    return _has_message(result, _GONE_MESSAGES)


def is_container_stopped(result: ProcessResult) -> bool:
    """True when the call failed because the container does not run."""
    return _has_message(result, _STOPPED_MESSAGES)


def is_image_missing(result: ProcessResult) -> bool:
    """True when the call failed because the engine does not have the image."""
    return _has_message(result, _NO_IMAGE_MESSAGES)


def _has_message(result: ProcessResult, messages: tuple[str, ...]) -> bool:
    stderr = result.err.decode("utf-8", "replace").lower()
    return result.code != 0 and any(message in stderr for message in messages)


def parse_error(err: bytes) -> str:
    """Return the engine's error message without its prefix."""
    lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("Run '", "See '", "WARNING:", "time="))]
    message = lines[-1] if lines else "it gave no reason"
    for prefix in ("docker: ", "Error response from daemon: ", "Error: "):
        message = message.removeprefix(prefix)
    return message


def _suggest_hint(message: str, engine: str) -> str:
    """Return the hint for an error message. `engine` is the command with which the user reaches the same engine."""
    if "docker-init" in message or "catatonit" in message:
        return "install the engine's init program: apt-get install tini (docker) or catatonit (podman)"
    if "network" in message.lower():
        return f"list the networks: {engine} network ls; then choose one: mngr config set providers.docker.network NAME"
    if "no space left" in message.lower():
        return f"free some disk space; see what uses it: {engine} system df"
    return "check the settings of the provider: mngr config list"
