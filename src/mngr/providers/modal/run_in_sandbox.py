"""Runs a command in a sandbox. Shell code adds the features that Modal's library lacks."""

from __future__ import annotations

import asyncio
import os

from mngr.providers.bridge.engine_interface import EngineError
from mngr.providers.modal.check_control_plane import run_if_reachable, run_in_library_loop, translate_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from mngr.providers.bridge.messages import TerminalSpec

MAX_PROGRAM_BYTES = 60_000  # a longer program is sent as a file; Modal allows 64 KiB of arguments
INPUT_CHUNK_SIZE = 1 << 20  # the library buffers at most twice as much
_OUTPUT_QUEUE_SIZE = 4  # chunks of output that wait for their reader
# The program first reports its pid, so that mngr can end it. With a terminal it also reports that, after setting
# the initial size, because mngr may resize the terminal as soon as it is known.
_PREFACE = '[ -n "$HOME" ] || export HOME=/root; printf "%s%s;" {mark} $$ >&2\n'
_TERMINAL_PREFACE = '[ -n "$HOME" ] || export HOME=/root; printf "%s%s %s;" {mark} $$ "$(tty 2>/dev/null || :)"\n'
_TERMINAL_SIZE_SCRIPT = "stty rows {rows} cols {columns} 2>/dev/null; TERM={term}; export TERM\n"
# Ends a process and its descendants, but not background processes.
_KILL_SCRIPT = """
for one in /proc/[0-9]*/stat; do sed 's/^\\([0-9]*\\) .*) [A-Za-z] \\([0-9]*\\) .*/\\1 \\2/' "$one" 2>/dev/null; done | awk -v top="$1" '
    { parent[$1] = $2 }
    END { for (pid in parent) { for (one = pid; one in parent; one = parent[one]) if (one == top) { print pid; break } } }' |
while read -r pid; do kill -HUP "$pid" 2>/dev/null; done
"""
# The same for a lost command, whose pid may be unknown. It is found by the mark in its arguments; the mark is passed in
# two halves, so that the script does not find itself.
_KILL_LOST_SCRIPT = """
for one in /proc/[0-9]*; do
    if tr '\\0' ' ' 2>/dev/null <"$one/cmdline" | grep -qF -e "$1$2"; then sh -c "$3" mngr "${one#/proc/}"; fi
done
"""
# All output comes on one stream, because each stream costs calls. Standard error follows after a mark.
_BUFFERED_SCRIPT = """mngr_program() {{
{program}
}}
[ -n "$HOME" ] || export HOME=/root
printf "%s%s;" {mark} $$
exec 3>&1
mngr_said=$(mngr_program 2>&1 >&3 3>&-)
printf %s%s {mark} "$mngr_said"
"""
_RUN_FILE_SCRIPT = 'p=$(cat "$0"; echo x); rm -f "$0"; eval "${p%x}"'


class SandboxCommand:
    """A command in a sandbox. Background tasks read its output; they are cancelled when the engine is lost."""

    def __init__(self, sandbox: Any, process: Any, mark: str, is_terminal: bool) -> None:
        self._sandbox = sandbox
        self._process = process
        self.mark = mark
        self._preface_on = 1 if is_terminal else 2
        self._preface: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._queues: dict[int, asyncio.Queue[Any]] = {stream: asyncio.Queue(_OUTPUT_QUEUE_SIZE) for stream in (1, 2)}
        self._lost: EngineError | None = None
        self._is_killed = False
        self._tasks = [
            asyncio.ensure_future(self._read_stream(1, process.stdout)),
            asyncio.ensure_future(self._read_stream(2, process.stderr)),
        ]
        self._waiting = asyncio.ensure_future(process.wait.aio())
        self._tasks.append(self._waiting)

    @property
    def has_ended(self) -> bool:
        """True when the command has surely ended. A lost connection does not end it."""
        waiting = self._waiting
        return self._is_killed or (waiting.done() and not waiting.cancelled() and waiting.exception() is None)

    async def _read_stream(self, number: int, stream: Any) -> None:
        """Put the data of one stream into its queue, without the preface. None marks the end."""
        queue = self._queues[number]
        preface = b"" if number == self._preface_on else None
        try:
            async for data in stream:
                if preface is not None:
                    preface += data
                    if b";" not in preface:
                        continue
                    data, preface = self._strip_preface(preface), None
                if data:
                    await queue.put(bytes(data))
            await queue.put(preface)
            if preface:
                await queue.put(None)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await queue.put(translate_error(error))

    def _strip_preface(self, data: bytes) -> bytes:
        """Return the data after the preface, and record the pid and terminal that it contains."""
        preface, _, rest = data.partition(b";")
        mark = self.mark.encode()
        if not preface.startswith(mark):
            return data
        if not self._preface.done():
            self._preface.set_result(preface[len(mark) :].decode("ascii", "replace").split())
        return rest

    async def write(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), INPUT_CHUNK_SIZE):
                self._process.stdin.write(data[start : start + INPUT_CHUNK_SIZE])
                await self._process.stdin.drain.aio()
        except Exception:  # Nobody reads the input any more; the output shows why.
            await asyncio.sleep(0)

    async def end_input(self) -> None:
        try:
            self._process.stdin.write_eof()
            await self._process.stdin.drain.aio()
        except Exception:  # The command has ended.
            pass

    async def read(self, stream: int) -> AsyncIterator[bytes]:
        queue = self._queues[stream]
        while not self._lost:
            data = await queue.get()
            if data is None or data == b"":
                return
            if isinstance(data, EngineError):
                raise data
            yield data
        raise self._lost

    async def wait(self) -> int:
        try:
            code = int(await run_if_reachable(asyncio.shield(self._waiting)))
        finally:
            self._cancel_tasks()
        return code if code >= 0 else 255

    async def resize(self, rows: int, columns: int) -> None:
        preface = await self._preface
        if len(preface) > 1:
            await _run_script(self._sandbox, f'stty -F "$1" rows {rows} cols {columns}', preface[1])

    async def kill(self) -> None:
        try:
            if not self._waiting.done():
                preface = await asyncio.wait_for(asyncio.shield(self._preface), 5.0)
                await asyncio.wait_for(_run_script(self._sandbox, _KILL_SCRIPT, preface[0]), 20.0)
                self._is_killed = True
        except Exception:  # The command has ended or the engine is lost, and nobody waits for an error.
            pass
        finally:
            self._cancel_tasks()

    def fail(self, error: EngineError) -> None:
        """Raise this error in all readers, because the engine does not answer."""
        self._lost = error
        self._cancel_tasks()
        for queue in self._queues.values():
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(error)

    def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()


