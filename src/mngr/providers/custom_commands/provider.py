"""An engine with a command line. The settings contain the commands that create, reach and remove a host."""

from __future__ import annotations

import os
import time

from mngr.base import shell, time_format
from mngr.base.errors import EngineBusy, HostGone, HostStopped, MngrError, TimedOut, Unreachable, UsageError
from mngr.base.paths import SNAPSHOT_EXCLUDES
from mngr.base.untrusted_json import find_text, get_object, get_text
from mngr.host import host_store, remote_host, scripts
from mngr.providers.custom_commands.placeholders import (
    BUILTIN_PLACEHOLDERS,
    OutputPattern,
    ProviderTemplate,
    get_last_line_as_reason,
)
from mngr.providers.shared.engine_protocol import EngineDefaults, FoundMachine, Machine
from mngr.providers.shared.host_options import get_author
from mngr.providers.shared.on_demand import OnDemandProvider

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from mngr.base.paths import Home
    from mngr.base.shell import ProcessResult
    from mngr.host.remote_host import Transport
    from mngr.providers.shared.engine_protocol import Engine
    from mngr.providers.shared.on_demand import Note

PATTERN_KEYS = ("busy", "gone", "stopped", "away")
_DEFAULT_TIMES = {"timeout": "5m", "ready": "1m"}
_READY_PAUSES = (0.05, 1.0)  # the shortest and longest pause between two checks of a new host, in seconds
# Agents commit under the user's name, unless the image sets another one.
_AUTHOR_SCRIPT = """command -v git >/dev/null || exit 0
for key in name email; do
    if [ -n "$1" ] && ! git config "user.$key" >/dev/null; then git config --global "user.$key" "$1"; fi
    shift
done"""
# Ends all processes that have this environment variable.
_KILL_SCRIPT = """for one in /proc/[0-9]*; do
    if tr '\\0' '\\n' 2>/dev/null <"$one/environ" | grep -qxF -e "$1"; then kill -HUP "${one#/proc/}"; fi
done"""


class TemplateMachine(Machine):
    """A machine that the commands of a template created."""

    id: str | None = None  # the output of `create`
    values: dict[str, str] = {}  # the values of the placeholders that are options
    is_copy: bool = False  # the machine comes from a snapshot


class TemplateProvider(OnDemandProvider[TemplateMachine]):
    """Provides hosts of an engine that the settings describe; see docs/guide/engines.md."""

    project_options = ("image",)  # a project must not choose commands that run on this machine

    def make_engine(self, name: str, home: Home, options: dict[str, object], note: Note) -> Engine[TemplateMachine]:
        # For other providers this setting names a snapshot. Here it is the command that takes a snapshot.
        self._options = {key: value for key, value in options.items() if key != "snapshot"}
        return TemplateEngine(name, home, options)


