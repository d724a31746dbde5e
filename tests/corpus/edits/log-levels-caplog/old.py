import logging

from syncer import sync


def test_sync_logs_each_conflict_as_warning(caplog, conflicted_tree):
    with caplog.at_level(logging.DEBUG, logger="syncer"):
        sync(conflicted_tree)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warnings == [
        "conflict: a.txt (kept local)",
        "conflict: b/c.txt (kept local)",
    ]