class BufferedCommand:
    """A command whose output is needed only at its end. It runs in the loop of Modal's library, which is fastest."""

    def __init__(self, sandbox: Any, program: str, data: bytes) -> None:
        self._sandbox = sandbox
        self._program = program
        self._data = data
        self.mark = new_marker()
        self._output = bytearray()
        self._task: asyncio.Future[None] | None = None
        self.has_ended = False
        self._lost: EngineError | None = None

    async def run(self) -> tuple[bytes, bytes, int]:
        """Run the command and return its output, standard error and 0, or 255 if it did not run to its end."""
        self._task = asyncio.ensure_future(run_in_library_loop(self._run()))
        try:
            await run_if_reachable(asyncio.shield(self._task))
        except asyncio.CancelledError:
            if self._lost is not None:
                raise self._lost from None
            await self._kill()
            raise
        finally:
            self._task.cancel()  # Otherwise the library would retry and succeed when nobody waits for it.
        mark = self.mark.encode()
        _, _, rest = bytes(self._output).partition(b";")
        out, separator, err = rest.partition(mark)
        return out, err, 0 if separator else 255

    async def _run(self) -> None:
        text = _BUFFERED_SCRIPT.format(mark=self.mark, program=self._program)
        process = await _start_process(self._sandbox, self.mark, text)
        if self._data:
            await _send_input(process, self._data)
        async for data in process.stdout:
            self._output += data
        self.has_ended = True

    async def _kill(self) -> None:
        try:
            await kill_command(self._sandbox, self.mark)
            self.has_ended = True
        except Exception:  # The command has ended or the engine is lost, and nobody waits for an error.
            pass

    def fail(self, error: EngineError) -> None:
        """Raise this error in `run`, because the engine does not answer."""
        self._lost = error
        if self._task is not None:
            self._task.cancel()


async def start_command(sandbox: Any, mark: str, program: str, terminal: TerminalSpec | None) -> SandboxCommand:
    """Start an sh program in a sandbox. Exceptions of the library are passed on."""
    # The outer shell keeps the mark even if the program calls exec. Signals are for the program.
    text = f"trap : INT QUIT\n({program}\n)\nexit $?\n"
    preface = _PREFACE.format(mark=mark)
    if terminal is not None:
        size_script = _TERMINAL_SIZE_SCRIPT.format(
            rows=terminal.rows, columns=terminal.columns, term=_quote_word(terminal.term)
        )
        preface, text = size_script + _TERMINAL_PREFACE.format(mark=mark), program
    process = await _start_process(sandbox, mark, preface + text, pty=terminal is not None)
    return SandboxCommand(sandbox, process, mark, terminal is not None)


async def kill_command(sandbox: Any, mark: str) -> None:
    """End the command with this mark and its children, but not background processes."""
    half = len(mark) // 2
    await asyncio.wait_for(_run_script(sandbox, _KILL_LOST_SCRIPT, mark[:half], mark[half:], _KILL_SCRIPT), 20.0)


async def _start_process(sandbox: Any, mark: str, text: str, *, pty: bool = False) -> Any:
    """Start an sh program. A long program is first written to a file in the sandbox."""
    words = ["sh", "-c", text]
    if len(text) > MAX_PROGRAM_BYTES:
        path = f"/tmp/.mngr-{os.urandom(8).hex()}"
        process = await sandbox.exec.aio("sh", "-c", 'umask 077; cat >"$0"', path, text=False)
        await _send_input(process, text.encode())
        await process.wait.aio()
        words = ["sh", "-c", _RUN_FILE_SCRIPT, path, mark]
    return await sandbox.exec.aio(*words, text=False, pty=pty)


async def _send_input(process: Any, data: bytes) -> None:
    """Send all input to a process and close its input."""
    for start in range(0, len(data), INPUT_CHUNK_SIZE):
        process.stdin.write(data[start : start + INPUT_CHUNK_SIZE])
        if start + INPUT_CHUNK_SIZE < len(data):
            await process.stdin.drain.aio()
    process.stdin.write_eof()
    await process.stdin.drain.aio()


async def _run_script(sandbox: Any, script: str, *words: str) -> None:
    process = await sandbox.exec.aio("sh", "-c", script, "mngr", *words)
    await process.wait.aio()


def new_marker() -> str:
    """Return a random mark that identifies a command."""
    return f"mngr-{os.urandom(6).hex()}:"


def _quote_word(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
