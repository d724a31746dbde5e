"""Sandboxes of Modal, by the checks that every provider must pass: the real library, and a control plane of ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from mngr.testkit.contract import (
    HostContract,
    LossContract,
    NewHostContract,
    ProviderUnderTest,
    StopHostContract,
)
from tests.support.hosts.cable import Cable
from tests.support.hosts.modal.server import NEWEST, Modal, python


def settings(version: str = NEWEST) -> dict[str, str]:
    """What makes hosts with that version of the library, and lets its process go soon."""
    prefix = "MNGR__PROVIDERS__MODAL__"
    return {prefix + "PYTHON": str(python(version)), prefix + "LINGER": "5s"}


@pytest.fixture(scope="session")
def real_modal() -> Iterator[dict[str, str]]:
    """The service itself, with the token that is there, and an app of our own that is stopped with all its sandboxes."""
    app = f"mngr-tests-{os.urandom(4).hex()}"
    yield {name: value for name, value in os.environ.items() if name.startswith("MODAL_")} | {
        "MNGR__PROVIDERS__MODAL__APP": app
    }
    subprocess.run([str(python()), "-m", "modal", "app", "stop", "--yes", app], check=False)


@pytest.fixture
def modal_env(request: pytest.FixtureRequest) -> dict[str, str]:
    """What the library needs to find the control plane that was asked for."""
    if request.config.getoption("modal") == "real":
        return dict(request.getfixturevalue("real_modal"))
    return dict(request.getfixturevalue("modal").env)


@pytest.mark.sampled(16)
class TestModal(HostContract, NewHostContract, StopHostContract):
    """Every check has a sandbox of its own."""

    @pytest.fixture
    def place(self, modal_env: dict[str, str]) -> ProviderUnderTest:
        return ProviderUnderTest("modal", env={**settings(), **modal_env})


@pytest.mark.sampled(24)
class TestModalOlder(HostContract, NewHostContract, StopHostContract):
    """The same with the oldest library that we support."""

    @pytest.fixture
    def place(self, modal_env: dict[str, str]) -> ProviderUnderTest:
        return ProviderUnderTest("modal", env={**settings("modal@1.5.5"), **modal_env})


@pytest.mark.sampled(12)
class TestModalLost(LossContract):
    """The control plane is reached through a cable that can be cut."""

    @pytest.fixture
    def place(self, modal: Modal) -> Iterator[ProviderUnderTest]:
        cable = Cable(("127.0.0.1", 0), modal.address)
        assert isinstance(cable.path, tuple)
        url = f"http://127.0.0.1:{cable.path[1]}"
        modal.fail(router=url)
        yield ProviderUnderTest(
            "modal",
            env={**settings(), **modal.env, "MODAL_SERVER_URL": url},
            cut_connections=cable.cut,
            restore_connections=cable.mend,
        )
        cable.cut()
