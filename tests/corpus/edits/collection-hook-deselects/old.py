import pytest

from mngr.e2e import E2eSession


@pytest.fixture(autouse=True)
def quiet(e2e: E2eSession) -> None:
    e2e.env["PANTRY_QUIET"] = "1"
