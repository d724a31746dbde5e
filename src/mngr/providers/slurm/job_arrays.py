"""Submits jobs that several threads want at the same time as one job array. Each element is a host."""

from __future__ import annotations

import threading
import time

from mngr.base.errors import MngrError, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    Submit = Callable[[list[str]], list[str]]  # from host directories to job ids

BATCH_SECONDS = 0.1  # the first caller waits this long for others
MAX_ARRAY_SIZE = 24  # The comment of a job contains all host names, and Slurm limits it to 1024 characters.


class JobBatcher:
    """Combines simultaneous requests of several threads for the same kind of job into one job array."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._open: dict[Hashable, _JobArray] = {}

    def submit_job(self, host_dir: str, alike: Hashable, submit: Submit) -> str:
        """Return the id of a job for the host directory. `submit` is called once for all requests that are `alike`.

        If Slurm rejects the array, each thread submits its own job.
        """
        with self._guard:
            array = self._open.get(alike)
            is_first = array is None or len(array.places) >= MAX_ARRAY_SIZE
            if array is None or is_first:
                array = self._open[alike] = _JobArray()
            index = len(array.places)
            array.places.append(host_dir)
        if is_first:
            if threading.current_thread() is not threading.main_thread():  # The main thread has no others to wait for.
                time.sleep(BATCH_SECONDS)
            with self._guard:
                if self._open.get(alike) is array:
                    del self._open[alike]
            array.submit(submit)
        array.done.wait()
        if array.error is None:
            return array.ids[index]
        if len(array.places) == 1 or isinstance(array.error, Unreachable):
            raise array.error
        return submit([host_dir])[0]


class _JobArray:
    """The host directories of an array, and later the ids of its jobs or the error."""

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
            self.error = Unreachable("mngr could not submit the job", "run the command again")
            raise
        finally:
            self.done.set()
