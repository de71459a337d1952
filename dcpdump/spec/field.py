"""Define the vocabulary of the protocol table: Field, Blob, Repeat, FlatTable, Layout, Message.

Everything here is plain data, so that the decoder, the encoder, the printed tables, the column types, the filters and
the tests can all be derived from one entry. All integers are big-endian (network order) but for FlatTable, whose format
is little-endian by its own definition. Entries are compared by identity: the table holds each of them once.
"""

from collections.abc import Mapping
from datetime import datetime, timezone
from enum import Enum

from dcpdump.startup import dataclass, field


class Presence(Enum):
    """Whether a section of a message may hold bytes."""

    NEVER = "must be empty"
    MAY = "may be present"
    MUST = "must be present"


NEVER, MAY, MUST = Presence.NEVER, Presence.MAY, Presence.MUST


class Sender(Enum):
    """The sender of a DCP request: the producer, the consumer, or the cluster manager."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    EITHER = "either side"
    SERVER = "server"
    CLIENT = "client"
    MANAGER = "manager"


class Holds(Enum):
    """The class of a key's or value's data, in Couchbase's own log redaction."""

    NOTHING = "nothing to hide"
    USER = "user data"  #: documents, their keys and xattrs, user names
    BUCKET = "the name of a bucket"  #: also in names of connections, configurations, statistics
    META = "metadata"  #: names of collections, scopes, clients
    SYSTEM = "system data"  #: hosts and ports


#: When most messages of a stream get a response.
ON_ERROR = "only to report an error; otherwise the receiver does not reply"

PRODUCER, CONSUMER, EITHER = Sender.PRODUCER, Sender.CONSUMER, Sender.EITHER
SERVER, CLIENT, MANAGER = Sender.SERVER, Sender.CLIENT, Sender.MANAGER


