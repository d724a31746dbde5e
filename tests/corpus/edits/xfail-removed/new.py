from tarry.scheduler import Scheduler


def test_due_jobs_run_in_order():
    ran = []
    s = Scheduler(clock=lambda: 1000.0)
    s.at(1000, lambda: ran.append("b"), priority=2)
    s.at(1000, lambda: ran.append("a"), priority=1)
    s.run_due()
    assert ran == ["a", "b"]
