import pexpect


def test_login_dialogue():
    child = pexpect.spawn("portal login", timeout=5, encoding="utf-8")
    child.expect_exact("User name: ")
    child.sendline("ada")
    child.expect_exact("Password: ")
    child.sendline("s3cret")
    child.expect_exact("Welcome, ada.")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