class TemplateEngine(EngineDefaults[TemplateMachine]):
    """Runs the commands of a template."""

    settings = (*BUILTIN_PLACEHOLDERS, *PATTERN_KEYS, *_DEFAULT_TIMES, "home")

    def __init__(self, provider: str, home: Home, options: dict[str, object]) -> None:
        self._provider = provider
        self._key = host_store.compute_owner_key(home)
        self._template = ProviderTemplate(provider, options)
        self.options = self._template.option_names
        self.can_stop = "stop" in self._template.commands
        self.can_snapshot = "snapshot" in self._template.commands
        self._signs = {key: OutputPattern(provider, key, options.get(key)) for key in PATTERN_KEYS}
        self._times = {
            key: self._parse_seconds(key, options.get(key) or value) for key, value in _DEFAULT_TIMES.items()
        }
        self._home = find_text(options, "home")

    def _parse_seconds(self, key: str, value: object) -> float:
        try:
            return time_format.parse_duration(str(value))
        except ValueError:
            raise UsageError(
                f"[providers.{self._provider}] {key}: {value!r} is not a length of time", "write it as 30s, 10m or 1h"
            ) from None

    def read_machine(self, row: dict[str, object]) -> TemplateMachine:
        return TemplateMachine.read(row)

    def plan_machine(self, name: str, options: dict[str, object]) -> TemplateMachine:
        self._template.check()
        values = {key: str(options[key]) for key in self.options if options.get(key) not in (None, "")}
        snapshot = get_object(options, "snapshot")
        if snapshot:
            values["image"] = get_text(snapshot, "id")
        tag = f"mngr-{self._key}-{os.urandom(6).hex()}"
        machine = TemplateMachine(tag=tag, home=self._home, values=values, is_copy=bool(snapshot))
        self._template.fill_command("create", self._build_values(name, machine))
        return machine

    def create(self, name: str, machine: TemplateMachine) -> TemplateMachine:
        output = self._run_command("create", name, machine).text
        created = machine.replace(id=output.split("\n")[-1].strip() or name)
        self._wait_until_ready(name, created)
        if created.is_copy:  # The copied host may have had agents.
            home = shell.quote(self._home) if self._home else "~/.mngr"
            argv = ["sh", "-c", f"cd {home} 2>/dev/null || exit 0; rm -rf -- {' '.join(SNAPSHOT_EXCLUDES)}"]
            remote_host.run(self.open_transport(name, created), argv, name=name)
        remote_host.run(
            self.open_transport(name, created),
            ["sh", "-c", _AUTHOR_SCRIPT, "author", *get_author()],
            timeout=60.0,
            name=name,
        )
        return created

    def find_existing(self, name: str) -> TemplateMachine | None:
        for host_id, tag, host_name in self._list_hosts():
            prefix, _, rest = tag.partition("-")
            if host_name == name and prefix == "mngr" and rest:
                return TemplateMachine(tag=tag, id=host_id, whose=rest.partition("-")[0], home=self._home)
        return None

    def open_transport(self, name: str, machine: TemplateMachine) -> Transport:
        return TemplateTransport(self, self._template, self._provider, name, self._build_values(name, machine))

    def start_or_reuse_machine(self, name: str, machine: TemplateMachine) -> TemplateMachine:
        self._run_command("start", name, machine)
        self._wait_until_ready(name, machine)
        return machine

    def stop(self, name: str, machine: TemplateMachine) -> TemplateMachine:
        self._run_command("stop", name, machine, ignore=("stopped",))
        return machine

    def remove(self, name: str, machine: TemplateMachine) -> None:
        if "list" not in self._template.commands:
            self._run_command("destroy", name, machine, ignore=("gone",))
            return
        for host_id, tag, _ in self._list_hosts():
            if tag == machine.tag:
                self._run_command("destroy", name, machine.replace(id=host_id), ignore=("gone",))

    def list_machines(self) -> builtins.list[FoundMachine]:
        return [
            FoundMachine(
                resource_kind="host",
                name=host_id,
                tag=tag,
                removal_command=self._build_removal_command(host_id, tag),
            )
            for host_id, tag, _ in self._list_hosts()
            if tag.startswith(f"mngr-{self._key}-")
        ]

    def save_snapshot(self, name: str, machine: TemplateMachine, directory: str) -> dict[str, object]:
        tag = self._build_snapshot_name(directory)
        output = self._run_command("snapshot", name, machine, snapshot=tag).text
        return {"id": output.split("\n")[-1].strip() or tag}

    def find_partial_snapshot(self, directory: str) -> dict[str, object]:
        """Return the name of the snapshot."""
        return {"id": self._build_snapshot_name(directory)}

    def _build_snapshot_name(self, directory: str) -> str:
        return f"mngr-{self._key}-{os.path.basename(directory).partition('.')[0]}"

    def delete_snapshot(self, facts: dict[str, object]) -> None:
        self._run_command("drop_snapshot", "", None, ignore=("gone",), snapshot=get_text(facts, "id"))

    def _build_values(self, name: str, machine: TemplateMachine | None) -> dict[str, str]:
        """Return the values of the placeholders for a host."""
        values = {"name": name, "key": self._key}
        if machine is None:
            return values
        values.update(machine.values)
        values["tag"] = machine.tag
        if machine.id is not None:
            values["id"] = machine.id
        return values

    def _list_hosts(self) -> builtins.list[tuple[str, str, str]]:
        """Return id, tag and name of each host; the name is the id if `list` prints none. Other lines are ignored."""
        output = self._run_command("list", "", None).text if "list" in self._template.commands else ""
        rows = (line.split() for line in output.split("\n"))
        return [(row[0], row[1], (row[2:] or row)[0]) for row in rows if len(row) > 1]

    def _build_removal_command(self, host_id: str, tag: str) -> str:
        values = {"id": host_id, "name": host_id, "tag": tag, "key": self._key}
        return shell.join(self._template.fill_command("destroy", values))

    def _run_command(
        self, key: str, name: str, machine: TemplateMachine | None, ignore: tuple[str, ...] = (), **more: str
    ) -> ProcessResult:
        """Run a command of the template. Raise the error that matches its output or exit code.

        A failure that matches a pattern in `ignore` counts as success.
        """
        argv = self._template.fill_command(key, {**self._build_values(name, machine), **more})
        try:
            result = shell.run(argv, timeout=self._times["timeout"])
        except TimedOut:
            limit = self._times["timeout"]
            raise Unreachable(
                f"{argv[0]} did not finish within {limit:g}s", f"run it by hand: {shell.join(argv)}"
            ) from None
        stderr = result.err.decode("utf-8", "replace")
        if result.code == 0 or any(self._signs[pattern].is_match(stderr, result.code) for pattern in ignore):
            return result
        output, patterns = stderr or result.text, self._signs
        if patterns["busy"].is_match(stderr, result.code):
            raise EngineBusy(
                f"{self._provider} has no capacity now: {patterns['busy'].get_line(output)}",
                "run the command again later",
            )
        if patterns["away"].is_match(stderr, result.code):
            why = patterns["away"].get_line(output)
            raise Unreachable(
                f"{self._provider} does not answer: {why}", f"run the command by hand: {shell.join(argv)}"
            )
        if name and patterns["gone"].is_match(stderr, result.code):
            raise HostGone(self._provider, name, patterns["gone"].get_line(output))
        action = f"{key} {name}".strip()
        raise MngrError(
            f"{self._provider} could not {action}: {get_last_line_as_reason(output)}",
            f"run the command by hand: {shell.join(argv)}",
        )

    def _wait_until_ready(self, name: str, machine: TemplateMachine) -> None:
        """Wait until the host answers. Raise MngrError when it takes too long."""
        deadline, pause = time.monotonic() + self._times["ready"], _READY_PAUSES[0]
        while True:
            try:
                remote_host.run(self.open_transport(name, machine), ["true"], timeout=self._times["ready"], name=name)
                return
            except Unreachable as error:
                if self._signs["away"].is_match(error.message):
                    raise  # The engine itself does not answer, so waiting is useless.
                if time.monotonic() > deadline or isinstance(error, HostGone):
                    raise MngrError(
                        f"mngr created the host {name}, but it does not answer: {error.message}",
                        "check `exec` in the template; if the host starts slowly, set `ready`",
                    ) from None
            time.sleep(pause)
            pause = min(pause * 1.5, _READY_PAUSES[1])

    def explain_loss(self, name: str, tag: str, stderr: str) -> Unreachable:
        """Return the error for a command that did not run to its end, given its standard error."""
        if self._signs["gone"].is_match(stderr) and not self._can_exist(tag):
            return HostGone(self._provider, name, self._signs["gone"].get_line(stderr))
        if self._signs["stopped"].is_match(stderr):
            return HostStopped(self._provider, name)
        return Unreachable(
            f"{name}: {get_last_line_as_reason(stderr) if stderr else 'the connection ended'}",
            "mngr does not know whether the command ran; see the agents: mngr list",
        )

    def _can_exist(self, tag: str) -> bool:
        """True when the engine lists the host or does not answer. A host itself could print that it is gone."""
        try:
            return any(tag == listed_tag for _, listed_tag, _ in self._list_hosts())
        except MngrError:
            return True


