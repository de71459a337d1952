"""Pass the bytes of TCP connections on, unchanged, and yield packets as if they had been captured on the way.

A single thread relays: while the caller does not take packets, no socket is read, and TCP slows the senders down. A
direction ends towards the receiver as it ended: by FIN or by RST. Needs no rights.
"""

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from struct import pack

from dcpdump.errors import LiveError, system_words
from dcpdump.net.endpoints import Endpoint
from dcpdump.net.ip import CHECKSUM_AT, IPV4_CHECKSUM_AT, mend_checksum, pseudo_header
from dcpdump.net.packet import Packet
from dcpdump.net.tcp import ACK, FIN, PSH, RST, SYN

# -- TCP packets of bytes that were passed on, as they would look on a wire ---------------------------

#: LINKTYPE_RAW: packets that begin with their IP header.
_RAW_IP = 101
#: The most bytes of a packet's payload; with its headers an IPv4 packet has at most 65,535.
_MOST = 64_000
_TCP = 6
_WINDOW = 65_535
_ISN = (1_000, 2_000_000_000)  #: the first sequence numbers of the two directions


class MadeConnection:
    """A maker of the packets of one connection. Direction 0 is that of the end that opened it.

    ``src`` and ``dst``: address and port of the two ends; where one is of IPv6, the other is mapped to it.
    """

    def __init__(self, src: tuple[str, int], dst: tuple[str, int]) -> None:
        addresses = [ip_address(end[0].partition("%")[0]) for end in (src, dst)]
        if any(each.version == 6 for each in addresses):
            addresses = [ip_address(f"::ffff:{each}") if each.version == 4 else each for each in addresses]
        self._ends = [each.packed for each in addresses]
        self._ports = [src[1], dst[1]]
        self._next = list(_ISN)  #: by direction: the sequence number of its next byte

    def opened(self, number: int) -> list[Packet]:
        """Return the three packets of the handshake, numbered from ``number`` on."""
        flags = ((0, SYN), (1, SYN | ACK), (0, ACK))
        return [self._packet(number + at, direction, kind) for at, (direction, kind) in enumerate(flags)]

    def data(self, number: int, direction: int, data: bytes) -> Packet:
        """Return a packet with at most ``_MOST`` bytes of data."""
        return self._packet(number, direction, PSH | ACK, data)

    def ended(self, number: int, direction: int) -> Packet:
        """Return the packet by which a direction ends."""
        return self._packet(number, direction, FIN | ACK)

    def reset(self, number: int, direction: int) -> Packet:
        """Return the packet by which an end resets the connection."""
        return self._packet(number, direction, RST | ACK)

    def _packet(self, number: int, direction: int, flags: int, data: bytes = b"") -> Packet:
        src, dst = self._ends[direction], self._ends[1 - direction]
        ports = self._ports[direction], self._ports[1 - direction]
        answered = self._next[1 - direction] if flags & ACK else 0
        head = pack(">HHIIBBHHH", *ports, self._next[direction], answered, 5 << 4, flags, _WINDOW, 0, 0)
        segment = bytearray(head + data)
        mend_checksum(pseudo_header(src + dst, _TCP, len(segment)), segment, CHECKSUM_AT[_TCP])
        length = len(data) + bool(flags & (SYN | FIN))
        self._next[direction] = (self._next[direction] + length) & 0xFFFFFFFF
        packet = _ip_header(src, dst, len(segment)) + bytes(segment)
        return Packet(number, time.time_ns(), _RAW_IP, packet, len(packet))


def _ip_header(src: bytes, dst: bytes, length: int) -> bytes:
    if len(src) == 16:
        return pack(">IHBB", 6 << 28, length, _TCP, 64) + src + dst
    head = bytearray(pack(">BBHIBBH", 0x45, 0, 20 + length, 0x4000, 64, _TCP, 0) + src + dst)
    mend_checksum(b"", head, IPV4_CHECKSUM_AT)
    return bytes(head)


#: The most bytes of one direction that wait for a slow receiver.
_WAITING = 256 * 1024
#: Seconds after which a relay without free descriptors accepts again, unless a connection ended before.
_PAUSE_S = 1.0
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_ABORT = pack("ii", 1, 0)  #: SO_LINGER: close() resets

Address = tuple[str, int]


