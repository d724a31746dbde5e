"""Watching agents: what it costs to wait, and how many hosts there may be."""

from __future__ import annotations

import subprocess
import sys
import time

from mngr.api import Fleet
from tests.conftest import MngrProgram

# Follows an agent and many that are gone, each by a host of its own, where a shell allows few more files than are open already.
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


def test_waiting_for_nobody_takes_no_time_of_a_processor(mngr: MngrProgram) -> None:
    watch = Fleet(home=str(mngr.home)).watch(quick=0.05, slow=0.1)
    used, began = time.process_time(), time.monotonic()
    assert watch.wait(0.5) is None
    assert time.monotonic() - began >= 0.5
    assert time.process_time() - used < 0.1


def test_there_may_be_more_hosts_than_files_that_a_shell_allows(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "true")
    words = [sys.executable, "-c", MANY, str(mngr.home), mngr.get_agent("foo")["id"]]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("foo True\n", 0), done.stderr
