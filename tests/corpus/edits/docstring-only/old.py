from queue_of_jobs import Jobs


def test_first_in_first_out():
    """test fifo"""
    jobs = Jobs(room=3)
    jobs.put("a")
    jobs.put("b")
    assert jobs.take() == "a"
    assert jobs.take() == "b"
