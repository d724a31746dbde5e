from unittest import mock

from notify import send_all


def test_each_address_gets_one_mail():
    smtp = mock.Mock()
    send_all(smtp, ["a@x.org"], "hello")
    smtp.send.assert_called_once_with("a@x.org", "hello")
