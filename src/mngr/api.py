"""`from mngr import Fleet`: everything the commands can do, as typed Python."""

from __future__ import annotations

from mngr.agents.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator
    from typing import Any

    from mngr.agents.archive.snapshot import Snapshot
    from mngr.agents.create.request import CreateRequest
    from mngr.agents.inspect.capture import ScreenCapture
    from mngr.agents.inspect.explain import Explanation
    from mngr.agents.inspect.list import Listing
    from mngr.agents.inspect.trash import TrashedAgent
    from mngr.agents.inspect.usage import UsageRow
    from mngr.agents.inspect.watch import AgentWatcher
    from mngr.agents.interact.ssh_config import SshEntry
    from mngr.agents.settings_files import SettingValue
    from mngr.agents.sync.pull import PullResult, PullTarget
    from mngr.agents.sync.push import PushResult
    from mngr.base.model import AgentView, Outcome
    from mngr.setup.doctor import DoctorCheck
    from mngr.setup.init import DetectedProject
    from mngr.setup.plugin import PluginView


class Fleet:
    """The agents of one home. Operations are imported when they are first used."""

    def __init__(self, home: str | None = None, *, cwd: str | None = None, context: Context | None = None) -> None:
        self.context = context or Context(home, cwd=cwd)

    def create(
        self,
        name: str | None = None,
        kind: str | None = None,
        command: builtins.list[str] | None = None,
        *,
        source: str | None = None,
        branch: str | None = None,
        transfer: str | None = None,
        dirty: str = "fail",
        env: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        windows: dict[str, str] | None = None,
        idle_timeout: float | None = None,
        resume: str | None = None,
        yolo: bool = False,
        sandbox: bool = False,
        network: str | None = None,
        build_args: dict[str, str] | None = None,
        reuse: bool = False,
    ) -> AgentView:
        """Make one agent and start it; the options are those of `mngr create`. Raises MngrError."""
        from mngr.agents.create.request import CreateRequest

        request = CreateRequest(
            address=name, kind=kind, args=command or [], source=source, branch=branch, transfer=transfer, dirty=dirty,
            env=[f"{key}={value}" for key, value in (env or {}).items()], labels=labels or {}, windows=windows or {},
            idle_timeout=idle_timeout, resume=resume, yolo=yolo, sandbox=sandbox, network=network, reuse=reuse,
            build_args=[f"{key}={value}" for key, value in (build_args or {}).items()],
        )  # fmt: skip
        made = self.create_many(request)[0]
        if isinstance(made, Exception):
            raise made
        return made

    def create_many(
        self, request: CreateRequest, told: builtins.list[Outcome] | None = None
    ) -> builtins.list[AgentView | Exception]:
        """One answer per agent asked for, in order; `told` has what came of the first message to each new one."""
        from mngr.agents.create.create import create_agents

        return create_agents(self.context, request, told)

    def list(self) -> Listing:
        """Every agent, and the hosts that did not answer."""
        from mngr.agents.inspect.list import list_agents

        return list_agents(self.context)

    def list_hosts(self) -> builtins.list[dict[str, Any]]:
        """Every host and how many agents it has."""
        from mngr.agents.inspect.list import list_hosts

        return list_hosts(self.context)

    def add_git_state(self, agents: builtins.list[AgentView]) -> builtins.list[AgentView]:
        """The same agents with `unpulled` and `dirty` filled in."""
        from mngr.agents.workdir.git_state import add_git_state

        return add_git_state(self.context, agents)

    def get(self, name: str) -> AgentView:
        """One agent; raises NotFound."""
        from mngr.agents.inspect.find import observe_agent
        from mngr.agents.inspect.list import make_view

        return make_view(observe_agent(self.context, name))

    def build_attach_argv(self, name: str) -> builtins.list[str]:
        """What to run so that a terminal shows the agent."""
        from mngr.agents.interact.connect import build_attach_argv

        return build_attach_argv(self.context, name)

    def get_connect_variables(self, name: str) -> dict[str, str]:
        """What a connect command finds in its environment."""
        from mngr.agents.interact.connect import build_connect_variables

        return build_connect_variables(self.context, name)

    def get_next_waiting(self) -> AgentView:
        """The agent that has waited longest; raises NotFound."""
        from mngr.agents.interact.connect import get_longest_waiting

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
        """Send a message, or `answer` a permission by allow or deny, and know that it arrived; each outcome has the `proof`."""
        from mngr.agents.interact.message import send_message

        return send_message(self.context, names, text, answer=answer, start=start, wait=wait, timeout=timeout, raw=raw)

    def wait(
        self,
        names: builtins.list[str],
        state: str | None = None,
        *,
        any_of: bool = False,
        timeout: float | None = None,
    ) -> builtins.list[Outcome]:
        """Wait until all agents, or any of them, reach a state (`S` or `S,S`; by default any but STARTING and RUNNING)."""
        from mngr.agents.inspect.wait import IDLE_STATES, wait_for_agents

        return wait_for_agents(
            self.context, names, IDLE_STATES if state is None else [state], any_of=any_of, timeout=timeout
        )

    def watch(self, *, quick: float = 0.05, slow: float = 1.0) -> AgentWatcher:
        """Follows agents as they change, many at once; close it when done."""
        from mngr.agents.inspect.watch import AgentWatcher

        return AgentWatcher(self.context, quick=quick, slow=slow)

    def capture(self, name: str, history: int | None = 0) -> ScreenCapture:
        """The agent's screen with so many lines that scrolled away, all when None; raises MngrError when it has none."""
        from mngr.agents.inspect.capture import capture_screen

        return capture_screen(self.context, name, history)

    def transcript(self, name: str, *, follow: bool = False) -> Iterator[dict[str, Any]]:
        """The rows of the agent's conversation; raises MngrError when its kind keeps none."""
        from mngr.agents.inspect.transcript import follow_transcript, read_transcript

        return follow_transcript(self.context, name) if follow else iter(read_transcript(self.context, name))

    def usage(
        self, names: builtins.list[str] | None = None, *, by: str = "agent", destroyed: bool = False
    ) -> builtins.list[UsageRow]:
        """Tokens and cost, a row for each agent, day, model, kind, project or label; all agents when none is named."""
        from mngr.agents.inspect.usage import compute_usage

        return compute_usage(self.context, names or [], by, destroyed=destroyed)

    def add_usage(self, agents: builtins.list[AgentView]) -> builtins.list[AgentView]:
        """The same agents with `usage` filled in, which costs a look at every conversation."""
        from mngr.agents.inspect.usage import add_usage

        return add_usage(self.context, agents)

    def events(
        self,
        names: builtins.list[str] | None = None,
        *,
        since: str | None = None,
        types: tuple[str, ...] = (),
        follow: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """What happened to these agents, or to all; `since` is a time or how long ago."""
        from mngr.agents.inspect.events import EventFilter, follow_events, parse_since, read_events

        wanted = EventFilter(since=parse_since(since) if since else "", types=types)
        return iter((follow_events if follow else read_events)(self.context, names or [], wanted))

    def explain(self, name: str) -> Explanation:
        """Why the agent has the state it has; raises NotFound."""
        from mngr.agents.inspect.explain import explain

        return explain(self.context, name)

    def exec(
        self, names: builtins.list[str], argv: builtins.list[str], *, timeout: float | None = None
    ) -> builtins.list[Outcome]:
        """Run a command on every agent and capture what it wrote."""
        from mngr.agents.interact.exec import exec_many

        return exec_many(self.context, names, argv, timeout)

    def exec_attached(self, name: str, argv: builtins.list[str]) -> int:
        """Run a command on one agent with this process's streams; its exit code."""
        from mngr.agents.interact.exec import exec_attached

        return exec_attached(self.context, name, argv)

    def pipe(self, address: str) -> int:
        """Be the server of an ssh client on this process's streams, at an agent or `@HOST`; how it ended."""
        from mngr.agents.interact.pipe import serve_ssh

        return serve_ssh(self.context, address)

    def list_ssh_entries(self) -> builtins.list[SshEntry]:
        """What ssh has to know of every agent and host."""
        from mngr.agents.interact.ssh_config import list_entries

        return list_entries(self.context)

    def ssh_config(self) -> str:
        """The same as ssh reads it."""
        from mngr.agents.interact.ssh_config import format_config, list_entries

        return format_config(self.context, list_entries(self.context))

    def write_ssh_config(self) -> str:
        """Put it in a file for ssh to include, which follows the agents from then on; the file's path."""
        from mngr.agents.interact.ssh_config import write_config

        return write_config(self.context)

    def stop(self, names: builtins.list[str], grace: float | None = None) -> builtins.list[Outcome]:
        """End the agents' processes and keep everything."""
        from mngr.agents.lifecycle.stop import stop_targets

        return stop_targets(self.context, names, grace)

    def start(self, names: builtins.list[str]) -> builtins.list[Outcome]:
        """Bring agents back."""
        from mngr.agents.lifecycle.start import start_targets

        return start_targets(self.context, names)

    def rename(self, name: str, new: str) -> AgentView:
        """Give an agent another name."""
        from mngr.agents.lifecycle.rename import rename_agent

        return self.get(rename_agent(self.context, name, new).id)

    def label(self, names: builtins.list[str], changes: dict[str, str | None]) -> builtins.list[Outcome]:
        """Set labels, or remove those whose value is None."""
        from mngr.agents.lifecycle.rename import set_labels

        return set_labels(self.context, names, changes)

    def limit(self, names: builtins.list[str], changes: dict[str, Any]) -> builtins.list[Outcome]:
        """Set `idle_timeout` and `lifetime` in seconds, None for no limit, and `activity`: output, input, process."""
        from mngr.agents.lifecycle.limit import set_limits

        return set_limits(self.context, names, changes)

    def destroy(self, names: builtins.list[str], *, force: bool = False) -> builtins.list[Outcome]:
        """Put agents in the graveyard; running ones need `force`."""
        from mngr.agents.archive.destroy import destroy

        return destroy(self.context, names, force=force)

    def discard_clean_rooms(self, names: builtins.list[str]) -> builtins.list[Outcome]:
        """Take agents away for good that hold nobody's work: those labelled `role=room`, and no others."""
        from mngr.agents.archive.clean_rooms import discard_clean_rooms

        return discard_clean_rooms(self.context, names)

    def undestroy(
        self, names: builtins.list[str], *, new_name: str | None = None, on: str | None = None, set_up: bool = False
    ) -> builtins.list[Outcome]:  # fmt: skip
        """Bring agents back from the graveyard, stopped, where they were or `on` another host; `set_up` runs the project's set-up."""
        from mngr.agents.archive.undestroy import undestroy

        return undestroy(self.context, names, new_name=new_name, on=on, set_up=set_up)

    def list_trash(self) -> builtins.list[TrashedAgent]:
        """What is in the graveyard, the latest last."""
        from mngr.agents.inspect.trash import list_trash

        return list_trash(self.context)

    def gc(self, *, dry_run: bool = False) -> builtins.list[Outcome]:
        """Finish what was interrupted and remove what is too old; an outcome per thing found."""
        from mngr.agents.archive.gc.gc import collect_garbage

        return collect_garbage(self.context, dry_run=dry_run)

    def clone(self, name: str, new: str | None = None, *, start: bool = True) -> AgentView:
        """A second agent from an agent's whole state, on a branch of its own."""
        from mngr.agents.archive.clone import clone_agent

        return self.get(clone_agent(self.context, name, new, start=start).name)

    def migrate(self, name: str, address: str) -> AgentView:
        """Move an agent to another host (`@HOST`, `@HOST.PROVIDER`, `@.PROVIDER`), running if it ran."""
        from mngr.agents.archive.migrate import migrate

        return self.get(migrate(self.context, name, address).name)

    def create_snapshot(self, agent: str, name: str | None = None) -> Snapshot:
        """Keep an agent's whole state under a name."""
        from mngr.agents.archive.snapshot import create_snapshot

        return create_snapshot(self.context, agent, name)

    def list_snapshots(self) -> builtins.list[Snapshot]:
        """Every snapshot, the latest last."""
        from mngr.agents.archive.snapshot import list_snapshots

        return list_snapshots(self.context)

    def restore_snapshot(self, name: str, address: str | None = None, *, start: bool = True) -> AgentView:
        """A new agent from a snapshot."""
        from mngr.agents.archive.snapshot import restore_snapshot

        return self.get(restore_snapshot(self.context, name, address, start=start).name)

    def release_host(self, provider: str, host: str, label: tuple[str, str]) -> builtins.list[str]:
        """Destroy a host all of whose agents have this label, and put them in the graveyard; their names. Raises MngrError."""
        from mngr.agents.archive.host_release import release_host

        return release_host(self.context, provider, host, label)

    def destroy_snapshots(self, names: builtins.list[str]) -> builtins.list[Outcome]:
        """Delete snapshots for good."""
        from mngr.agents.archive.snapshot import destroy_snapshots

        return destroy_snapshots(self.context, names)

    def diff(self, name: str, *, committed: bool = False, options: tuple[str, ...] = ()) -> bytes:
        """The agent's work since its base, as `git diff` prints it."""
        from mngr.agents.inspect.diff import diff

        return diff(self.context, name, committed=committed, options=options)

    def pull(self, name: str, *, merge: bool = False, into: PullTarget | None = None) -> PullResult:
        """Bring the agent's commits and outputs into the repository of the current directory, or `into` another place."""
        from mngr.agents.sync.pull import pull_agent

        return pull_agent(self.context, name, merge=merge, into=into)

    def pull_path(self, name: str, path: str, target: str = ".") -> str:
        """Copy a file or directory of the agent's here; where it ended up."""
        from mngr.agents.inspect.find import get_agent
        from mngr.agents.sandbox.bubblewrap import open_sandboxed_host
        from mngr.agents.sync.files import pull_path
        from mngr.agents.sync.transfer_limits import get_limits

        host, record = get_agent(self.context, name)
        most = get_limits(self.context.load_project_settings(None))
        most = most.replace(file_bytes=most.bytes)  # one that is asked for by name may be as large as all
        return pull_path(open_sandboxed_host(host, record), record, path, self.context.resolve_path(target), most)

    def push(self, name: str, *, stash: bool = False) -> PushResult:
        """Merge the current branch's commits into the agent's branch."""
        from mngr.agents.sync.push import push_branch

        return push_branch(self.context, name, stash=stash)

    def send_commit(self, name: str, repo: str, commit: str) -> None:
        """Bring a commit of a repository here into an agent's own; nothing of the agent's is changed."""
        from mngr.agents.sync.push import send_commit

        send_commit(self.context, name, repo, commit)

    def push_path(self, source: str, name: str, path: str) -> str:
        """Copy a file or directory to the agent; where it ended up."""
        from mngr.agents.inspect.find import get_agent
        from mngr.agents.sandbox.bubblewrap import open_sandboxed_host
        from mngr.agents.sync.files import push_path

        host, record = get_agent(self.context, name)
        return push_path(open_sandboxed_host(host, record), self.context.resolve_path(source), record.work_dir, path)

    def list_settings(self) -> builtins.list[SettingValue]:
        """Everything that is set, each value with its source."""
        from mngr.agents.settings_files import list_settings

        return list_settings(self.context)

    def get_setting(self, key: str) -> SettingValue:
        """One setting; raises NotFound when nothing sets it."""
        from mngr.agents.settings_files import get_setting

        return get_setting(self.context, key)

    def set_setting(self, key: str, value: Any, scope: str | None = None) -> str:
        """Write a setting to the user's, project's or local file; `key+=` extends a list. The file's path."""
        from mngr.agents.settings_files import set_setting

        return set_setting(self.context, key, value, scope)

    def unset_setting(self, key: str, scope: str | None = None) -> str:
        """Remove a setting from the file in effect, or from that of a scope; raises NotFound. The file's path."""
        from mngr.agents.settings_files import unset_setting

        return unset_setting(self.context, key, scope)

    def list_settings_paths(self) -> dict[str, str]:
        """The settings file of every scope there is here."""
        from mngr.agents.settings_files import list_settings_paths

        return list_settings_paths(self.context)

    def get_settings_path(self, scope: str) -> str:
        """The settings file of a scope; raises MngrError outside a project."""
        from mngr.agents.settings_files import get_settings_path

        return get_settings_path(self.context, scope)

    def init(self, *, force: bool = False, dry_run: bool = False) -> DetectedProject:
        """Look at the project here and write its settings; raises MngrError when there are some already."""
        from mngr.setup.init import init_project

        return init_project(self.context, force=force, dry_run=dry_run)

    def list_plugins(self) -> builtins.list[PluginView]:
        """Every installed plugin and what it adds, or why it cannot be used."""
        from mngr.setup.plugin import list_plugins

        return list_plugins(self.context)

    def doctor(
        self, target: str | None = None, check_setting: Callable[[str, Any], None] | None = None
    ) -> builtins.list[DoctorCheck]:
        """What this machine, `@HOST` or a kind needs and has; `check_setting` raises for a setting it does not like."""
        from mngr.setup.doctor import run_checks

        return run_checks(self.context, target, check_setting)
