"""The session of one test: an isolated directory, commands, terminals, and a transcript of everything."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mngr.e2e import run_command, session_dirs
from mngr.e2e.redact_secrets import Redactor, collect_secrets
from mngr.e2e.result import CommandOutput, CommandTimeout, E2eResult, OutputOrigin
from mngr.e2e.step_recorder import StepRecorder
from mngr.e2e.transcript import Transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.e2e.tty import Tty

COMMAND_TIMEOUT = 60.0  # seconds, unless the call passes another timeout
COLUMNS, LINES = 80, 24
_GITCONFIG = "[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
_FIXED_VARIABLES = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "COLUMNS": str(COLUMNS),
    "LINES": str(LINES),
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class TestDescription:
    """The test that a session belongs to, as `meta.json` names it."""

    __test__ = False  # pytest must not collect it

    test: str = ""
    file: str = ""
    line: int | None = None
    doc: str = ""
    observed: bool = False  # nobody has reviewed the test's expectations yet


class E2eSession:
    """The value of the fixture `e2e`. Commands see neither the user's HOME nor the user's variables."""

    def __init__(self, artifacts: Path, description: TestDescription | None = None) -> None:
        self.artifacts = artifacts
        artifacts.mkdir(parents=True, exist_ok=True)
        self.root = session_dirs.make_session_dir()
        self.home = self.root / "home dir"  # with a space, because some users have one in their home
        self.cwd = self.root / "place"
        self.shell = "sh"
        self.timeout = COMMAND_TIMEOUT
        self.names: dict[str, str] = {}
        self.patterns = {
            "HOME": _escape_path(self.home),
            "CWD": _escape_path(self.cwd),
            "ROOT": _escape_path(self.root),
        }
        self._allowed: dict[str, list[str]] = {"env": [], "paths": []}
        self._blocks: list[str] = []
        self._terminals: list[Tty] = []
        self._began = time.time()
        self._description = description
        self._failure: str | None = None
        self.env = self._make_env()
        self._secrets: dict[str, str] = {}
        self._redact = Redactor(os.environ, self.env)
        self.transcript = Transcript(artifacts / "transcript.txt", self._redact)
        self._steps = StepRecorder(artifacts / "steps.jsonl", self.cwd, self._redact)
        self.save_status("running")

    def _make_env(self) -> dict[str, str]:
        for directory in (self.home, self.cwd, self.root / "tmp", self.root / "run"):
            directory.mkdir(mode=0o700)
        (self.home / ".gitconfig").write_text(_GITCONFIG)
        bin_dir = Path(sys.executable).parent  # the directory of the project's programs
        path = os.environ.get("PATH", os.defpath)
        return {
            **_FIXED_VARIABLES,
            "PATH": path if str(bin_dir) in path.split(":") else f"{bin_dir}:{path}",
            "HOME": str(self.home),
            "USER": "test",
            "LOGNAME": "test",
            "SHELL": "/bin/sh",
            "TMPDIR": str(self.root / "tmp"),
            "TMUX_TMPDIR": str(self.root / "run"),
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            "GIT_CONFIG_GLOBAL": str(self.home / ".gitconfig"),
            "MNGR_E2E_ARTIFACTS": str(self.artifacts),
            "MNGR_E2E_ROOT": str(self.root),  # marks every process that the test started
        }

    @property
    def doc(self) -> str:
        """The docstring of the test."""
        return self._description.doc if self._description else ""

    # Comments and settings.

    def write_tutorial_block(self, text: str) -> None:
        """Record the text of the tutorial block that this test covers."""
        self._blocks.append(_dedent_text(text))
        self.save_status("running")

    def comment(self, text: str) -> None:
        """Write a comment line into the transcript."""
        self.transcript.write_line("# ", text)

    def allow_env(self, *names: str) -> None:
        """Pass variables of the user on to the commands of this test."""
        for name in names:
            if name in os.environ:
                self.env[name] = os.environ[name]
        self._allowed["env"] += names
        self.save_status("running")

    def allow_path(self, *paths: str) -> None:
        """Link files from the user's HOME into the test's HOME, under the same name: `~/.cache/uv`."""
        for text in paths:
            real = Path(text).expanduser()
            link = self.home / real.relative_to(Path.home())
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(real)
        self._allowed["paths"] += paths
        self.save_status("running")

    def cd(self, path: str | Path) -> None:
        """Change the directory of later commands, and the meaning of [CWD]."""
        self.transcript.write_line("$ ", f"cd {path}")
        directory = self._resolve_cwd(path).resolve()
        assert directory.is_dir(), f"cd: there is no directory {directory}"
        self.transcript.write_line("? ", "0")
        self.cwd = directory
        self.patterns["CWD"] = _escape_path(directory)

    def add_redaction(self, name: str, pattern: str) -> None:
        """Let [NAME] in expected lines match this regular expression from now on."""
        self.patterns[name] = pattern

    # Commands and terminals.

    def run(
        self,
        command: str,
        *,
        comment: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> E2eResult:
        """Run a command line to its end, with `<name>`s filled in. Raise CommandTimeout when it takes too long."""
        __tracebackhide__ = True
        command = _dedent_text(self.fill_captures(command))
        variables = self._build_variables(env)
        if comment is not None:
            self.comment(comment)
        started_at = self._steps.begin_command()
        line = self.transcript.write_line("$ ", command)
        output = self.transcript.open_output()
        time_limit = self.timeout if timeout is None else timeout
        try:
            ended = run_command.run_process(
                run_command.Program([self.shell, "-c", command], self._resolve_cwd(cwd), variables),
                stdin=stdin.encode() if isinstance(stdin, str) else stdin,
                timeout=time_limit,
                on_output=output.add_output,
                on_pause=output.flush_partial_line,
            )
        finally:
            output.finish()
            self._steps.end_command(line, started_at)
        origin = self._build_origin(command)
        texts = {name: CommandOutput(stream.get_text(), origin) for name, stream in ended.streams.items()}
        if ended.timed_out:
            self.transcript.write_line("? ", f"timed out after {time_limit:g}s and was killed")
            message = f"$ {command}\nThe command did not finish within {time_limit:g}s. The transcript ends with:\n{self.transcript.read_tail()}"
            raise CommandTimeout(self._redact(message))
        self.transcript.write_line("? ", str(ended.code))
        return E2eResult(
            command=command,
            exit_code=ended.code,
            stdout=texts["out"],
            stderr=texts["err"],
            output=texts["both"],
            seconds=ended.seconds,
            origin=origin,
        )

    def tty(
        self,
        command: str,
        *,
        name: str | None = None,
        comment: str | None = None,
        rows: int = LINES,
        columns: int = COLUMNS,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> Tty:
        """Start an interactive program in its own terminal and record it as NAME.cast."""
        from mngr.e2e.tty import Tty

        command = _dedent_text(self.fill_captures(command))
        variables = self._build_variables({"TERM": "xterm-256color", **(env or {})})
        if comment is not None:
            self.comment(comment)
        line = self.transcript.write_line("$ ", command)
        cast = self.choose_cast_path(name or "terminal")
        terminal = Tty(
            run_command.Program([self.shell, "-c", command], self._resolve_cwd(cwd), variables),
            size=(rows, columns),
            cast=cast,
            origin=self._build_origin(command),
            write_line=self._write_terminal_line,
            timeout=self.timeout,
        )
        self._terminals.append(terminal)
        self._steps.add_terminal(line, terminal.name, terminal.began)
        return terminal

    spawn = tty

    def _write_terminal_line(self, mark: str, text: str) -> None:
        """Write a line about a terminal. Keys that the test pressed are a step."""
        line = self.transcript.write_line(mark, text)
        if mark == "# ":
            self._steps.add_step(line)

    def record(self, name: str) -> None:
        """Record the next `mngr-e2e-connect` as NAME.cast."""
        self.env["MNGR_E2E_CAST"] = str(self.choose_cast_path(name))

    def choose_cast_path(self, name: str) -> Path:
        """Create an empty file for a new recording and return its path."""
        from mngr.e2e.asciicast import choose_unused_path

        path = choose_unused_path(self.artifacts, name)
        path.touch()
        return path

    def fill_captures(self, text: str) -> str:
        """Return the text with each `<name>` replaced by its captured value."""
        for name, value in self.names.items():
            text = text.replace(f"<{name}>", value)
        return text

    # Status and cleanup.

    def save_status(self, status: str, *, failure: str | None = None) -> None:
        """Write `meta.json` atomically, with the status and everything known about the test."""
        self._failure = failure or self._failure
        meta = {
            "v": 1,
            **self._describe_test(),
            "status": status,
            "started_at": _format_time(self._began),
            "seconds": round(time.time() - self._began, 3),
            "blocks": self._blocks,
            "recordings": sorted(path.name for path in self.artifacts.glob("*.cast")),
            "allowed": self._allowed,
        }
        new_path = self.artifacts / "meta.json.new"
        new_path.write_text(json.dumps(meta, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(new_path, self.artifacts / "meta.json")

    def _describe_test(self) -> dict[str, object]:
        """Return the fields of `meta.json` about the test. A session outside pytest has none."""
        if self._description is None:
            return {}
        return {**asdict(self._description), "failure": self._failure}

    def close(self) -> None:
        """End everything that the test started and remove its directory."""
        from mngr.e2e.asciicast import redact_file

        for terminal in self._terminals:
            terminal.close()
        own_casts = {terminal.name for terminal in self._terminals}
        self.env.pop("MNGR_E2E_CAST", None)
        session_dirs.remove_session_dir(self.root)
        for path in self.artifacts.glob("*.cast"):
            if not path.stat().st_size:  # No command connected to the agent.
                path.unlink()
            elif path.stem not in own_casts:  # asciinema does not redact secrets
                redact_file(path, self._redact)
        self._steps.close()
        self.transcript.close()

    def _resolve_cwd(self, cwd: str | Path | None) -> Path:
        return self.cwd if cwd is None else self.cwd / self.fill_captures(str(cwd))

    def _build_variables(self, more: Mapping[str, str] | None) -> dict[str, str]:
        """Return all variables of a command, and redact the secrets among them from now on."""
        variables = {**self.env, **(more or {})}
        if (secrets := collect_secrets(variables)).keys() - self._secrets:
            self._secrets |= secrets
            self._redact = Redactor(os.environ, *({name: value} for value, name in self._secrets.items()))
            self.transcript.redact = self._redact
            self._steps.redact = self._redact
        return variables

    def _build_origin(self, command: str) -> OutputOrigin:
        return OutputOrigin(
            command=command,
            read_transcript_tail=self.transcript.read_tail,
            redact=self._redact,
            captures=self.names,
            redactions=self.patterns,
        )


def _dedent_text(text: str) -> str:
    """Remove the indentation and the outer newlines that a text has only in the test's source."""
    import textwrap

    return textwrap.dedent(text).strip("\n") if "\n" in text else text


def _escape_path(path: Path) -> str:
    import re

    return re.escape(str(path))


def _format_time(timestamp: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(timestamp))
