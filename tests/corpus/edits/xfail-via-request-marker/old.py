import pytest

from tarry.scheduler import Scheduler


@pytest.fixture
def scheduler():
    s = Scheduler(clock=lambda: 1000.0)
    yield s
    s.close()


def test_due_jobs_run_in_order(scheduler):
    ran = []
    scheduler.at(1000, lambda: ran.append("b"), priority=2)
    scheduler.at(1000, lambda: ran.append("a"), priority=1)
    scheduler.run_due()
    assert ran == ["a", "b"]
