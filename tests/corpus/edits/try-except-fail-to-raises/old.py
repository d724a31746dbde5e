import pytest

from vault import Locked, Vault


def test_locked_vault_refuses_reads(tmp_path):
    vault = Vault(tmp_path)
    vault.lock()
    try:
        vault.read("secret")
    except Locked as e:
        assert e.key == "secret"
        assert str(e) == "vault is locked"
    else:
        pytest.fail("read of a locked vault was allowed")
