import threading
from concurrent.futures import ThreadPoolExecutor

from idgen import next_id


def test_ids_are_unique_across_threads():
    barrier = threading.Barrier(8)

    def work():
        barrier.wait(timeout=10)
        return [next_id() for _ in range(500)]

    with ThreadPoolExecutor(max_workers=8) as pool:
        futures = [pool.submit(work) for _ in range(8)]
        ids = [i for f in futures for i in f.result(timeout=30)]
    assert len(ids) == 8 * 500
    assert len(set(ids)) == len(ids)
