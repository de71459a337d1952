"""Decide by proof which key and which number open a record.

A record that does not open under the key at hand is tried under those that may follow, so that the ends of handshakes,
updates of keys and new handshakes need no message to be understood, and may be lost.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from dcpdump.net.event import Event
from dcpdump.tls import sealing as why
from dcpdump.tls.keyring import APPLICATION, HANDSHAKE, Key, Keyring
from dcpdump.tls.record_cutter import HEAD, Sealed
from dcpdump.tls.secrets import CLIENT_RANDOM
from dcpdump.tls.side import Side

#: Records at the beginning of a direction that may stay closed: with all keys there, and with those of the handshake
#: missing.
_FAILURES: Final = 4
_FLIGHT: Final = 64
#: Records in a row that do not open before their numbers are searched.
_DAMAGED: Final = 4
#: Numbers that are searched behind a loss of unknown length.
_UNKNOWN: Final = 1 << 20
#: What trying a number costs, where many cannot be tried at once.
_SLOW: Final = 100


class OpenedRecord(NamedTuple):
    """The type and the text of a record."""

    kind: int
    text: bytes


class Opening:
    """Opens the records of both sides of a connection."""

    __slots__ = ("_ring",)

    def __init__(self, ring: Keyring) -> None:
        self._ring = ring

    def open(self, side: Side, role: int, sealed: Sealed, out: list[Event]) -> OpenedRecord | None:
        """Open a record; where that cannot be, count it, give what is there of it, and return None."""
        if side.passed and side.opener is None and not side.failures:
            side.lost = True
        if side.lost or side.unknown:
            return self._find_again(side, role, sealed, out)
        if sealed.holes:
            if side.opener is None:
                side.lost = True
                side.pass_by(sealed)
            else:
                side.hurt(sealed, out)
            return None
        opened = self._in_step(side, role, sealed)
        if opened is None:
            if side.assumed and not side.failures:
                side.lost = True
                side.end = sealed.offset
                return self._find_again(side, role, sealed, out)
            self._unopened(side, role, sealed, out)
        return opened

    def _in_step(self, side: Side, role: int, sealed: Sealed) -> OpenedRecord | None:
        _, head, body = sealed[:3]
        if side.opener is not None and side.key is not None:
            found = side.opener.open(side.number, head, body)
            if found is not None:
                side.proven(side.key, side.opener, side.number)
                return OpenedRecord(*found)
        for key in self._ring.after(side.key, role):
            opener = self._ring.opener(key, role)
            found = opener.open(0, head, body)
            if found is not None:
                side.proven(key, opener, 0)
                return OpenedRecord(*found)
        return None

    def _unopened(self, side: Side, role: int, sealed: Sealed, out: list[Event]) -> None:
        """Decide what a record is that is whole, in step, and does not open."""
        key, ring = side.key, self._ring
        if key is not None and key.rank == APPLICATION:
            if side.turning:
                side.failures += 1
                side.pass_by(sealed)
                if next(ring.after(key, role), None) is None:
                    side.closed = why.NO_SECRET
                elif side.failures >= _FAILURES:
                    side.closed = why.NO_FIT
            elif side.failures < _DAMAGED:
                side.damaged(sealed, out)
            else:
                side.lost = True
                side.pass_by(sealed)
            return
        side.failures += 1
        side.unopened += sealed.there
        side.pass_by(sealed)
        keys = list(ring.after(None, role))
        ranks = {each.rank for each in keys}
        client = ring.terms.client
        flight = HANDSHAKE not in ranks or (client is not None and client.early)
        most = _FLIGHT if flight and keys[0].label != CLIENT_RANDOM else _FAILURES
        if APPLICATION not in ranks and key is not None:
            side.closed = why.NO_SECRET
        elif side.failures >= most:
            side.closed = why.NO_FIT

    def _find_again(self, side: Side, role: int, sealed: Sealed, out: list[Event]) -> OpenedRecord | None:
        """Search the number of a record behind a loss; a record in a row of failures only now and then."""
        if sealed.holes or not self._is_due(side):
            side.pass_by(sealed)
            return None
        for key, first, stop in self._ranges(side, role, sealed):
            from dcpdump.tls.openers import find_number, is_fast

            opener = self._ring.opener(key, role) if key != side.key or side.opener is None else side.opener
            cost = (stop - first) * (1 if is_fast(opener) else _SLOW)
            if stop - first > _FLIGHT and not side.joining.spend(cost, fast=True):
                continue
            found = find_number(opener, sealed.head, sealed.body, first, stop)
            if found is not None:
                side.found_again(sealed, key, found[0], out)
                side.proven(key, opener, found[0])
                return OpenedRecord(*found[1])
        side.pass_by(sealed)
        return None

    def _is_due(self, side: Side) -> bool:
        side.tries += 1
        return not side.tries & (side.tries - 1)

    def _ranges(self, side: Side, role: int, sealed: Sealed) -> Iterator[tuple[Key, int, int]]:
        """Yield keys, and which numbers a record may have under them."""
        key, opener = side.key, side.opener
        missing = sealed.offset - side.end if side.end is not None else 0
        least = HEAD + (opener.overhead if opener is not None else 17)
        most = missing // least + (_UNKNOWN if side.unknown else 0)
        if key is not None and opener is not None:
            fewest = 0 if side.unknown else missing // (HEAD + (1 << 14) + 2_048)
            yield key, max(side.number - side.assumed + fewest, 0), side.number + most + 1
        fresh = most + side.assumed + side.passed + 1
        for each in self._ring.after(key, role):
            yield each, 0, fresh
            if key is not None and each.generation > key.generation:
                yield each._replace(generation=each.generation + 1), 0, fresh
