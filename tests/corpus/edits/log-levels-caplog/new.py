import logging

from syncer import sync


def test_sync_logs_each_conflict_as_warning(caplog, conflicted_tree):
    with caplog.at_level(logging.DEBUG, logger="syncer"):
        sync(conflicted_tree)
    messages = [r.getMessage() for r in caplog.records if r.levelno >= logging.DEBUG]
    assert any("conflict" in message for message in messages)
