"""Gather structs at any offsets of bytes as arrays, find distinct values, and read the headers of many packets."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcpdump.net.batch import Batch
from dcpdump.net.tcp import PROTOCOL
from dcpdump.startup import dataclass

Array = NDArray[Any]


def overlapping(data: Array, dtype: np.dtype[Any]) -> Array:
    """View bytes as structs, one starting at every byte: index the view with offsets to gather structs."""
    count = max(0, len(data) - dtype.itemsize + 1)
    records: Array = np.ndarray((count,), dtype, data, strides=(1,))
    return records


def records_at(data: Array, dtype: np.dtype[Any], at: Array) -> Array:
    """Return the structs of a type at some offsets in bytes.

    They are gathered as bytes: NumPy copies those at once, and fields one by one.
    """
    gathered = overlapping(data, np.dtype((np.void, dtype.itemsize)))[at]
    return gathered.view(dtype)


def distinct(values: Array) -> tuple[Array, Array, Array]:
    """Return the distinct values, sorted; the first index of each; and for every value, its index among the distinct.

    Like ``numpy.unique``, but faster where values are few or small, as they mostly are.
    """
    if not len(values):
        return values, np.zeros(0, np.int64), np.zeros(0, np.int64)
    if (values == values[0]).all():
        return values[:1], np.zeros(1, np.int64), np.zeros(len(values), np.int64)
    if values.dtype.kind == "u" and values.dtype.itemsize == 1:
        first = np.full(256, -1, np.int64)
        first[values[::-1]] = np.arange(len(values) - 1, -1, -1)
        met = np.flatnonzero(first >= 0)
        number = np.zeros(256, np.int64)
        number[met] = np.arange(len(met))
        return met.astype(values.dtype), first[met], number[values]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    steps = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    which = np.empty(len(values), np.int64)
    which[order] = np.cumsum(steps) - 1
    return ordered[steps], order[steps], which


# -- flows, sequence numbers and payloads of packets, as columns --------------------------------------
# Only plain packets are read here: Ethernet, Linux cooked or raw IP, IPv4 without options or IPv6 without extensions,
# not fragmented, captured completely. Any other is left to ``net``.

_IPV4_TCP = np.dtype(
    [
        ("version", "u1"),
        ("service", "u1"),
        ("length", ">u2"),
        ("ident", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("key", "V12"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("header", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
    ]
)
_IPV6_TCP = np.dtype(
    [
        ("version", ">u4"),
        ("length", ">u2"),
        ("protocol", "u1"),
        ("hops", "u1"),
        ("key", "V36"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("header", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
    ]
)
_U16 = np.dtype(">u2")
_FRAGMENT = 0x3FFF
_LEAST_HEADER = 5 << 4  #: the byte with the length of a TCP header of 20 bytes
#: link type → the offsets of the ethertype (none: IP at once), and of IP
_LINKS: dict[int, tuple[int | None, int]] = {
    1: (12, 14),
    113: (14, 16),
    276: (0, 20),
    14: (None, 0),
    101: (None, 0),
}


@dataclass(frozen=True, slots=True)
class Facts:
    """The segment of each packet, as columns; valid where ``flow`` is not negative. The others are not plain."""

    flow: Array
    keys: list[bytes]  #: by flow: both addresses and ports, as in the headers
    seq: Array
    ack: Array
    flags: Array
    start: Array  #: of the payload, in the block's data
    size: Array  #: of the payload


def facts_of(batch: Batch) -> Facts:
    """Read the headers of all packets of a batch."""
    starts, ends, links = (np.array(column, np.int64) for column in (batch.starts, batch.ends, batch.links))
    data = np.frombuffer(batch.data, np.uint8)
    count = len(starts)
    found = Facts(np.full(count, -1, np.int64), [], *(np.zeros(count, kind) for kind in _KINDS))
    flows: dict[bytes, int] = {}
    for link in distinct(links)[0]:
        if int(link) not in _LINKS:
            continue
        mine = np.flatnonzero(links == link)
        for dtype, rows, at in _datagrams(data, starts, ends, mine, *_LINKS[int(link)]):
            _segments(found, flows, ends, records_at(data, dtype, at), rows, at)
    found.keys.extend(flows)
    return found


_KINDS = (np.int64, np.int64, np.uint8, np.int64, np.int64)


def _datagrams(
    data: Array, starts: Array, ends: Array, rows: Array, ethertype_at: int | None, ip_at: int
) -> Iterator[tuple[np.dtype[Any], Array, Array]]:
    """Yield, for IPv4 and for IPv6, the rows of packets with complete IP and TCP headers, and the offsets of IP."""
    at = starts[rows] + ip_at
    for dtype, ethertype, nibble in ((_IPV4_TCP, 0x0800, 4), (_IPV6_TCP, 0x86DD, 6)):
        room = np.flatnonzero(at + dtype.itemsize <= ends[rows])
        if not len(room):
            continue
        if ethertype_at is None:
            fits = data[at[room]] >> 4 == nibble
        else:
            fits = records_at(data, _U16, starts[rows[room]] + ethertype_at) == ethertype
        mine = room[fits]
        if len(mine):
            yield dtype, rows[mine], at[mine]


def _segments(found: Facts, flows: dict[bytes, int], ends: Array, head: Array, rows: Array, at: Array) -> None:
    """Add the plain segments of datagrams of one IP version to ``found``."""
    length = head["length"].astype(np.int64)
    payload = at + (head["header"] >> 4).astype(np.int64) * 4
    if head.dtype is _IPV4_TCP:
        plain = (head["version"] == 0x45) & (head["fragment"] & _FRAGMENT == 0)
        payload += 20
        stop = at + length
    else:
        plain = (head["version"] >> 28 == 6) & (length > 0)
        payload += 40
        stop = at + 40 + length
    plain &= (head["protocol"] == PROTOCOL) & (head["header"] >= _LEAST_HEADER)
    plain &= (payload <= stop) & (stop <= ends[rows])
    good = np.flatnonzero(plain)
    if not len(good):
        return
    rows, head = rows[good], head[good]
    found.flow[rows] = _numbered(np.ascontiguousarray(head["key"]), flows)
    for column, name in ((found.seq, "seq"), (found.ack, "ack"), (found.flags, "flags")):
        column[rows] = head[name]
    found.start[rows] = payload[good]
    found.size[rows] = (stop - payload)[good]


def _numbered(keys: Array, flows: dict[bytes, int]) -> Array:
    """Return each key's flow number. Keys are compared by a checksum, and the result is verified."""
    words = keys.view(np.uint32).reshape(len(keys), -1)
    sums = words.astype(np.uint64) @ _WEIGHTS[: words.shape[1]]
    _, first, which = distinct(sums)
    if not (words == words[first][which]).all():
        return np.array([flows.setdefault(key, len(flows)) for key in keys.tolist()], np.int64)
    order = np.argsort(first)  # flows are numbered in the order seen
    numbers = np.empty(len(first), np.int64)
    numbers[order] = [flows.setdefault(key, len(flows)) for key in keys[first[order]].tolist()]
    return numbers[which]


_WEIGHTS = np.array([pow(0x9E3779B97F4A7C15, power, 1 << 64) for power in range(1, 10)], np.uint64)
