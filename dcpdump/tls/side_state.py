"""Save one direction of a TLS connection as plain values, and restore it."""

from typing import Final

from dcpdump.net.event import Bytes, End, Seen
from dcpdump.tls.handshake import HandshakeMessages
from dcpdump.tls.keyring import Key, Keyring
from dcpdump.tls.record_cutter import Sealed
from dcpdump.tls.side import Queued, Side
from dcpdump.tls.suites import KeyBasis
from dcpdump.tls.unsealer_state import EndState, SealedState, SideState

#: What of a direction is a number or a word.
_PLAIN: Final = (
    *("assumed", "ccs", "closed", "encrypted", "end", "ended", "failures", "given", "joined_at", "late", "lost"),
    *("lost_records", "number", "offset", "opened", "padded", "passed", "patient", "protected", "queued", "reason"),
    *("since", "tls", "tries", "turning", "unknown", "unopened"),
)


def side_state(side: Side) -> SideState:
    """Return all that decides what a direction makes of its next records."""
    opener, early = side.opener, side.early
    return {
        "plain": {name: getattr(side, name) for name in _PLAIN},
        "cutter": side.cutter.state(),
        "joining": side.joining.state(),
        "messages": (side.messages.held, side.messages.passing),
        "key": None if side.key is None else (*side.key,),
        "basis": None if opener is None or opener.basis is None else (*opener.basis,),
        "before": b"" if opener is None else opener.before,
        "early": None if early is None else [(e.offset, e.data, (*e.seen,), e.joined_late) for e in early],
        "queue": [_queued(each) for each in side.queue],
    }


def restore_side(side: Side, state: SideState, ring: Keyring) -> None:
    """Restore a direction, with the keys that its connection makes of the secrets."""
    for name, value in state["plain"].items():
        setattr(side, name, value)
    side.cutter.restore(state["cutter"])
    side.joining.restore(state["joining"])
    side.messages = HandshakeMessages(*state["messages"])
    key, basis, early = state["key"], state["basis"], state["early"]
    if key is not None:
        side.key = Key(*key)
        side.opener = ring.make(side.key, None if basis is None else KeyBasis(*basis))
        side.opener.before = state["before"]
    if early is not None:
        side.early = [Bytes(offset, data, Seen(*seen), late) for offset, data, seen, late in early]
    for serial, sealed, end in state["queue"]:
        if sealed is not None:
            side.queue.append(Queued(serial, _sealed(sealed)))
        elif end is not None:
            offset, reason, seen, reset_ns, by_peer = end
            side.queue.append(Queued(serial, End(offset, reason, Seen(*seen), reset_ns, by_peer)))


def _queued(each: Queued) -> tuple[int, SealedState | None, EndState | None]:
    serial, item = each
    if isinstance(item, End):
        return serial, None, (item.offset, item.reason, (*item.seen,), item.reset_ns, item.by_peer)
    return serial, (item.offset, item.head, item.body, list(item.holes), (*item.seen,), item.cut), None


def _sealed(state: SealedState) -> Sealed:
    offset, head, body, holes, seen, cut = state
    return Sealed(offset, head, body, tuple((start, end) for start, end in holes), Seen(*seen), cut)