class Relay:
    """A relay from one address to another. ``report`` is called with messages for the user. Raises LiveError."""

    def __init__(self, listen: Address, target: Address, report: Callable[[str], None]) -> None:
        self._report = report
        self._targets = _resolved(target)
        self._listener = _listening(listen)
        if self._listener.getsockname()[:2] in self._targets:
            self._listener.close()
            raise LiveError("the relay would connect to itself", str(Endpoint(*target)), "--listen takes another port")
        self._selector = selectors.DefaultSelector()
        self._waking, self._waker = socket.socketpair()
        self._stopped = False
        self._accepts = True  #: False: the system has no descriptor for one more connection
        self._exhausted = False  #: the lack was reported, and no connection was accepted since
        self._packets = 0
        self._pairs: set[_Pair] = set()
        self.connections = 0
        self.bytes = 0  #: bytes passed on, of both directions

    @property
    def address(self) -> Address:
        """Return the address on which it listens."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def stop(self) -> None:
        """End the packets and all connections. May be called from anywhere, and more than once."""
        self._stopped = True
        with suppress(OSError):
            self._waker.send(b"\0")

    def packets(self) -> Iterator[Packet]:
        """Relay, and yield packets, until ``stop``."""
        self._selector.register(self._listener, _READ)
        self._selector.register(self._waking, _READ)
        try:
            while not self._stopped:
                ready = self._selector.select(None if self._accepts else _PAUSE_S)
                if not ready:
                    self._accept_again()
                for key, events in ready:
                    if key.fileobj is self._listener:
                        yield from self._accept()
                    elif key.data is not None and not key.data.over:
                        yield from key.data.handle(key.fileobj, events)
        finally:
            for pair in list(self._pairs):
                pair.close()
            for each in (self._listener, self._waking, self._waker, self._selector):
                each.close()

    def _accept(self) -> Iterator[Packet]:
        try:
            client, address = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client has closed it already
        except OSError as error:
            self.exhausted(error)
            return
        pair = _Pair(self, client, address[:2], list(self._targets))
        self._pairs.add(pair)
        yield from pair.connect()

    def _accept_again(self) -> None:
        if not self._accepts:
            self._accepts = True
            self._selector.register(self._listener, _READ)

    # -- what connections use ---------------------------------------------------------------------------

    def watch(self, sock: socket.socket, events: int, pair: "_Pair") -> None:
        """Have a connection handle the events of a socket; 0: none."""
        if sock.fileno() < 0:
            return  # closing it has unregistered it
        known = sock in self._selector.get_map()
        if not events:
            if known:
                self._selector.unregister(sock)
        elif known:
            self._selector.modify(sock, events, pair)
        else:
            self._selector.register(sock, events, pair)

    def forget(self, pair: "_Pair") -> None:
        """Forget a connection that has ended."""
        self._pairs.discard(pair)
        if not self._stopped:
            self._accept_again()

    def exhausted(self, error: OSError) -> None:
        """Accept no connection for now: the system has no socket for it. Report it once."""
        if self._accepts:
            self._accepts = False
            self._selector.unregister(self._listener)
        if not self._exhausted:
            self._exhausted = True
            self._report(f"a connection was not accepted: {system_words(error)}")

    def connected(self) -> None:
        """Count a connection to the target."""
        self.connections += 1
        self._exhausted = False

    def number(self, packets: int = 1) -> int:
        """Reserve numbers for ``packets``, and return the first."""
        self._packets += packets
        return self._packets - packets + 1

    def refused(self, target: Address, error: OSError) -> None:
        """Report that the target does not accept a connection."""
        self._report(f"{Endpoint(*target)} does not accept a connection: {system_words(error)}")


class _Pair:
    """A client's connection (socket 0), and the connection to the target for it (socket 1)."""

    def __init__(self, relay: Relay, client: socket.socket, address: Address, targets: list[Address]) -> None:
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._relay, self._address, self._targets = relay, address, targets
        self._target = targets[0]
        self._sockets = [client]
        self._made: MadeConnection | None = None  #: None: the target has not accepted yet
        self._waiting = [bytearray(), bytearray()]  #: bytes from each socket that wait for the other
        self._ended = [False, False]  #: whether each socket's sender has ended
        self._shut = [False, False]  #: whether that end was passed on
        self.over = False

    def connect(self) -> Iterator[Packet]:
        """Begin to connect to the next address of the target."""
        target = self._target = self._targets.pop(0)
        family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
        try:
            server = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self.close()
            self._relay.exhausted(error)
            return
        server.setblocking(False)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets[1:] = [server]
        try:
            server.connect(target)
        except BlockingIOError:
            pass
        except OSError as error:
            yield from self._connected(error)
            return
        self._relay.watch(server, _WRITE, self)

    def handle(self, sock: object, events: int) -> Iterator[Packet]:
        """Handle the events of a socket."""
        which = self._sockets.index(sock)  # type: ignore[arg-type]
        if self._made is None:
            number = self._sockets[1].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            yield from self._connected(OSError(number, os.strerror(number)) if number else None)
            return
        if events & _WRITE:
            yield from self._send(1 - which)
        if events & _READ and not self.over:
            yield from self._receive(which)
        if not self.over:
            self._watch()

    def _connected(self, error: OSError | None) -> Iterator[Packet]:
        server = self._sockets[1]
        if error is not None:
            self._relay.watch(server, 0, self)
            server.close()
            if self._targets:
                yield from self.connect()
                return
            self._relay.refused(self._target, error)
            self.close()
            return
        self._made = MadeConnection(self._address, server.getpeername()[:2])
        self._relay.connected()
        yield from self._made.opened(self._relay.number(3))
        self._watch()

    def _receive(self, which: int) -> Iterator[Packet]:
        assert self._made is not None
        try:
            data = self._sockets[which].recv(_MOST)
        except BlockingIOError:
            return
        except OSError:
            yield from self._reset(which)
            return
        if data:
            packet = self._kept(which, data)
        else:
            self._ended[which] = True
            packet = self._made.ended(self._relay.number(), which)
        then = list(self._send(which))  # sent before the packet is yielded: it must not wait for the caller
        yield packet
        yield from then

    def _kept(self, which: int, data: bytes) -> Packet:
        """Queue bytes of a sender for the other end, and return their packet."""
        assert self._made is not None
        self._waiting[which] += data
        self._relay.bytes += len(data)
        return self._made.data(self._relay.number(), which, data)

    def _send(self, which: int) -> Iterator[Packet]:
        """Send the queued bytes of one sender to the other end, then its FIN."""
        waiting, sink = self._waiting[which], self._sockets[1 - which]
        try:
            if waiting:
                del waiting[: sink.send(waiting)]
            if self._ended[which] and not waiting and not self._shut[which]:
                self._shut[which] = True
                sink.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            yield from self._reset(1 - which)
            return
        if all(self._shut):
            self.close()

    def _reset(self, which: int) -> Iterator[Packet]:
        """Reset the connection of the other end, since this one reset its own."""
        assert self._made is not None
        if not self.over:
            other = self._sockets[1 - which]
            yield from self._drain(which)
            with suppress(OSError):
                other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            self.close()
            yield self._made.reset(self._relay.number(), which)

    def _drain(self, which: int) -> Iterator[Packet]:
        """Pass on the unread bytes that an end sent before it reset the connection."""
        with suppress(OSError):
            while data := self._sockets[which].recv(_MOST):
                yield self._kept(which, data)
        with suppress(OSError):
            self._sockets[1 - which].send(self._waiting[which])

    def _watch(self) -> None:
        if self.over:
            return
        for which, sock in enumerate(self._sockets):
            reads = not self._ended[which] and len(self._waiting[which]) < _WAITING
            writes = bool(self._waiting[1 - which])
            self._relay.watch(sock, _READ * reads | _WRITE * writes, self)

    def close(self) -> None:
        """Close both sockets."""
        self.over = True
        for sock in self._sockets:
            self._relay.watch(sock, 0, self)
            sock.close()
        self._relay.forget(self)


def _resolved(target: Address) -> list[Address]:
    try:
        found = socket.getaddrinfo(*target, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # as Python encodes names
        raise LiveError("no such host: no host can have this name", str(Endpoint(*target))) from error
    except OSError as error:
        raise LiveError(f"no such host: {system_words(error)}", str(Endpoint(*target))) from error
    return [(str(each[4][0]), int(each[4][1])) for each in found]


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        listener = socket.create_server(address, family=family)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error).lower()
        raise LiveError(
            f"cannot listen: {why}", str(Endpoint(*address)), "--listen takes another port, or 0 for any"
        ) from error
    listener.setblocking(False)
    return listener
