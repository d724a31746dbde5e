"""Watches the agents of a run's tasks."""

from __future__ import annotations

from mngr.agents.inspect.watch import AgentWatcher, WatchUpdate
from mngr.base.errors import MngrError, Unreachable
from mngr.mapreduce.journal.run_state import TaskState


class TaskWatch:
    """Watches the agents of tasks and knows the task of each watched agent."""

    def __init__(self, watcher: AgentWatcher) -> None:
        self._watcher = watcher
        self._slugs: dict[str, str] = {}  # agent id -> task slug

    def add(self, task: TaskState) -> bool:
        """Watch the task's agent. Return False when its host is no longer known.

        While the host does not answer, the agent is not watched, and the caller can try again later.
        """
        if task.agent_id is None or task.agent is None:
            return True
        is_known = True
        try:
            self._watcher.add_by_name(task.agent, task.agent_id)
        except Unreachable:
            return True
        except MngrError:
            is_known = False
        self._slugs[task.agent_id] = task.task.slug
        return is_known

    def remove(self, agent_id: str) -> None:
        """Stop watching an agent. Another task may use it later."""
        self._watcher.remove(agent_id)
        self._slugs.pop(agent_id, None)

    def is_watched(self, task: TaskState) -> bool:
        """True when the task's agent is watched."""
        return task.agent_id in self._slugs

    def find_slug(self, agent_id: str) -> str | None:
        """Return the slug of the agent's task, or None when the agent is not watched."""
        return self._slugs.get(agent_id)

    def wait(self, seconds: float, wake_fd: int) -> WatchUpdate | None:
        """Return what has changed, or None when the time is over or `wake_fd` became readable."""
        return self._watcher.wait(seconds, wake_fd)

    def close(self) -> None:
        """Stop watching all agents."""
        self._watcher.close()
