"""The host fixtures. A server starts once per worker, for the first test that needs it, and each test gets it clean."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.hosts.engines import Docker, Podman
from tests.support.hosts.machines import Machine, Machines
from tests.support.hosts.modal.server import Modal
from tests.support.hosts.ray import Cluster
from tests.support.hosts.slurm import Slurm
from tests.support.hosts.sshd import Farm


@pytest.fixture(scope="session")
def three_hosts() -> Iterator[Farm]:
    with Farm(3) as farm:
        yield farm


@pytest.fixture(scope="session")
def ten_hosts() -> Iterator[Farm]:
    with Farm(10) as farm:
        yield farm


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Docker]:
    with Docker() as engine:
        yield engine


@pytest.fixture(scope="session")
def podman_files() -> Iterator[Podman]:
    with Podman() as engine:
        yield engine


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster() as ray_cluster:
        yield ray_cluster


@pytest.fixture
def ray(cluster: Cluster) -> Iterator[Cluster]:
    """An empty Ray cluster with a head and two nodes, n1 and n2."""
    yield cluster
    cluster.reset()


@pytest.fixture
def empty_ray() -> Iterator[Cluster]:
    """A Ray cluster without nodes, whose autoscaler can start two nodes with four CPUs each."""
    with Cluster({"small": {"resources": {"CPU": 4}, "node_config": {}, "max_workers": 2}}) as ray_cluster:
        yield ray_cluster


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Slurm]:
    with Slurm() as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_cluster: Slurm) -> Iterator[Slurm]:
    """A Slurm cluster with three idle nodes, n1 to n3."""
    yield slurm_cluster
    slurm_cluster.reset()


@pytest.fixture
def farm(three_hosts: Farm) -> Iterator[Farm]:
    """Three ssh hosts, h1 to h3, and `dead`."""
    yield three_hosts
    three_hosts.reset()


@pytest.fixture
def big_farm(ten_hosts: Farm) -> Iterator[Farm]:
    """Ten ssh hosts, h1 to h10, and `dead`."""
    yield ten_hosts
    ten_hosts.reset()


@pytest.fixture
def machines() -> Iterator[Machines]:
    """Three machines, m1 to m3, that can crash and be cut off."""
    with Machines(3) as group:
        yield group


@pytest.fixture
def machine() -> Iterator[Machine]:
    """One machine, m1."""
    with Machines(1) as group:
        yield group["m1"]


@pytest.fixture
def docker_engine(dockerd: Docker) -> Iterator[Docker]:
    """A dockerd with the tiny image and nothing else."""
    yield dockerd
    dockerd.reset()


@pytest.fixture
def podman_engine(podman_files: Podman) -> Iterator[Podman]:
    """A Podman with the tiny image and nothing else."""
    yield podman_files
    podman_files.reset()


@pytest.fixture(scope="session")
def modal_plane() -> Iterator[Modal]:
    with Modal() as plane:
        yield plane


@pytest.fixture
def modal(modal_plane: Modal) -> Iterator[Modal]:
    """An empty control plane of Modal without faults."""
    yield modal_plane
    modal_plane.reset()
