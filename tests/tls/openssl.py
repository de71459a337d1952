"""The programs of OpenSSL, and what passes between them: a client and a server with a recorder in the middle."""

import socket
import subprocess
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.support.live import PATIENCE, wait_for
from tests.tls.real import Talk, certificate


class Recorder:
    """Passes the bytes of connections on, and keeps them in their order."""

    def __init__(self, port: int) -> None:
        self.flights: list[tuple[int, bytes]] = []
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take it that both ends are gone."""
        self._thread.join(PATIENCE)

    def said(self, direction: int) -> int:
        """Return how many pieces a direction has said so far."""
        return sum(way == direction for way, _ in self.flights)

    def wait_for_more(self, direction: int, before: int) -> None:
        """Wait until a direction has said more pieces than before."""
        wait_for(lambda: self.said(direction) > before)

    def _accept(self) -> None:
        target = ("127.0.0.1", self._port)
        with self._listener, self._listener.accept()[0] as client, socket.create_connection(target) as server:
            back = threading.Thread(target=self._carry, args=(1, server, client), daemon=True)
            back.start()
            self._carry(0, client, server)
            back.join(PATIENCE)

    def _carry(self, direction: int, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                with self._lock:
                    self.flights.append((direction, data))
                    other.sendall(data)
            other.shutdown(socket.SHUT_WR)


class Program:
    """One end. What it prints is kept in a file."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._path = folder / f"{words[0]}.out"
        with self._path.open("wb") as out:
            command = ["openssl", *words, "-keylogfile", str(folder / "keys.log")]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)

    @property
    def printed(self) -> str:
        return self._path.read_bytes().decode(errors="replace")

    def say(self, line: str) -> None:
        """Give it a line, as a whole."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def wait_for_line(self, line: str) -> None:
        """Wait until it has printed a line."""
        wait_for(lambda: line in self.printed)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)


def talk(folder: Path, steps: list[tuple[int, str]], words: list[str], *, server_words: tuple[str, ...] = ()) -> Talk:
    """Have both say lines in turn; a single letter is a command: K and k update keys, R begins another handshake."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ExitStack() as stack:
        server = Program(
            folder, "s_server", "-accept", f"127.0.0.1:{port}", "-cert", str(certificate()), *words, *server_words
        )
        stack.callback(server.end)
        wait_for(lambda: "ACCEPT" in server.printed)
        recorder = Recorder(port)
        client = Program(folder, "s_client", "-connect", f"127.0.0.1:{recorder.port}", *words)
        stack.callback(recorder.close)
        stack.callback(server.end)
        stack.callback(client.end)
        wait_for(lambda: "Verify return code" in client.printed)
        ends, found = (client, server), Talk()
        for direction, line in steps:
            speaker, hearer = ends[direction], ends[1 - direction]
            before = recorder.said(direction)
            speaker.say(line)
            if len(line) == 1:
                recorder.wait_for_more(direction, before)
            else:
                hearer.wait_for_line(line)
                found.texts[direction] += line.encode() + b"\n"
        client.say("Q")
        client.process.wait(PATIENCE)
        wait_for(lambda: "DONE" in server.printed or "CONNECTION CLOSED" in server.printed)
        found.flights, found.keylog = recorder.flights, (folder / "keys.log").read_bytes()
    return found