class TemplateTransport:
    """The transport to one host. A command runs by `exec` as an sh program, which is one word."""

    def __init__(
        self,
        engine: TemplateEngine,
        template: ProviderTemplate,
        provider: str,
        host: str,
        values: dict[str, str],
    ) -> None:
        self._engine, self._template = engine, template
        self._provider, self._host, self._values = provider, host, values

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        if only is not None:
            program = f"exec env -i {shell.join(only)} sh -c {shell.quote(program)}"
        return self._build_attach(program) if terminal else self._build_exec("exec", program)

    def _build_exec(self, key: str, program: str) -> list[str]:
        text = scripts.escape_non_ascii(program)
        return self._template.fill_command(key, {**self._values, "program": text, "quoted": shell.quote(text)})

    def _build_attach(self, program: str) -> list[str]:
        """Return a command with a terminal that also ends its processes when the terminal closes.

        Engines may let these processes run on, so they are found by a variable that only they have.
        """
        if "exec_terminal" not in self._template.commands:
            raise UsageError(
                f"{self._provider} hosts have no terminals, because the template does not set exec_terminal",
                f"set exec_terminal in [providers.{self._provider}]",
            )
        mark = f"MNGR_TERMINAL={os.urandom(8).hex()}"
        marked_program = f"export {mark} TERM={shell.quote(os.environ.get('TERM', 'xterm'))}; {program}"
        kill_argv = self._build_exec("exec", f"set -- {mark}; {_KILL_SCRIPT}")
        script = f"trap : HUP TERM; {shell.join(self._build_exec('exec_terminal', marked_program))}; code=$?"
        script += f"; [ $code -eq 0 ] || {shell.join(kill_argv)} >/dev/null 2>&1 </dev/null; exit $code"
        return ["sh", "-c", script]

    def make_lost_error(self, stderr: str) -> Unreachable:
        return self._engine.explain_loss(self._host, self._values["tag"], stderr)

    def close(self) -> None:
        pass
