"""Agents and hosts that exist only in memory, so that a run costs nothing but the orchestrator's own work."""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from mngr.agents.create.spec import AgentSpec
from mngr.agents.inspect.list import Listing
from mngr.agents.inspect.usage import UsageRow
from mngr.agents.inspect.watch import WatchUpdate
from mngr.agents.sync.pull import PullResult, PullTarget
from mngr.api import Fleet
from mngr.base import time_format
from mngr.base.model import AgentView, Outcome
from mngr.kinds.transcript_entry import TranscriptEntry

PROVIDER = "simulated"
RUN = "simulated"


class SimulatedProvider:
    """A source of hosts that are ready at once."""

    name = PROVIDER
    can_create_hosts = True
    can_snapshot_hosts = False
    can_stop_hosts = False
    waits = True


class SimulatedWatcher:
    """Reports each agent once. An agent ends as soon as it has its prompt."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet = fleet
        self._new: dict[str, str] = {}  # agent id -> name

    def add_by_name(self, name: str, agent_id: str) -> None:
        """Report the agent at the next wait."""
        self._fleet.restore(name, agent_id)
        self._new[agent_id] = name

    def remove(self, agent_id: str) -> None:
        """Do not report the agent."""
        self._new.pop(agent_id, None)

    def wait(self, seconds: float, wake: int | None = None) -> WatchUpdate | None:
        """Return the new agents, or None after this many seconds or when `wake` has data to read."""
        if self._new:
            names, self._new = list(self._new.values()), {}
            return WatchUpdate(agents=[self._fleet.get(name) for name in names])
        select.select([] if wake is None else [wake], [], [], seconds)
        return None

    def close(self) -> None:
        """There is nothing to close."""


class SimulatedFleet(Fleet):
    """A fleet whose agents report at once that their test is fine as it is."""

    def __init__(self, home: str, cwd: str, base: str, titles: Mapping[str, str]) -> None:
        super().__init__(home, cwd=cwd)
        providers: dict[str, Any] = self.context._providers
        providers[PROVIDER] = SimulatedProvider()
        self._base, self._titles = base, titles  # titles of tasks, by slug
        self._lock = threading.Lock()
        self._agents: dict[str, AgentView] = {}
        self._host_count = 0

    def create(self, spec: AgentSpec) -> AgentView:
        """Return a new agent, on a new host if the address names only the provider."""
        name, _, host = str(spec.address).partition("@")
        with self._lock:
            self._host_count += 1
            number = self._host_count
        host_name = host.removesuffix(f".{PROVIDER}") or f"host-{os.getpid()}-{number}"
        self._agents[name] = _make_agent(name, f"a-{os.getpid():06x}{number:06x}", host_name)
        return self._agents[name]

    def restore(self, name: str, agent_id: str) -> None:
        """Add an agent that an earlier process of the run created."""
        self._agents.setdefault(name, _make_agent(name, agent_id, "unknown"))

    def get(self, name: str) -> AgentView:
        """Return the agent. An earlier process of the run created it if this one did not."""
        return self._agents.get(name) or _make_agent(name, "a-unknown", "unknown")

    def list(self) -> Listing:
        """Return no agents: an earlier process left none behind."""
        return Listing(agents=[])

    def watch(self, *, quick: float = 0.05, slow: float = 1.0) -> Any:
        """Return a watcher for agents that end at once."""
        return SimulatedWatcher(self)

    def message(self, names: Any, text: str | None, **options: Any) -> Any:
        """Deliver a message."""
        return [Outcome(id=None, name=names[0], extra={"proof": "transcript"})]

    def transcript(self, name: str, *, follow: bool = False) -> Iterator[TranscriptEntry]:
        """Return an empty conversation."""
        return iter(())

    def usage(self, names: Any = None, **options: Any) -> Any:
        """Return what a small task uses."""
        return [UsageRow(group=names[0], input_tokens=21_345, output_tokens=1_234, cost_usd=0.0421)]

    def add_git_state(self, agents: Any) -> Any:
        """Return the agents, whose work dirs are clean."""
        return [agent.replace(unpulled=0, dirty=False) for agent in agents]

    def pull(self, name: str, *, merge: bool = False, into: PullTarget | None = None) -> PullResult:
        """Write the result of an agent that changed nothing."""
        assert into is not None and into.outputs_dir is not None
        os.makedirs(into.outputs_dir, exist_ok=True)
        agent = self.get(name)
        slug = name.removeprefix(f"tmr-{RUN}-")
        title = self._titles.get(slug) or self._titles[slug.rpartition("-")[0]]  # a second attempt has a number
        result = {
            "v": 1, "task": title, "outcome": "unchanged", "before": "pass", "after": "pass",
            "summary": "The test passes and checks what its name says. Nothing had to be changed.",
            "changes": [], "escalations": [], "runs": [],
        }  # fmt: skip
        with open(os.path.join(into.outputs_dir, "result.json"), "w", encoding="utf-8") as file:
            json.dump(result, file)
        return PullResult(
            id=agent.id, name=name, branch=None, commit=self._base, commits=0, outputs=1,
            outputs_dir=into.outputs_dir, merged=False,
        )  # fmt: skip

    def stop(self, names: Any, grace: float | None = None) -> Any:
        """Stop agents."""
        return [Outcome(id=None, name=name) for name in names]

    def trash_agents_and_destroy_host(self, provider: str, host: str, label: tuple[str, str]) -> Any:
        """Release a host."""
        return []


def _make_agent(name: str, agent_id: str, host: str) -> AgentView:
    return AgentView(
        id=agent_id, name=name, kind="player", state="WAITING", state_reason="end_of_turn", state_source="hook",
        host=host, provider=PROVIDER, project="simulated", work_dir=f"/work/{name}",
        created_at=time_format.format_timestamp(),
    )  # fmt: skip
