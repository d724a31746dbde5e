"""The checks that every provider must pass; see docs/guide/providers.md. They need pytest, unlike mngr itself.

Start with `client.py`, which creates the agents, and `create_and_list.py`, the first checks.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"mngr.testkit.contract.{name}"
        for name in "mngr_program client create_and_list exec messages sync lifecycle concurrent_clients connection_loss new_hosts".split()
    )
)

from mngr.testkit.contract.client import Client, ProviderUnderTest  # noqa: E402
from mngr.testkit.contract.concurrent_clients import ConcurrencyContract  # noqa: E402
from mngr.testkit.contract.connection_loss import LossContract  # noqa: E402
from mngr.testkit.contract.create_and_list import CreateContract  # noqa: E402
from mngr.testkit.contract.exec import ExecContract  # noqa: E402
from mngr.testkit.contract.interaction import MessageContract  # noqa: E402
from mngr.testkit.contract.lifecycle import LifecycleContract  # noqa: E402
from mngr.testkit.contract.new_hosts import NewHostContract, StopHostContract  # noqa: E402  (asserts are rewritten as a module is imported)
from mngr.testkit.contract.sync import SyncContract  # noqa: E402

__all__ = [
    "Client",
    "HostContract",
    "LossContract",
    "NewHostContract",
    "ProviderUnderTest",
    "StopHostContract",
]


class HostContract(CreateContract, ExecContract, MessageContract, SyncContract, LifecycleContract, ConcurrencyContract):
    """The checks for every host. A provider's test class needs a fixture `place`."""
