import subprocess


def test_jobs_are_reported():
    """Each job gets a line of its own when it ends.

    Jobs run at the same time: the order of the lines may differ from run to run.
    """
    done = subprocess.run(["mill", "run", "--jobs", "3"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["grind: done", "sift: done", "weigh: done"]
