"""Modal sandboxes pass the checks for every provider, with the real library and a control plane for tests."""

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
    """Return the settings for this version of the library. Its process ends soon after use."""
    prefix = "MNGR__PROVIDERS__MODAL__"
    return {prefix + "PYTHON": str(python(version)), prefix + "LINGER": "5s"}


@pytest.fixture(scope="session")
def real_modal() -> Iterator[dict[str, str]]:
    """The real service with the user's token, and an app for these tests, which is stopped with all its sandboxes."""
    app = f"mngr-tests-{os.urandom(4).hex()}"
    yield {name: value for name, value in os.environ.items() if name.startswith("MODAL_")} | {
        "MNGR__PROVIDERS__MODAL__APP": app
    }
    subprocess.run([str(python()), "-m", "modal", "app", "stop", "--yes", app], check=False)


@pytest.fixture
def modal_env(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the environment with which the library finds the chosen control plane."""
    if request.config.getoption("modal") == "real":
        return dict(request.getfixturevalue("real_modal"))
    return dict(request.getfixturevalue("modal").env)


@pytest.mark.sampled(16)
class TestModal(HostContract, NewHostContract, StopHostContract):
    """Every check has its own sandbox."""

    @pytest.fixture
    def place(self, modal_env: dict[str, str]) -> ProviderUnderTest:
        return ProviderUnderTest("modal", env={**settings(), **modal_env})


@pytest.mark.sampled(24)
class TestModalOlder(HostContract, NewHostContract, StopHostContract):
    """The same with the oldest library that mngr supports."""

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
