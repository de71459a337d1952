"""The relay: bytes pass unchanged, ends as they ended, back-pressure is kept, and packets say all of it."""

import itertools
import os
import resource
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from dcpdump.capture.relay import Relay
from dcpdump.net.connections import Connections
from dcpdump.net.event import Bytes, End
from dcpdump.net.packet import Packet
from tests.support.live import wait_for

HERE = ("127.0.0.1", 0)
TIMEOUT = 20


class Passing:
    """A relay that runs, with what it yielded and reported."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.said: list[str] = []
        self.packets: list[Packet] = []
        self.relay = Relay(HERE, target, self.said.append)
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.packets += self.relay.packets()

    def client(self) -> socket.socket:
        """Return a connection to the relay."""
        return socket.create_connection(self.relay.address, TIMEOUT)

    def end(self) -> None:
        self.relay.stop()
        self.thread.join(TIMEOUT)
        assert not self.thread.is_alive()


@contextmanager
def passing(target: tuple[str, int]) -> Iterator[Passing]:
    """Run a relay."""
    found = Passing(target)
    found.thread.start()
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(HERE) as listener:
        listener.settimeout(TIMEOUT)
        yield listener


def accepted(server: socket.socket) -> socket.socket:
    """Return the next connection to a server."""
    connection, _ = server.accept()
    connection.settimeout(TIMEOUT)
    return connection


def say(connection: socket.socket, data: bytes) -> None:
    """Send bytes, and end the direction."""
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def fill(connection: socket.socket) -> int:
    """Send until nothing more is taken for a second; return how much was."""
    connection.settimeout(1)
    sent = 0
    try:
        while sent < 1 << 30:
            sent += connection.send(bytes(1 << 16))
    except TimeoutError:
        return sent
    raise AssertionError("nobody held the sender back")


def all_of(connection: socket.socket) -> bytes:
    """Return what comes up to the end."""
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def delivered(packets: list[Packet]) -> tuple[dict[tuple[int, int], bytes], list[str]]:
    """Return the bytes of each direction that the packets carry, and how connections ended."""
    reassembly, data, ends = Connections(), dict[tuple[int, int], bytes](), list[str]()
    for packet in packets:
        for event in reassembly.feed(packet):
            place = event.connection.number, event.direction
            if isinstance(event.event, Bytes):
                data[place] = data.get(place, b"") + event.event.data
            elif isinstance(event.event, End):
                ends.append(event.event.reason)
    return data, ends


def test_bytes_pass_unchanged_both_ways_and_packets_have_them(server: socket.socket) -> None:
    question, answer = bytes(range(256)) * 3_000, b"answer" * 200_000
    with passing(server.getsockname()) as run, run.client() as client, accepted(server) as other:
        asking = threading.Thread(target=say, args=(client, question))
        asking.start()
        assert all_of(other) == question
        answering = threading.Thread(target=say, args=(other, answer))
        answering.start()
        assert all_of(client) == answer
        asking.join()
        answering.join()
        run.end()
        data, _ = delivered(run.packets)
        assert data == {(0, 0): question, (0, 1): answer}
        assert (run.relay.connections, run.relay.bytes) == (1, len(question) + len(answer))


def test_one_direction_may_end_before_the_other(server: socket.socket) -> None:
    with passing(server.getsockname()) as run, run.client() as client, accepted(server) as other:
        client.shutdown(socket.SHUT_WR)
        assert other.recv(1) == b""
        other.sendall(b"still here")
        assert client.recv(10) == b"still here"


@pytest.mark.parametrize("by_client", [True, False])
def test_a_reset_is_passed_on_as_a_reset(server: socket.socket, by_client: bool) -> None:
    with passing(server.getsockname()) as run:
        ends = [run.client(), accepted(server)]
        breaking, hurt = ends if by_client else ends[::-1]
        breaking.sendall(b"x")
        assert hurt.recv(1) == b"x"
        breaking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        breaking.close()
        with pytest.raises(ConnectionResetError):
            hurt.recv(1)
        hurt.close()
        run.end()
        assert len(run.packets) == 5  # the handshake, a byte, the reset
        assert run.packets[-1].data[33] & 0x04


def test_what_a_server_sent_before_it_reset_arrives(server: socket.socket) -> None:
    relay = Relay(HERE, server.getsockname(), print)
    packets = relay.packets()
    with socket.create_connection(relay.address, TIMEOUT) as client:
        found = [next(packets) for _ in range(3)]
        with accepted(server) as other:
            client.sendall(b"question")
            found.append(next(packets))
            client.sendall(b"more")  # the relay gets to this first, and cannot pass it on
            other.sendall(b"enough")
        # closed without having read the question: a reset
        found += list(itertools.islice(packets, 3))
        assert client.recv(6) == b"enough"
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    relay.stop()
    assert list(packets) == []
    assert delivered(found)[0] == {(0, 0): b"questionmore", (0, 1): b"enough"}
    assert [packet.data[33] for packet in found[3:]] == [0x18, 0x18, 0x18, 0x14]  # the last one resets


def test_connections_beyond_what_the_system_has_wait_until_others_end(server: socket.socket) -> None:
    """And the lack is reported once, not as often as it is seen."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as opened:
        run = opened.enter_context(passing(server.getsockname()))
        clients = [opened.enter_context(socket.socket()) for _ in range(3)]
        for each in clients:
            each.settimeout(TIMEOUT)
        first = opened.enter_context(run.client())
        first_served = opened.enter_context(accepted(server))
        free = os.dup(first.fileno())  # the lowest number that is left
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for each in clients:
            each.connect(run.relay.address)
        wait_for(lambda: run.said != [])
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        first.close()
        assert first_served.recv(1) == b""
        first_served.close()
        served = [opened.enter_context(accepted(server)) for _ in clients]
        for at, each in enumerate(clients):
            each.sendall(b"%d" % at)
        assert {each.recv(1) for each in served} == {b"0", b"1", b"2"}
    assert run.said == ["a connection was not accepted: too many open files"]


def test_a_sender_is_held_back_by_a_receiver_that_does_not_read(server: socket.socket) -> None:
    with passing(server.getsockname()) as run, run.client() as client, accepted(server) as other:
        sent, received = fill(client), 0
        while received < sent:
            received += len(other.recv(1 << 16))
        assert received == sent


def test_a_relay_without_a_reader_of_its_packets_holds_senders_back_too(server: socket.socket) -> None:
    relay = Relay(HERE, server.getsockname(), print)
    packets = relay.packets()
    with socket.create_connection(relay.address, 1) as client:
        handshake = [next(packets) for _ in range(3)]
        assert len(handshake) == 3
        with accepted(server):
            assert fill(client) > 0
    relay.stop()
    packets.close()  # type: ignore[attr-defined]


def test_connections_of_ipv6_have_packets_of_ipv6() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener, passing(("::1", listener.getsockname()[1])) as run, run.client() as client:
        with accepted(listener) as other:
            client.sendall(b"question")
            assert other.recv(8) == b"question"
        run.end()
        assert delivered(run.packets)[0] == {(0, 0): b"question"}
        assert run.packets[0].data[0] >> 4 == 6