@dataclass(frozen=True, slots=True, eq=False)
class EnumValue:
    """Names of the values of an enumeration."""

    names: Mapping[int, str]
    meanings: Mapping[int, str] = field(default_factory=dict)  #: meanings of values, in a few words
    otherwise: str = ""  #: the name of every other value

    def describe(self, value: int) -> tuple[str, ...]:
        """Return a tuple with the value's name; empty for a value without a name."""
        name = self.names.get(value, self.otherwise)
        return (name,) if name else ()

    def unknown(self, value: int) -> int:
        """Return the value if it has no name, else -1 (0 may be a value without a name)."""
        return -1 if value in self.names or self.otherwise else value


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """Names of the bits of a set of flags."""

    names: Mapping[int, str]
    meanings: Mapping[int, str] = field(default_factory=dict)  #: meanings of bits, in a few words
    old: int = 0  #: bits of old releases, refused today

    def describe(self, value: int) -> tuple[str, ...]:
        """Return the names of the bits that are set, lowest first; unnamed bits are left out."""
        return tuple(name for bit, name in self.names.items() if value & bit)

    def unknown(self, value: int) -> int:
        """Return the bits that have no name, or -1 where there are none."""
        rest = value & ~sum(self.names)
        return rest or -1


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A point in time, counted in units since 1970-01-01 UTC; 0 means none."""

    per_second: int = 1

    def describe(self, value: int) -> tuple[str, ...]:
        """Return a tuple with the time as ISO 8601; empty for 0 and for years beyond 9999."""
        seconds = value // self.per_second
        if not 0 < seconds < 253_402_300_800:  # the year 10000
            return ()
        return (datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),)

    def unknown(self, value: int) -> int:
        """Return -1: any number is a time."""
        return -1


@dataclass(frozen=True, slots=True, eq=False)
class ServerDuration:
    """A duration that servers compress into 16 bits: about value ** 1.74 / 2 microseconds."""

    def describe(self, value: int) -> tuple[str, ...]:
        """Return a tuple with the duration in microseconds."""
        return (f"{value**1.74 / 2:.0f} us",)

    def unknown(self, value: int) -> int:
        """Return -1: any number is a duration."""
        return -1


Names = EnumValue | Bits | Moment | ServerDuration


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """An unsigned big-endian integer of 1, 2, 4 or 8 bytes."""

    name: str  #: "by_seqno"
    label: str  #: the specification's words, for the printed table: "by seqno"
    width: int
    names: Names | None = None
    #: An identifier (a UUID, a CAS, a UID) rather than a quantity: JSON shows it as "0x…" text.
    identity: bool = False
    #: A sequence number: what ``--seqno`` filters by.
    seqno: bool = False
    #: Reserved: zero in every message that follows the specification.
    reserved: bool = False
    renamed: str = ""  #: its JSON key, where the name is used otherwise
    code: bool = False  #: it goes by its hexadecimal digits alone, as an opcode does

    @property
    def is_number(self) -> bool:
        """Return whether its values are read in decimals too: they have no names, and are no codes."""
        return self.names is None and not self.code

    @property
    def key(self) -> str:
        """Return its JSON key and column, which is also the beginning of the key of its names."""
        return self.renamed or self.name


@dataclass(frozen=True, slots=True, eq=False)
class Blob:
    """Bytes: as many as the field named by ``size`` gives, or the rest of the section."""

    name: str
    label: str
    size: str = ""
    holds: Holds = Holds.USER


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """The same fields repeated to the end of the section: failover-log entries, features, records.

    With one field an item is that field's value; with several, an object of them.
    """

    name: str
    fields: tuple[Field | Blob, ...]
    least: int = 0  #: the least number of items

    @property
    def width(self) -> int:
        """Return the fixed size of one item in bytes."""
        return sum(f.width for f in self.fields if isinstance(f, Field))


@dataclass(frozen=True, slots=True, eq=False)
class FlatTable:
    """A FlatBuffers root table (little-endian, no size prefix, no identifier). A Blob is a text."""

    fields: tuple[Field | Blob, ...]  #: by the number of their slot


Part = Field | Blob | Repeat | FlatTable


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """One layout of a message: its sections and their content.

    ``when`` distinguishes it from the message's other layouts by values of ``extras_length``, ``value_length``,
    ``status`` or an extras field. It is data and not a function because decoders, the printed specification, the test
    that no two layouts overlap and the test generators all read it.
    """

    version: str
    extras: tuple[Field, ...] = ()
    key: Presence = NEVER
    value: Presence | tuple[Part, ...] = NEVER
    tail: str = ""  #: name of the extras field with the size of metadata after the value ("nmeta")
    when: Mapping[str, int] = field(default_factory=dict)
    note: str = ""  #: who sends this layout and when, in a few words
    old: bool = False  #: sent by prototypes and previews only; refused today

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts of the value, if it has fields."""
        return self.value if isinstance(self.value, tuple) else ()

    @property
    def extras_length(self) -> int:
        """Return the length of the extras."""
        return sum(f.width for f in self.extras)

    @property
    def value_length(self) -> int | None:
        """Return the length of the value, or None if it varies."""
        if self.value is NEVER:
            return 0
        if isinstance(self.value, tuple) and all(isinstance(part, Field) for part in self.value):
            return sum(part.width for part in self.value if isinstance(part, Field))
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One opcode: its name, who sends it, and the layouts of its request and its response."""

    opcode: int
    name: str
    sender: Sender = CLIENT
    request: tuple[Layout, ...] = ()
    response: tuple[Layout, ...] = ()
    answered: str = ""  #: when a response is sent, in words
    replies: bool = True  #: a request gets a response also on success
    since: str = ""
    source: str = ""
    #: The key starts with a LEB128 collection id where the connection has collections.
    collection_key: bool = False
    #: The datatype byte describes the value: JSON, Snappy, XATTR.
    document: bool = False
    #: The value is a credential and is masked as soon as it is decoded.
    secret: bool = False
    #: It belongs to a stream and carries the stream's opaque.
    streamed: bool = False
    #: Where streams have ids, its request has the stream id in the framing extras.
    stream_id: bool = False
    key_holds: Holds = Holds.USER
    value_holds: Holds = Holds.USER
    #: Patterns of complete keys and values that are words of the protocol, and not data.
    key_words: str = ""
    value_words: str = ""
    key_prefixes: tuple[str, ...] = ()  #: words of the protocol with which a key may begin, before data
    #: The header's vbucket is used, though it is not a message of a stream.
    vbucket: bool = False
    #: The value is JSON text of the control plane, whatever the datatype byte says.
    json: bool = False
    rules: tuple[str, ...] = ()
    errors: tuple[tuple[int, str], ...] = ()
    #: Why the receiver closes the connection without a response.
    disconnects: tuple[str, ...] = ()

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Return the layouts of the request, then those of the response."""
        return self.request + self.response

    @property
    def known(self) -> bool:
        """Return whether it has layouts (else only its name is known)."""
        return bool(self.layouts)

    @property
    def dcp(self) -> bool:
        """Return whether it is one of DCP's own messages."""
        return self.name.startswith("DCP_")


def u8(name: str, label: str, names: Names | None = None, *, reserved: bool = False) -> Field:
    """Return a one-byte field."""
    return Field(name, label, 1, names, reserved=reserved)


def u16(name: str, label: str, names: Names | None = None) -> Field:
    """Return a two-byte field."""
    return Field(name, label, 2, names)


def u32(name: str, label: str, names: Names | None = None, *, reserved: bool = False) -> Field:
    """Return a four-byte field."""
    return Field(name, label, 4, names, reserved=reserved)


def u64(name: str, label: str, names: Names | None = None) -> Field:
    """Return an eight-byte quantity."""
    return Field(name, label, 8, names)


def seqno(name: str, label: str) -> Field:
    """Return an eight-byte sequence number."""
    return Field(name, label, 8, seqno=True)


def id64(name: str, label: str) -> Field:
    """Return an eight-byte identifier, shown as hexadecimal text where numbers would lose precision."""
    return Field(name, label, 8, identity=True)
