import threading

from idgen import next_id


def test_ids_are_unique_across_threads():
    ids = []
    threads = [threading.Thread(target=lambda: ids.append(next_id())) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(ids)) == 8
