import anyio
import pytest

from spool import Spool

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_drain_writes_everything(tmp_path):
    """After drain() all that was put is in the file."""
    async with Spool(tmp_path / "out.log") as spool:
        for number in range(100):
            await spool.put(f"{number}\n")
        await spool.drain()
        text = await anyio.Path(tmp_path / "out.log").read_text()
        assert text.splitlines() == [str(number) for number in range(100)]
