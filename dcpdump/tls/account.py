"""Report what became of a TLS connection, and why it stays closed where it does."""

from collections.abc import Sequence

from dcpdump.tls import sealing as why
from dcpdump.tls.handshake import TLS_1_3
from dcpdump.tls.keyring import APPLICATION
from dcpdump.tls.parties import Parties
from dcpdump.tls.sealing import VERSIONS, Sealing
from dcpdump.tls.secrets import CLIENT_RANDOM, CLIENT_TRAFFIC, SERVER_TRAFFIC, Secrets
from dcpdump.tls.side import Side
from dcpdump.tls.suites import SUITES, name_of


def describe(parties: Parties, sides: Sequence[Side], secrets: Secrets, too_late: int) -> Sealing:
    """Return what is known of a connection, of whose ``sides`` anything was captured."""
    server = parties.terms.server
    version = server.version if server else max((side.joining.version for side in sides), default=0)
    suite = name_of(server.suite) if server else ""
    for side in sides:
        if side.key is not None and server is None:
            version = TLS_1_3 if side.key.label != CLIENT_RANDOM else version
            suite = SUITES[side.key.suite].name
    reason = _why(parties, sides, secrets, too_late)
    closed = next((side for side in sides if side.closed or (side.encrypted and not side.opened)), None)
    direction = closed.direction if closed is not None and any(side.opened for side in sides) else None
    return Sealing(
        VERSIONS.get(version, "TLS"),
        suite,
        parties.server_name,
        sum(side.given for side in sides),
        sum(side.encrypted for side in sides),
        sum(side.lost_records for side in sides),
        reason,
        direction is not None and parties.role(direction) == 1,
        next((side.joined_at for side in sides if side.joined_at is not None), None),
        len(secrets),
        secrets.logs,
        max((side.failures or side.joining.tried for side in sides), default=0),
        max((side.joining.reach for side in sides), default=0),
        too_late,
        tuple(parties.randoms.items()),
    )


def _why(parties: Parties, sides: Sequence[Side], secrets: Secrets, too_late: int) -> str:
    """Return why something stays closed; empty where nothing does."""
    if not any(side.encrypted for side in sides):
        return ""
    if too_late and any(parties.ring.has(role) for role in (0, 1)):
        return why.TOO_LATE
    closed = next((side.closed for side in sides if side.closed), "")
    if any(side.opened for side in sides):
        if closed == why.NO_SECRET and all(side.key is None or side.key.rank != APPLICATION for side in sides):
            return why.HANDSHAKE
        if closed in (why.NO_SECRET, why.NO_FIT):
            return why.ONE_DIRECTION if closed == why.NO_SECRET else closed
        if not any(side.encrypted and not side.opened for side in sides):
            return ""
        return why.NOT_FOUND if _has_both(sides, secrets) else why.ONE_DIRECTION
    if closed in (why.SUITE, why.VERSION):
        return closed
    if not len(secrets):
        return why.NO_SECRETS
    if closed:
        return closed
    if parties.greeted:
        return why.NO_SECRET
    traffic = any(side.joining.tried for side in sides) and any(side.joining.spent for side in sides)
    old = any(0 < side.joining.version < TLS_1_3 for side in sides)
    return why.LATE if old or not traffic else why.NOT_FOUND


def _has_both(sides: Sequence[Side], secrets: Secrets) -> bool:
    """Return whether of a connection that was joined late there are the secrets of both directions."""
    random = next((side.key.random for side in sides if side.joined_at is not None and side.key is not None), b"")
    return all(secrets.of(random, label) for label in (CLIENT_TRAFFIC, SERVER_TRAFFIC))
