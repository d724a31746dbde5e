"""Which target of the Makefile runs a test.

`make test` runs every test without one of these markers. A test that uses one of the fixtures below gets its marker
by itself. A test that needs such a program without a fixture is marked by hand.
"""

from __future__ import annotations

from collections.abc import Iterable

MARKERS = {
    "hosts": "needs containers, Modal, Ray, Slurm or machines in namespaces, or is long and about hosts: make test-hosts",
    "agents": "needs a real coding agent or Node.js, or is a long run of many agents: make test-agents",
    "web": "needs a browser or the GitHub CLI, plays the documents, or acts on the board at length: make test-web",
}

# The tests in these folders get a marker too.
FOLDERS = {"tests/docs/": "web"}

FIXTURES = {
    "dockerd": "hosts",
    "docker_engine": "hosts",
    "podman_files": "hosts",
    "podman_engine": "hosts",
    "modal_plane": "hosts",
    "modal": "hosts",
    "modal_env": "hosts",
    "real_modal": "hosts",
    "cluster": "hosts",
    "ray": "hosts",
    "empty_ray": "hosts",
    "slurm_cluster": "hosts",
    "slurm": "hosts",
    "machines": "hosts",
    "machine": "hosts",
    "coder": "agents",
    "browser": "web",
    "chromium": "web",
}


def find_folder_marker(test_id: str) -> str | None:
    """Return the marker of the folder that a test is in."""
    return next((marker for folder, marker in FOLDERS.items() if test_id.startswith(folder)), None)


def find_markers(fixtures: Iterable[str]) -> list[str]:
    """Return the markers of a test that uses these fixtures."""
    return sorted({FIXTURES[name] for name in fixtures if name in FIXTURES})
