"""Define the state of an unsealer as plain values: all that decides what it makes of the events that come next.

No secret is in it: keys are named by the connection and the label of their secret, and by a mark of it. What was noted
of the places of records is not part of it.
"""

from typing import TypedDict

from dcpdump.net.stream_state import SeenState

#: Random, label, mark, generation, suite, rank and turn of a key.
KeyState = tuple[bytes, str, bytes, int, int, int, int]
#: What the keys of TLS 1.2 are made of beside the secret: the version, both randoms, whether it is the server's key,
#: and whether the MAC is outside.
BasisState = tuple[int, bytes, bool, bool]
#: A record: its offset, head, body, holes, packet, and whether the input ends in it.
SealedState = tuple[int, bytes, bytes, list[tuple[int, int]], SeenState, bool]
#: The end of a direction: its offset, reason, packet, the time of a reset, and whether the peer made it.
EndState = tuple[int, str, SeenState, int | None, bool]
#: Text: its offset, its bytes, the packet, and whether the direction was joined late.
TextState = tuple[int, bytes, SeenState, bool]
#: What is a number or a word of a part: its name and its value.
PlainState = dict[str, int | str | None]


class CutterState(TypedDict):
    """What a cutter of records holds. Offsets are of its direction."""

    offset: int  #: of the first byte of the data
    data: bytes
    holes: list[tuple[int, int]]  #: in the data
    marks: list[tuple[int, SeenState]]  #: the packet that brought the bytes up to an offset
    tried: int  #: where the search continues, in the data
    final: bool
    searching: bool
    skipped: int
    chained: int


class JoiningState(TypedDict):
    """How far the search of a secret and a number has come."""

    records: int
    attempts: int
    left: int
    slow_left: int
    shortest: int
    reach: int
    tried: int
    growth: int
    nonce: int
    rests: int
    lengths: list[int]
    version: int


class SideState(TypedDict):
    """One direction."""

    plain: PlainState
    cutter: CutterState
    joining: JoiningState
    messages: tuple[bytes, int]  #: what is held of a message, and what is passed by of one
    key: KeyState | None
    basis: BasisState | None  #: of the key, of TLS 1.2 and before
    before: bytes  #: the last block of the record before, of CBC in TLS 1.0
    early: list[TextState] | None
    queue: list[tuple[int, SealedState | None, EndState | None]]  #: with their serial numbers


class TermsState(TypedDict):
    """What the hellos of a handshake say."""

    client: tuple[bytes, bytes, bytes, bool, str] | None
    server: tuple[bytes, bytes, int, int, bool] | None
    turn: int
    tickets: list[bytes]


class PartiesState(TypedDict):
    """Who the two sides are, and what they agreed."""

    terms: TermsState
    guessed: bool
    early: bool | None
    server_name: str
    changed: bool
    randoms: dict[bytes, bytes]
    roles: list[int | None]
    key: KeyState | None


class UnsealerState(TypedDict):
    """One connection."""

    parties: PartiesState
    sides: list[SideState | None]
    serial: int
    growth: int
    late: bool
    final: bool
    too_late: int


class SecretsState(TypedDict):
    """What the connections so far say of the secrets of a run; the secrets themselves are not in it."""

    claimed: list[bytes]  #: client randoms of connections of the capture
    last: bytes  #: the last of them with secrets
    sessions: dict[bytes, bytes]  #: ids and tickets → the client random of the connection that made them
    budget: int  #: record numbers that the run may still try
