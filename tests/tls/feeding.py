"""Feeding: the bytes of a TLS connection given to an Unsealer, cut, lost and joined as a test wants."""

from collections.abc import Iterable

from dcpdump.net.event import Bytes, End, Event, Gap, Seen
from dcpdump.tls.secrets import Secrets
from dcpdump.tls.unsealer import Unsealer


def secrets_of(keylog: bytes, *, growing: bool = False) -> Secrets:
    """Make the secrets of a key log."""
    secrets = Secrets()
    secrets.feed(keylog)
    secrets.growing = growing
    return secrets


def feed(
    unsealer: Unsealer,
    flights: Iterable[tuple[int, bytes | int]],
    *,
    size: int = 0,
    late: bool = False,
    ends: tuple[int, ...] = (0, 1),
    how: str = "end",
    offsets: list[int] | None = None,
) -> list[tuple[int, Event]]:
    """Feed all bytes, in segments of at most ``size``, then the ends of directions in turn; no ends leave it open.

    A number stands for so many bytes that are lost. ``offsets`` are those at which it begins, and go on from call to
    call.
    """
    events: list[tuple[int, Event]] = []
    offsets, number = [0, 0] if offsets is None else offsets, 0
    for direction, data in flights:
        if isinstance(data, int):
            number += 1
            events += unsealer.feed(direction, Gap(offsets[direction], data, "lost-by-capture", Seen(number, number)))
            offsets[direction] += data
            continue
        step = size or len(data) or 1
        for at in range(0, len(data), step):
            number += 1
            piece = data[at : at + step]
            events += unsealer.feed(direction, Bytes(offsets[direction], piece, Seen(number, number * 1000), late))
            offsets[direction] += len(piece)
    for direction in ends:
        number += 1
        events += unsealer.feed(direction, End(offsets[direction], how, Seen(number, number * 1000)))
    return events + (unsealer.close() if ends else [])


def texts(events: Iterable[tuple[int, Event]]) -> list[bytes]:
    """Return the text of each direction, and check that offsets follow one another. A gap stands as zeros."""
    found = [b"", b""]
    for direction, event in events:
        assert event.offset == len(found[direction]), (direction, event, len(found[direction]))
        if isinstance(event, Bytes):
            found[direction] += event.data
        elif isinstance(event, Gap):
            found[direction] += bytes(event.length or 0)
    return found


def feed_direction(
    unsealer: Unsealer, direction: int, pieces: Iterable[bytes | int], *, late: bool = False
) -> list[Event]:
    """Feed one direction and its end, and return its events."""
    events = feed(unsealer, ((direction, piece) for piece in pieces), late=late, ends=(direction,))
    return [event for way, event in events if way == direction]
