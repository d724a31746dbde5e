import pexpect


def test_login_dialogue():
    child = pexpect.spawn("portal login", timeout=5, encoding="utf-8")
    child.expect("User.*")
    child.sendline("ada")
    child.expect("Pass.*")
    child.sendline("s3cret")
    child.expect("Welcome")
    child.expect(pexpect.EOF)
