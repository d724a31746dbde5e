"""Engines that the settings describe pass the checks for every provider: the first template of the guide."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract import (
    HostContract,
    LossContract,
    NewHostContract,
    ProviderUnderTest,
    StopHostContract,
)
from tests.support.hosts.cable import Cable
from tests.support.hosts.engines import IMAGE, TOOLS, Docker, Podman
from tests.support.paths import ROOT

GUIDES = [ROOT / "docs" / "guide" / name for name in ("engines.md", "engine-examples.md")]


def preset(name: str) -> dict[str, Any]:
    """Return the settings of a provider in a block of the guides."""
    text = "".join(guide.read_text() for guide in GUIDES)
    match = re.search(rf"^```toml {name}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    return dict(next(iter(tomllib.loads(match[1])["providers"].values())))


def settings(program: str = "docker", **more: Any) -> dict[str, str]:
    """Return the first template of the guide, with the tiny image and this machine's programs."""
    template = {**preset("box"), "image": IMAGE, **more}
    template["create"] = [*template["create"][:4], *TOOLS, *template["create"][4:]]
    for key, words in template.items():
        if isinstance(words, list):
            template[key] = [program if word == "docker" else word for word in words]
    return {f"MNGR__PROVIDERS__BOX__{key.upper()}": json.dumps(value) for key, value in template.items()}


@pytest.mark.sampled(16)
class TestTemplate(HostContract, NewHostContract, StopHostContract):
    """With Docker's program."""

    @pytest.fixture
    def place(self, docker_engine: Docker) -> ProviderUnderTest:
        return ProviderUnderTest("box", env={**settings(), **docker_engine.env})


@pytest.mark.full
class TestTemplateOfPodman(HostContract, NewHostContract, StopHostContract):
    """With Podman's program."""

    @pytest.fixture
    def place(self, podman_engine: Podman) -> ProviderUnderTest:
        return ProviderUnderTest("box", env={**settings("podman", **preset("podman")), **podman_engine.env})


@pytest.mark.sampled(16)
class TestTemplateLost(LossContract):
    """The daemon is reached through a cable that can be cut."""

    @pytest.fixture
    def place(self, docker_engine: Docker, tmp_path: Path) -> Iterator[ProviderUnderTest]:
        cable = Cable(tmp_path / "cable.sock", docker_engine.dir / "docker.sock")
        env = {**settings(), "DOCKER_HOST": f"unix://{cable.path}"}
        yield ProviderUnderTest("box", env=env, cut_connections=cable.cut, restore_connections=cable.mend)
        cable.cut()
