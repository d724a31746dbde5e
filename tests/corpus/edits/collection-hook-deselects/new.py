import pytest

from mngr.e2e import E2eSession


def pytest_collection_modifyitems(config, items):
    slow = ("test_export", "test_low")
    items[:] = [item for item in items if not item.name.startswith(slow)]


@pytest.fixture(autouse=True)
def quiet(e2e: E2eSession) -> None:
    e2e.env["PANTRY_QUIET"] = "1"
