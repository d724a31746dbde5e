from mailbox_tool import deliver


def test_deliver_to_new_mailbox(tmp_path):
    deliver(tmp_path / "inbox", "hi")
    assert (tmp_path / "inbox").read_text() == "hi\n"


def check_deliver_appends(tmp_path):
    deliver(tmp_path / "inbox", "hi")
    deliver(tmp_path / "inbox", "again")
    assert (tmp_path / "inbox").read_text() == "hi\nagain\n"
