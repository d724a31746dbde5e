import threading

from ids import Ids


def test_ids_are_unique_in_threads():
    ids, seen = Ids(), []

    def work():
        for _ in range(1000):
            seen.append(ids.take())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 4000
