"""Starts a server with the demo for all tests, and a proxy that cuts connections."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from toolwright import Client, operations

KEY = "client-tests-key"
DEFINITIONS = Path(__file__).resolve().parents[2] / "testdata" / "definitions.json"


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(tmp_path_factory.mktemp("server")) as address:
        create_definitions(address)
        yield address


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Runs a server on the data of a folder and returns its address."""
    binary = os.environ.get("TOOLWRIGHT_BIN")
    assert binary, "TOOLWRIGHT_BIN must name the toolwright binary"
    # A clean environment: with the key of a model provider, the demo would not use its script.
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TOOLWRIGHT_ADMIN_KEY": KEY}
    command = [binary, "serve", "--bind", "127.0.0.1:0", "--demo", "--data", str(folder / "data")]
    with open(folder / "log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("listening on "), (folder / "log").read_text(encoding="utf-8")
        yield line.removeprefix("listening on ").strip()
    finally:
        server.terminate()
        server.wait(timeout=60)


def create_definitions(address: str) -> None:
    definitions = json.loads(DEFINITIONS.read_text(encoding="utf-8"))
    with Client(address, KEY) as client:
        for tool in definitions["tools"]:
            client.send(operations.create_tool(tool))
        for agent in definitions["agents"]:
            client.send(operations.create_agent(agent))


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, KEY) as client:
        yield client


class CuttingProxy:
    """Forwards connections to the server. It cuts the nth connection where the response contains the nth marker. If
    `stops` is set, it accepts no connections after the last marker.
    """

    def __init__(self, url: str, markers: list[bytes], *, stops: bool = False) -> None:
        self.forward_to(url)
        self._markers = markers
        self._stops = stops
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        """The first bytes of each connection."""
        threading.Thread(target=self._accept, daemon=True).start()

    def forward_to(self, url: str) -> None:
        """Sets the server of the next connections."""
        host, port = url.removeprefix("http://").split(":")
        self._upstream = (host, int(port))

    def close(self) -> None:
        # `shutdown` wakes the thread that accepts; `close` alone would not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        markers = list(self._markers)
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            marker = markers.pop(0) if markers else None
            if self._stops and not markers:
                self.close()
            threading.Thread(target=self._forward, args=(connection, marker), daemon=True).start()

    def _forward(self, connection: socket.socket, marker: bytes | None) -> None:
        with connection, socket.create_connection(self._upstream) as server:
            request = connection.recv(65536)
            self.requests.append(request)
            server.sendall(request)
            threading.Thread(target=copy, args=(connection, server), daemon=True).start()
            seen = b""
            while data := server.recv(65536):
                seen += data
                if marker is not None and marker in seen:
                    keep = len(seen) - seen.index(marker)
                    connection.sendall(data[: len(data) - keep] if keep < len(data) else b"")
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(data)


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass  # The other side has closed its connection.
