"""Hosts that wait in the queue of a Ray cluster until a node has a place for them, or an autoscaler starts one."""

from __future__ import annotations

import time

import pytest

from mngr.testkit.contract.mngr_program import BackgroundProgram
from tests.conftest import MngrProgram, wait_for
from tests.providers.ray.test_contract import settings
from tests.providers.ray.test_ray import RUN, cluster_of
from tests.support.hosts.ray import Cluster

__all__ = ["cluster_of"]


def test_an_autoscaler_starts_the_node_for_a_host(mngr: MngrProgram, empty_ray: Cluster) -> None:
    mngr.env.update(settings(empty_ray))
    assert len(empty_ray.ask()["nodes"]) == 1  # the head, which has no CPU
    started = time.monotonic()
    error = mngr("create", "foo@.ray", "-b", "cpus=5", *RUN, code=2).err
    assert "no node of the cluster and no node type of its autoscaler has CPU 5" in error
    assert time.monotonic() - started < 30 and empty_ray.ask()["actors"] == []
    stderr = mngr("create", "foo@.ray", "-b", "cpus=3", *RUN).err
    assert "the cluster does not have enough free CPU; the host waits until Ray has a place for it" in stderr
    assert mngr.get_agent("foo")["state"] == "RUNNING" and len(empty_ray.ask()["nodes"]) == 2
    assert mngr("exec", "foo", "--", "echo", "there").out == "there\n"
    mngr("destroy", "--force", "foo")
    assert empty_ray.ask()["actors"] == []


@pytest.mark.sampled(2)
def test_impossible_resources_are_rejected_and_busy_ones_are_waited_for(mngr: MngrProgram, cluster_of: Cluster) -> None:
    assert "no node of the cluster has CPU 900" in mngr("create", "foo@.ray", "-b", "cpus=900", *RUN, code=2).err
    mngr("create", "a@.ray", "-b", "cpus=64", *RUN)
    mngr("create", "b@.ray", "-b", "cpus=64", *RUN)
    with BackgroundProgram(mngr, "create", "c@.ray", *RUN) as waiting:
        wait_for(
            lambda: "the cluster does not have enough free CPU; the host waits" in waiting.read_stderr(), timeout=30
        )
        mngr("destroy", "--force", "a")
        assert waiting.wait_for_end().code == 0
    assert mngr.get_agent("c")["state"] == "RUNNING"


@pytest.mark.sampled(2)
def test_a_host_that_finds_no_place_leaves_the_queue_after_the_wait(mngr: MngrProgram, cluster_of: Cluster) -> None:
    mngr.env["MNGR__PROVIDERS__RAY__WAIT"] = "1s"
    mngr("create", "a@.ray", "-b", "cpus=64", *RUN)
    mngr("create", "b@.ray", "-b", "cpus=64", *RUN)
    before = cluster_of.ask()["actors"]
    error = mngr("create", "c@.ray", *RUN, code=5).err
    assert "Ray found no free node for the host within 1 s" in error and "providers.ray.wait 1h" in error
    assert cluster_of.ask()["actors"] == before and len(mngr.list_agents()) == 2


@pytest.mark.sampled(2)
def test_a_waiting_host_leaves_the_queue_when_its_command_is_killed(mngr: MngrProgram, cluster_of: Cluster) -> None:
    mngr("create", "a@.ray", "-b", "cpus=64", *RUN)
    mngr("create", "b@.ray", "-b", "cpus=64", *RUN)
    before = cluster_of.ask()["actors"]
    with BackgroundProgram(mngr, "create", "c@.ray", *RUN) as waiting:
        wait_for(lambda: "the host waits" in waiting.read_stderr(), timeout=30)
        wait_for(lambda: len(cluster_of.ask()["actors"]) > len(before), timeout=30)
        waiting.process.kill()
    wait_for(lambda: cluster_of.ask()["actors"] == before, timeout=30)
    assert mngr.run_json("gc")["results"] != []
