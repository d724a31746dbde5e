from queue_of_jobs import Jobs


def test_first_in_first_out():
    """Jobs come out in the order in which they went in."""
    jobs = Jobs(room=3)
    jobs.put("a")
    jobs.put("b")
    assert jobs.take() == "a"
    assert jobs.take() == "b"
