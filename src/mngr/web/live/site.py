"""What all pages of the server share: the fleet, its overview, the project, and what the person may do."""

from __future__ import annotations

import threading

from mngr import __version__
from mngr.api import Fleet
from mngr.overview.follower import OverviewFollower
from mngr.web.live.background_calls import BackgroundCalls
from mngr.web.live.integrate_job import IntegrateJob
from mngr.web.templates import render_template

_SCREEN_SECONDS = 0.5  # A change that only a screen shows arrives after this time.
_MAX_LOADS, _MAX_ACTIONS = 12, 24  # at the same time


class Site:
    """One running page. Close it when done."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        root: str | None = None,
        artifacts_dir: str = "",
        script: str | None = None,
        is_read_only: bool = False,
    ) -> None:
        self.fleet = fleet
        self.root = root
        self.artifacts_dir = artifacts_dir
        self.script = script  # the path of the project's tutorial
        self.is_read_only = is_read_only
        self.follower = OverviewFollower(fleet, root=root, slow=_SCREEN_SECONDS)
        self.loads = BackgroundCalls(_MAX_LOADS)
        self.actions = BackgroundCalls(_MAX_ACTIONS, must_end=True)
        self.jobs: dict[str, IntegrateJob] = {}  # the last one of each run

    def render(self, template: str, **facts: object) -> str:
        """Return a page or a part of a page."""
        return render_template(f"live/{template}", site=self, version=__version__, **facts)

    def close(self) -> None:
        """Stop to follow the agents. Nobody waits for hosts that do not answer."""
        threading.Thread(target=self.follower.close, daemon=True).start()
