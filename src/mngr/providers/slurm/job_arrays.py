"""Jobs that are wanted at the same time, as a run wants its hosts: one array of them is submitted, and each is a host."""

from __future__ import annotations

import threading
import time

from mngr.base.errors import MngrError, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Submit = Callable[[list[str]], list[str]]  # from places to the ids of their jobs

BATCH_SECONDS = 0.1  # seconds that the first of several waits for the others
MAX_ARRAY_SIZE = (
    24  # in one array: Slurm takes no comment that is longer than 1024 characters, and all their names are in it
)


class JobBatcher:
    """Calls that come from several threads within a moment, and want the same of Slurm, become one."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._open: dict[Hashable, _JobArray] = {}

    def submit_job(self, place: str, alike: Hashable, submit: Submit) -> str:
        """The id of the job for a place. `submit` is called once for several that are `alike`; once each when that is refused."""
        with self._guard:
            array = self._open.get(alike)
            is_first = array is None or len(array.places) >= MAX_ARRAY_SIZE
            if array is None or is_first:
                array = self._open[alike] = _JobArray()
            at = len(array.places)
            array.places.append(place)
        if is_first:
            if threading.current_thread() is not threading.main_thread():  # where there is nobody to wait for
                time.sleep(BATCH_SECONDS)
            with self._guard:
                if self._open.get(alike) is array:
                    del self._open[alike]
            array.submit(submit)
        array.done.wait()
        if array.error is None:
            return array.ids[at]
        if len(array.places) == 1 or isinstance(array.error, Unreachable):
            raise array.error
        return submit([place])[0]


class _JobArray:
    """Places, and then the ids of their jobs or why there are none."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.ids: list[str] = []
        self.error: MngrError | None = None
        self.done = threading.Event()

    def submit(self, submit: Submit) -> None:
        try:
            self.ids = submit(self.places)
        except MngrError as error:
            self.error = error
        except BaseException:
            self.error = Unreachable("the job was not submitted", "try again")
            raise
        finally:
            self.done.set()
