"""`python -m tests.support.hosts.modal STATE HIDDEN…`: serve until a signal, in the Python that has Modal's library."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from grpclib.server import Server  # type: ignore[import-not-found, unused-ignore]
from modal._utils.grpc_utils import custom_detail_codec  # type: ignore[import-not-found, unused-ignore]
from modal_proto import api_pb2, task_command_router_pb2  # type: ignore[import-not-found, unused-ignore]

from tests.support.hosts.modal.box import lay_ground
from tests.support.hosts.modal.hub import Hub
from tests.support.hosts.modal.plane import ControlPlane
from tests.support.hosts.modal.router import CommandRouter
from tests.support.hosts.modal.rpc import service


async def serve(state: Path) -> None:
    """Run the control plane until a signal ends it."""
    hub = Hub(state)
    services = [
        service(api_pb2, "ModalClient", ControlPlane(hub)),
        service(task_command_router_pb2, "TaskCommandRouter", CommandRouter(hub)),
    ]
    # With an explicit protocol, accepted connections send without delay. Otherwise a call takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    hub.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = Server(services, status_details_codec=custom_detail_codec)
    await server.start(sock=listener)
    (state / "url.new").write_text(hub.url)
    os.replace(state / "url.new", state / "url")
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, hub.reset)
    await ended.wait()
    await asyncio.gather(*(hub.terminate(sandbox) for sandbox in hub.sandboxes.values()))
    server.close()


if __name__ == "__main__":
    lay_ground(Path(sys.argv[1]), sys.argv[2:])
    asyncio.run(serve(Path(sys.argv[1])))
