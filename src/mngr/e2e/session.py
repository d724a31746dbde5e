"""One test's stay at a terminal: a place of its own, commands, terminals, and a transcript of it all."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from mngr.e2e import process, session_dirs
from mngr.e2e.redact import Redactor, collect_secrets
from mngr.e2e.result import CommandOutput, CommandTimeout, E2eResult, OutputOrigin
from mngr.e2e.transcript import Transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.e2e.tty import Tty

COMMAND_TIMEOUT = 60.0  # seconds for a command that says nothing else
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


class E2eSession:
    """What the fixture `e2e` gives. Nothing of the user's is seen inside: not his HOME, not his variables."""

    def __init__(self, artifacts: Path, about: dict[str, Any] | None = None) -> None:
        self.artifacts = artifacts
        artifacts.mkdir(parents=True, exist_ok=True)
        self.root = session_dirs.make_session_dir()
        self.home = self.root / "home dir"  # a space, for there are such homes
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
        self._about = about or {}
        self.env = self._make_env()
        self._secrets: dict[str, str] = {}
        self._redact = Redactor(os.environ, self.env)
        self.transcript = Transcript(artifacts / "transcript.txt", self._redact)
        self.save_status("running")

    def _make_env(self) -> dict[str, str]:
        for place in (self.home, self.cwd, self.root / "tmp", self.root / "run"):
            place.mkdir(mode=0o700)
        (self.home / ".gitconfig").write_text(_GITCONFIG)
        own = Path(sys.executable).parent  # where the project's programs are installed
        path = os.environ.get("PATH", os.defpath)
        return {
            **_FIXED_VARIABLES,
            "PATH": path if str(own) in path.split(":") else f"{own}:{path}",
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
            "MNGR_E2E_ROOT": str(self.root),  # by which everything that a test started is known
        }

    @property
    def doc(self) -> str:
        """What the test says it is about."""
        return str(self._about.get("doc") or "")

    # What a test says.

    def write_tutorial_block(self, text: str) -> None:
        """The block of the tutorial that this test is about, word for word."""
        self._blocks.append(_dedent_text(text))
        self.save_status("running")

    def comment(self, text: str) -> None:
        """A line for whoever reads the transcript."""
        self.transcript.write_line("# ", text)

    def allow_env(self, *names: str) -> None:
        """Let variables of the user's in."""
        for name in names:
            if name in os.environ:
                self.env[name] = os.environ[name]
        self._allowed["env"] += names
        self.save_status("running")

    def allow_path(self, *paths: str) -> None:
        """Let files of the user's HOME in, under the same name: `~/.cache/uv`."""
        for text in paths:
            real = Path(text).expanduser()
            inside = self.home / real.relative_to(Path.home())
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.symlink_to(real)
        self._allowed["paths"] += paths
        self.save_status("running")

    def cd(self, path: str | Path) -> None:
        """Go to a directory: later commands run there, and [CWD] stands for it."""
        self.transcript.write_line("$ ", f"cd {path}")
        place = self._resolve_cwd(path).resolve()
        assert place.is_dir(), f"cd: there is no directory {place}"
        self.transcript.write_line("? ", "0")
        self.cwd = place
        self.patterns["CWD"] = _escape_path(place)

    def add_redaction(self, name: str, pattern: str) -> None:
        """From now on [NAME] in an expected line stands for this regular expression."""
        self.patterns[name] = pattern

    # What a test does.

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
        """Run a command line and wait for it; CommandTimeout when it takes too long. `<name>`s are filled in."""
        __tracebackhide__ = True
        command = _dedent_text(self.fill_captures(command))
        variables = self._build_variables(env)
        if comment is not None:
            self.comment(comment)
        self.transcript.write_line("$ ", command)
        output = self.transcript.open_output()
        limit = self.timeout if timeout is None else timeout
        try:
            ended = process.run_process(
                [self.shell, "-c", command],
                cwd=str(self._resolve_cwd(cwd)),
                env=variables,
                stdin=stdin.encode() if isinstance(stdin, str) else stdin,
                timeout=limit,
                hear=output.add_output,
                pause=output.flush_partial_line,
            )
        finally:
            output.finish()
        scene = self._build_origin(command)
        texts = {name: CommandOutput(kept.get_text(), scene) for name, kept in ended.streams.items()}
        if ended.timed_out:
            self.transcript.write_line("? ", f"timed out after {limit:g}s; it was killed")
            message = (
                f"$ {command}\ndid not end within {limit:g}s. The transcript ends with:\n{self.transcript.read_tail()}"
            )
            raise CommandTimeout(self._redact(message))
        self.transcript.write_line("? ", str(ended.code))
        return E2eResult(
            command=command,
            exit_code=ended.code,
            stdout=texts["out"],
            stderr=texts["err"],
            output=texts["both"],
            seconds=ended.seconds,
            origin=scene,
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
        """Start an interactive program in a terminal of its own; what it shows is recorded as NAME.cast."""
        from mngr.e2e.tty import Tty

        command = _dedent_text(self.fill_captures(command))
        variables = self._build_variables({"TERM": "xterm-256color", **(env or {})})
        if comment is not None:
            self.comment(comment)
        self.transcript.write_line("$ ", command)
        terminal = Tty(
            [self.shell, "-c", command],
            cwd=self._resolve_cwd(cwd),
            env=variables,
            size=(rows, columns),
            cast=self.choose_cast_path(name or "terminal"),
            scene=self._build_origin(command),
            say=self.transcript.write_line,
            timeout=self.timeout,
        )
        self._terminals.append(terminal)
        return terminal

    spawn = tty

    def record(self, name: str) -> None:
        """What is connected to from now on with `mngr-e2e-connect` is recorded as NAME.cast."""
        self.env["MNGR_E2E_CAST"] = str(self.choose_cast_path(name))

    def choose_cast_path(self, name: str) -> Path:
        """A file for a recording that is not there yet."""
        from mngr.e2e.cast import choose_unused_path

        path = choose_unused_path(self.artifacts, name)
        path.touch()
        return path

    def fill_captures(self, text: str) -> str:
        """The text with what was captured in the place of each `<name>`."""
        for name, value in self.names.items():
            text = text.replace(f"<{name}>", value)
        return text

    # What becomes of it.

    def save_status(self, status: str, **more: Any) -> None:
        """Write down how things stand, in one step."""
        self._about.update(more)
        about = {
            "v": 1,
            **self._about,
            "status": status,
            "started_at": _format_time(self._began),
            "seconds": round(time.time() - self._began, 3),
            "blocks": self._blocks,
            "recordings": sorted(path.name for path in self.artifacts.glob("*.cast")),
            "allowed": self._allowed,
        }
        fresh = self.artifacts / "meta.json.new"
        fresh.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(fresh, self.artifacts / "meta.json")

    def close(self) -> None:
        """End everything that the test started, and take its place away."""
        from mngr.e2e.cast import redact_file

        for terminal in self._terminals:
            terminal.close()
        own = {terminal.name for terminal in self._terminals}
        self.env.pop("MNGR_E2E_CAST", None)
        session_dirs.remove_session_dir(self.root)
        for path in self.artifacts.glob("*.cast"):
            if not path.stat().st_size:  # nobody connected
                path.unlink()
            elif path.stem not in own:  # asciinema does not know what is secret
                redact_file(path, self._redact)
        self.transcript.close()

    def _resolve_cwd(self, cwd: str | Path | None) -> Path:
        return self.cwd if cwd is None else self.cwd / self.fill_captures(str(cwd))

    def _build_variables(self, more: Mapping[str, str] | None) -> dict[str, str]:
        """All that a command sees; from now on the secrets among them are known."""
        variables = {**self.env, **(more or {})}
        if (found := collect_secrets(variables)).keys() - self._secrets:
            self._secrets |= found
            self._redact = Redactor(os.environ, *({name: value} for value, name in self._secrets.items()))
            self.transcript.redact = self._redact
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
    """A text as it stands in a test, without the indentation and the line ends that it has only there."""
    import textwrap

    return textwrap.dedent(text).strip("\n") if "\n" in text else text


def _escape_path(path: Path) -> str:
    import re

    return re.escape(str(path))


def _format_time(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
