"""The Python API: `from mngr import Fleet` offers everything that the commands can do, with types."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.base.errors import MngrError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator

    from mngr.agents.archive.snapshot import Snapshot
    from mngr.agents.create.create import CreatedAgent
    from mngr.agents.create.spec import AgentSpec
    from mngr.agents.edit_settings import SettingValue
    from mngr.agents.inspect.capture import ScreenCapture
    from mngr.agents.inspect.events import AgentEvent
    from mngr.agents.inspect.explain import Explanation
    from mngr.agents.inspect.list import HostView, Listing
    from mngr.agents.inspect.trash import TrashedAgent
    from mngr.agents.inspect.usage import MissingHost, UsageRow
    from mngr.agents.inspect.watch import AgentWatcher
    from mngr.agents.interact.ssh_config import SshEntry
    from mngr.agents.lifecycle.limit import LimitChanges
    from mngr.agents.sync.pull import PullResult, PullTarget
    from mngr.agents.sync.push import PushResult
    from mngr.base.model import AgentView, Outcome
    from mngr.kinds.transcript_entry import TranscriptEntry
    from mngr.setup.doctor_check import DoctorCheck
    from mngr.setup.init.init import DetectedProject
    from mngr.setup.installed_plugins import PluginView


class Fleet:
    """The agents of one home. It imports each operation when it is first used."""

    def __init__(self, home: str | None = None, *, cwd: str | None = None, context: Context | None = None) -> None:
        self.context = context or Context(home, cwd=cwd)

    def create(self, spec: AgentSpec) -> AgentView:
        """Create one agent, start it and send it the first message. Raise MngrError if any of this fails."""
        if spec.count != 1:
            raise UsageError(
                f"Fleet.create creates one agent, but count is {spec.count}", "call Fleet.create_many(spec)"
            )
        (result,) = self.create_many(spec)
        if isinstance(result, Exception):
            raise result
        message = result.message
        if message is not None and not message.ok:
            raise MngrError(message.error or "the agent did not receive its first message", message.hint)
        return result.agent

    def create_many(self, spec: AgentSpec) -> builtins.list[CreatedAgent | Exception]:
        """Create `count` agents. Return an agent, with the outcome of its first message, or an error for each."""
        from mngr.agents.create.create import create_agents

        return create_agents(self.context, spec)

    def list(self) -> Listing:
        """Return all agents, and the hosts that did not answer."""
        from mngr.agents.inspect.list import list_agents

        return list_agents(self.context)

    def list_hosts(self) -> builtins.list[HostView]:
        """Return all hosts with their state and number of agents."""
        from mngr.agents.inspect.list import list_hosts

        return list_hosts(self.context)

    def add_git_state(self, agents: builtins.list[AgentView]) -> builtins.list[AgentView]:
        """Return the agents with `unpulled` and `dirty` filled in."""
        from mngr.agents.workdir.git_state import add_git_state

        return add_git_state(self.context, agents)

    def get(self, name: str) -> AgentView:
        """Return one agent, or raise NotFound."""
        from mngr.agents.inspect.find import observe_agent
        from mngr.agents.inspect.list import make_view

        return make_view(observe_agent(self.context, name))

    def build_attach_argv(self, name: str) -> builtins.list[str]:
        """Return the command that shows the agent in a terminal."""
        from mngr.agents.interact.attach_command import build_attach_argv

        return build_attach_argv(self.context, name)

    def get_connect_variables(self, name: str) -> dict[str, str]:
        """Return the environment variables for the user's connect command."""
        from mngr.agents.interact.attach_command import build_connect_variables

        return build_connect_variables(self.context, name)

    def get_next_waiting(self) -> AgentView:
        """Return the agent that has waited longest for a person, or raise NotFound."""
        from mngr.agents.interact.attach_command import get_longest_waiting

        return get_longest_waiting(self.context)

    def message(
        self,
        names: builtins.list[str],
        text: str | None,
        *,
        answer: str | None = None,
        start: bool = False,
        wait: bool = False,
        timeout: float | None = None,
        raw: bool = False,
    ) -> builtins.list[Outcome]:
        """Send a text, or `answer` a permission question by allow or deny. Each outcome has the `proof` of delivery."""
        from mngr.agents.interact.message import Message, send_message

        message = Message(text=text, answer=answer, raw=raw)
        return send_message(self.context, names, message, start=start, wait=wait, timeout=timeout)

    def wait(
        self,
        names: builtins.list[str],
        state: str | None = None,
        *,
        any_of: bool = False,
        timeout: float | None = None,
    ) -> builtins.list[Outcome]:
        """Wait until all agents, or any of them, reach a state (`S` or `S,S`), by default not STARTING or RUNNING."""
        from mngr.agents.inspect.wait import IDLE_STATES, wait_for_agents

        return wait_for_agents(
            self.context, names, IDLE_STATES if state is None else [state], any_of=any_of, timeout=timeout
        )

    def watch(self, *, quick: float = 0.05, slow: float = 1.0) -> AgentWatcher:
        """Return a watcher that follows many agents as they change. Close it when done."""
        from mngr.agents.inspect.watch import AgentWatcher

        return AgentWatcher(self.context, quick=quick, slow=slow)

    def capture(self, name: str, history: int | None = 0) -> ScreenCapture:
        """Return the agent's screen with `history` lines of scrollback, None for all. Raise MngrError without one."""
        from mngr.agents.inspect.capture import capture_screen

        return capture_screen(self.context, name, history)

    def transcript(self, name: str, *, follow: bool = False) -> Iterator[TranscriptEntry]:
        """Return the rows of the agent's conversation. Raise MngrError when its kind keeps none."""
        from mngr.agents.inspect.transcript import follow_transcript, read_transcript

        return follow_transcript(self.context, name) if follow else iter(read_transcript(self.context, name))

    def usage(
        self,
        names: builtins.list[str] | None = None,
        *,
        by: str = "agent",
        destroyed: bool = False,
        on_missing_host: Callable[[MissingHost], None] | None = None,
    ) -> builtins.list[UsageRow]:
        """Return tokens and cost by agent, day, model, kind, project or label; `on_missing_host` gets silent hosts."""
        from mngr.agents.inspect.usage import compute_usage

        return compute_usage(self.context, names or [], by, destroyed=destroyed, on_missing_host=on_missing_host)

    def add_usage(self, agents: builtins.list[AgentView]) -> builtins.list[AgentView]:
        """Return the agents with `usage` filled in. This reads every conversation."""
        from mngr.agents.inspect.usage import add_usage

        return add_usage(self.context, agents)

    def events(
        self,
        names: builtins.list[str] | None = None,
        *,
        since: str | None = None,
        types: tuple[str, ...] = (),
        follow: bool = False,
    ) -> Iterator[AgentEvent]:
        """Return the events of the named agents, or of all. `since` is a time or a duration before now."""
        from mngr.agents.inspect.events import EventFilter, follow_events, parse_since, read_events

        event_filter = EventFilter(since=parse_since(since) if since else "", types=types)
        return iter((follow_events if follow else read_events)(self.context, names or [], event_filter))

    def explain(self, name: str) -> Explanation:
        """Return why the agent has its state, or raise NotFound."""
        from mngr.agents.inspect.explain import explain

        return explain(self.context, name)

    def exec(
        self,
        names: builtins.list[str],
        argv: builtins.list[str],
        *,
        timeout: float | None = None,
        activate: bool = True,
    ) -> builtins.list[Outcome]:
        """Run a command on every agent, with its Python environment unless `activate` is off, and return the outcomes."""
        from mngr.agents.interact.exec import exec_many

        return exec_many(self.context, names, argv, timeout, activate=activate)

    def exec_attached(self, name: str, argv: builtins.list[str]) -> int:
        """Run a command on one agent with this process's streams, and return its exit code."""
        from mngr.agents.interact.exec import exec_attached

        return exec_attached(self.context, name, argv)

    def pipe(self, address: str) -> int:
        """Serve an ssh client on this process's streams, for an agent or `@HOST`, and return the exit code."""
        from mngr.agents.interact.ssh_connection import serve_ssh_client_on_stdio

        return serve_ssh_client_on_stdio(self.context, address)

    def list_ssh_entries(self) -> builtins.list[SshEntry]:
        """Return the ssh_config entry of every agent and host."""
        from mngr.agents.interact.ssh_config import list_entries

        return list_entries(self.context)

    def ssh_config(self) -> str:
        """Return the entries as ssh_config text."""
        from mngr.agents.interact.ssh_config import format_config, list_entries

        return format_config(self.context, list_entries(self.context))

    def write_ssh_config(self) -> str:
        """Write the entries to a file for ssh to include, and return its path. mngr keeps the file current."""
        from mngr.agents.interact.ssh_config import write_config

        return write_config(self.context)

    def stop(self, names: builtins.list[str], grace: float | None = None) -> builtins.list[Outcome]:
        """End the agents' processes and keep all their files."""
        from mngr.agents.lifecycle.stop import stop_targets

        return stop_targets(self.context, names, grace)

    def start(self, names: builtins.list[str]) -> builtins.list[Outcome]:
        """Start stopped agents where they were."""
        from mngr.agents.lifecycle.start import start_targets

        return start_targets(self.context, names)

    def rename(self, name: str, new: str) -> AgentView:
        """Rename an agent."""
        from mngr.agents.lifecycle.rename import rename_agent

        return self.get(rename_agent(self.context, name, new).id)

    def label(self, names: builtins.list[str], changes: dict[str, str | None]) -> builtins.list[Outcome]:
        """Set labels, or remove those whose value is None."""
        from mngr.agents.lifecycle.rename import set_labels

        return set_labels(self.context, names, changes)

    def limit(self, names: builtins.list[str], changes: LimitChanges) -> builtins.list[Outcome]:
        """Change the limits of agents. Each outcome has the limits in effect."""
        from mngr.agents.lifecycle.limit import set_limits

        return set_limits(self.context, names, changes)

    def destroy(self, names: builtins.list[str], *, force: bool = False) -> builtins.list[Outcome]:
        """Move agents to the trash. Running ones need `force`."""
        from mngr.agents.archive.destroy import destroy

        return destroy(self.context, names, force=force)

    def discard_clean_rooms(self, names: builtins.list[str]) -> builtins.list[Outcome]:
        """Delete clean rooms for good: only agents with the label `role=clean-room`, which hold nobody's work."""
        from mngr.agents.archive.clean_rooms import discard_clean_rooms

        return discard_clean_rooms(self.context, names)

    def undestroy(
        self, names: builtins.list[str], *, new_name: str | None = None, on: str | None = None, set_up: bool = False
    ) -> builtins.list[Outcome]:
        """Restore agents from the trash, stopped, on their host or `on` another. `set_up` runs the project's set-up."""
        from mngr.agents.archive.undestroy import undestroy

        return undestroy(self.context, names, new_name=new_name, on=on, set_up=set_up)

    def list_trash(self) -> builtins.list[TrashedAgent]:
        """Return the agents in the trash, the latest last."""
        from mngr.agents.inspect.trash import list_trash

        return list_trash(self.context)

    def gc(self, *, dry_run: bool = False) -> builtins.list[Outcome]:
        """Finish interrupted operations and remove what is too old. Return an outcome for each thing found."""
        from mngr.agents.archive.gc.gc import collect_garbage

        return collect_garbage(self.context, dry_run=dry_run)

    def clone(self, name: str, new: str | None = None, *, start: bool = True) -> AgentView:
        """Create a second agent from an agent's whole state, on its own branch."""
        from mngr.agents.archive.clone import clone_agent

        return self.get(clone_agent(self.context, name, new, start=start).name)

    def migrate(self, name: str, address: str) -> AgentView:
        """Move an agent to another host (`@HOST`, `@HOST.PROVIDER`, `@.PROVIDER`). A running one runs there again."""
        from mngr.agents.archive.migrate import migrate

        return self.get(migrate(self.context, name, address).name)

    def create_snapshot(self, agent: str, name: str | None = None) -> Snapshot:
        """Save an agent's whole state under a name."""
        from mngr.agents.archive.snapshot import create_snapshot

        return create_snapshot(self.context, agent, name)

    def list_snapshots(self) -> builtins.list[Snapshot]:
        """Return all snapshots, the latest last."""
        from mngr.agents.archive.snapshot import list_snapshots

        return list_snapshots(self.context)

    def restore_snapshot(self, name: str, address: str | None = None, *, start: bool = True) -> AgentView:
        """Create a new agent from a snapshot."""
        from mngr.agents.archive.snapshot import restore_snapshot

        return self.get(restore_snapshot(self.context, name, address, start=start).name)

    def create_from_snapshot(self, name: str, address: str | None = None, message: str | None = None) -> CreatedAgent:
        """Create a new agent from a snapshot, start it and send it the first message."""
        from mngr.agents.archive.snapshot import create_from_snapshot

        return create_from_snapshot(self.context, name, address, message)

    def trash_agents_and_destroy_host(self, provider: str, host: str, label: tuple[str, str]) -> builtins.list[str]:
        """Destroy a host if all its agents have this label. Move them to the trash and return their names."""
        from mngr.agents.archive.run_host_release import trash_agents_and_destroy_host

        return trash_agents_and_destroy_host(self.context, provider, host, label)

    def destroy_snapshots(self, names: builtins.list[str]) -> builtins.list[Outcome]:
        """Delete snapshots for good."""
        from mngr.agents.archive.snapshot import destroy_snapshots

        return destroy_snapshots(self.context, names)

    def diff(self, name: str, *, committed: bool = False, options: tuple[str, ...] = ()) -> bytes:
        """Return the agent's work since its base, as `git diff` prints it."""
        from mngr.agents.inspect.diff import diff

        return diff(self.context, name, committed=committed, options=options)

    def pull(self, name: str, *, merge: bool = False, into: PullTarget | None = None) -> PullResult:
        """Bring the agent's commits and outputs into the current directory's repository, or `into` another place."""
        from mngr.agents.sync.pull import pull_agent

        return pull_agent(self.context, name, merge=merge, into=into)

    def pull_path(self, name: str, path: str, target: str = ".") -> str:
        """Copy a file or directory from the agent to here, and return its new path."""
        from mngr.agents.inspect.find import get_agent
        from mngr.agents.sandbox.bubblewrap import open_sandboxed_host
        from mngr.agents.sync.files import pull_path
        from mngr.agents.sync.transfer_limits import get_limits

        host, record = get_agent(self.context, name)
        limits = get_limits(self.context.load_project_settings(None))
        limits = limits.replace(file_bytes=limits.bytes)  # A file that the user names may use the whole limit.
        return pull_path(open_sandboxed_host(host, record), record, path, self.context.resolve_path(target), limits)

    def push(self, name: str, *, stash: bool = False) -> PushResult:
        """Merge the current branch's commits into the agent's branch."""
        from mngr.agents.sync.push import push_branch

        return push_branch(self.context, name, stash=stash)

    def send_commit(self, name: str, repo: str, commit: str) -> None:
        """Copy a commit from a local repository into the agent's repository, without changing its branches or files."""
        from mngr.agents.sync.push import send_commit

        send_commit(self.context, name, repo, commit)

    def push_path(self, source: str, name: str, path: str) -> str:
        """Copy a file or directory to the agent, and return its new path."""
        from mngr.agents.inspect.find import get_agent
        from mngr.agents.sandbox.bubblewrap import open_sandboxed_host
        from mngr.agents.sync.files import push_path

        host, record = get_agent(self.context, name)
        return push_path(open_sandboxed_host(host, record), self.context.resolve_path(source), record.work_dir, path)

    def list_settings(self) -> builtins.list[SettingValue]:
        """Return all values in effect, each with its source."""
        from mngr.agents.edit_settings import list_settings

        return list_settings(self.context)

    def get_setting(self, key: str) -> SettingValue:
        """Return one setting. Raise NotFound when no layer sets it."""
        from mngr.agents.edit_settings import get_setting

        return get_setting(self.context, key)

    def set_setting(self, key: str, value: object, scope: str | None = None) -> str:
        """Write a setting to the user's, project's or local file, and return its path. `key+=` extends a list."""
        from mngr.agents.edit_settings import set_setting

        return set_setting(self.context, key, value, scope)

    def unset_setting(self, key: str, scope: str | None = None) -> str:
        """Remove a setting from the file in effect, or from that of a scope, and return its path. Raise NotFound."""
        from mngr.agents.edit_settings import unset_setting

        return unset_setting(self.context, key, scope)

    def list_settings_paths(self) -> dict[str, str]:
        """Return the settings file of each scope that exists in the current directory."""
        from mngr.agents.edit_settings import list_settings_paths

        return list_settings_paths(self.context)

    def get_settings_path(self, scope: str) -> str:
        """Return the settings file of a scope. Raise MngrError outside a project."""
        from mngr.agents.edit_settings import get_settings_path

        return get_settings_path(self.context, scope)

    def init(self, *, force: bool = False, dry_run: bool = False) -> DetectedProject:
        """Inspect the current project and write its settings. Raise MngrError when it has settings already."""
        from mngr.setup.init.init import init_project

        return init_project(self.context, force=force, dry_run=dry_run)

    def list_plugins(self) -> builtins.list[PluginView]:
        """Return all installed plugins with what they add, or why they cannot be used."""
        from mngr.setup.installed_plugins import list_plugins

        return list_plugins(self.context)

    def doctor(
        self, target: str | None = None, check_setting: Callable[[str, object], None] | None = None
    ) -> builtins.list[DoctorCheck]:
        """Check this machine, `@HOST` or the needs of a kind. `check_setting` raises for an invalid setting."""
        from mngr.setup.doctor import run_checks

        return run_checks(self.context, target, check_setting)
