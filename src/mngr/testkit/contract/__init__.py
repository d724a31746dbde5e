"""One set of checks that every provider must pass; see docs/guide/providers.md. Needs pytest, which mngr itself does not.

Start with `place.py`, where the checks create their agents, and `making.py`, the first checks.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"mngr.testkit.contract.{name}"
        for name in "program place making running talking moving living sharing losing hosting".split()
    )
)

from mngr.testkit.contract.hosting import NewHostContract, StopHostContract  # noqa: E402  (asserts are rewritten as a module is imported)
from mngr.testkit.contract.living import Living  # noqa: E402
from mngr.testkit.contract.losing import LossContract  # noqa: E402
from mngr.testkit.contract.making import Making  # noqa: E402
from mngr.testkit.contract.moving import Moving  # noqa: E402
from mngr.testkit.contract.place import Client, Place  # noqa: E402
from mngr.testkit.contract.running import Running  # noqa: E402
from mngr.testkit.contract.sharing import Sharing  # noqa: E402
from mngr.testkit.contract.talking import Talking  # noqa: E402

__all__ = ["Client", "HostContract", "LossContract", "NewHostContract", "Place", "StopHostContract"]


class HostContract(Making, Running, Talking, Moving, Living, Sharing):
    """What must hold on every host. A provider's test class has a fixture `place`."""
