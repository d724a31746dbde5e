"""Tests the cost of watching agents, and watching many hosts."""

from __future__ import annotations

import subprocess
import sys
import time

from mngr.api import Fleet
from tests.conftest import MngrProgram

# Follows one agent and many that are gone, each on its own host, with a limit just above the number of open files.
MANY = """
import os, resource, sys
from mngr.api import Fleet
from mngr.providers.local import LocalHost
home, agent = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (1200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
fleet = Fleet(home=home)
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
watch = fleet.watch(quick=0.05, slow=60.0)
for number in range(80):
    watch.add(LocalHost(fleet.context.home), "a-none%d" % number)
watch.add(LocalHost(fleet.context.home), agent)
while True:
    glance = watch.wait(5.0)
    if glance and glance.agents:
        print(glance.agents[0].name, len(os.listdir("/proc/self/fd")) > 1200)
        break
watch.close()
"""


def test_watching_no_agents_uses_almost_no_cpu(mngr: MngrProgram) -> None:
    watcher = Fleet(home=str(mngr.home)).watch(quick=0.05, slow=0.1)
    cpu_before, started_at = time.process_time(), time.monotonic()
    assert watcher.wait(0.5) is None
    assert time.monotonic() - started_at >= 0.5
    assert time.process_time() - cpu_before < 0.1


def test_watching_more_hosts_than_the_open_file_limit_allows(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "true")
    argv = [sys.executable, "-c", MANY, str(mngr.home), mngr.get_agent("foo")["id"]]
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (result.stdout, result.returncode) == ("foo True\n", 0), result.stderr
