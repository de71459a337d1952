"""Define the 24-byte header: its six magics and the layouts that they choose.

Request and response differ at bytes 6,7 (vbucket against status); the classic and the flexible framing differ at bytes
2,3 (one two-byte key length against framing extras length and key length).
"""

from functools import cache
from typing import Final

from dcpdump.spec.field import Blob, Field, Holds, ServerDuration, id64, u8, u16, u32
from dcpdump.spec.names import DATATYPE, DURABILITY_LEVEL
from dcpdump.spec.opcodes import DCP_DELETION, DCP_EXPIRATION
from dcpdump.spec.statuses import EINVAL, NOT_SUPPORTED, STATUS
from dcpdump.startup import dataclass

HEADER_LENGTH: Final = 24
#: The magics, by the server's names.
CLIENT_REQUEST: Final = 0x80
CLIENT_RESPONSE: Final = 0x81
ALT_CLIENT_REQUEST: Final = 0x08
ALT_CLIENT_RESPONSE: Final = 0x18
SERVER_REQUEST: Final = 0x82
SERVER_RESPONSE: Final = 0x83
WORD_END: Final = 8  #: the end of the vbucket, or of the status
#: The server's max_packet_size: it closes a connection that announces a larger frame.
MAX_FRAME: Final = 30 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Magic:
    """The first byte of a frame, which determines the header's layout."""

    value: int
    name: str
    response: bool = False
    flexible: bool = False  #: bytes 2,3 are framing extras length and key length
    server: bool = False  #: opcodes are those of server messages

    @property
    def kind(self) -> str:
        """Return "request" or "response"."""
        return "response" if self.response else "request"


MAGICS: dict[int, Magic] = {
    magic.value: magic
    for magic in (
        Magic(CLIENT_REQUEST, "ClientRequest"),
        Magic(CLIENT_RESPONSE, "ClientResponse", response=True),
        Magic(ALT_CLIENT_REQUEST, "AltClientRequest", flexible=True),
        Magic(ALT_CLIENT_RESPONSE, "AltClientResponse", response=True, flexible=True),
        Magic(SERVER_REQUEST, "ServerRequest", server=True),
        Magic(SERVER_RESPONSE, "ServerResponse", response=True, server=True),
    )
}


@cache
def header_fields(magic: Magic) -> tuple[Field, ...]:
    """Return the header's fields, in order, as frames of this magic have them."""
    lengths: tuple[Field, ...] = (u16("key_length", "Key length"),)
    if magic.flexible:
        lengths = (u8("framing_length", "Framing extras length"), u8("key_length", "Key length"))
    return (
        Field("magic", "Magic", 1, code=True),
        Field("opcode", "Opcode", 1, code=True),
        *lengths,
        u8("extras_length", "Extra length"),
        u8("datatype", "Data type", DATATYPE),
        u16("status", "Status", STATUS) if magic.response else u16("vbucket", "Vbucket"),
        u32("body_length", "Total body"),
        u32("opaque", "Opaque"),
        id64("cas", "CAS"),
    )


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """One kind of frame info, an object in the framing extras.

    ``parts``: the fields of its data, end to end. ``lengths``: the legal sizes of the data; empty: any from ``least``
    on. ``dcp``: DCP's requests may have it (a stream id only where the entry allows it). ``refused``: the status with
    which servers refuse it elsewhere; 0: they ignore it.
    """

    id: int
    name: str
    parts: tuple[Field | Blob, ...] = ()
    lengths: tuple[int, ...] = ()
    least: int = 0
    dcp: bool = False
    refused: int = 0
    old: bool = False  #: of old releases only


#: A stream id among a request's framing extras: frame info 2, two bytes long.
STREAM_ID_TAG: Final = 0x22
STREAM_ID_INFO: Final = STREAM_ID_TAG >> 4
STREAM_ID_LENGTH: Final = 3  #: size of the frame info, its tag included
MOST_STREAM_ID: Final = 0xFFFF
#: Servers write a stream id in these, but leave the framing length 0: (opcode, extras length).
STREAM_ID_NOT_COUNTED: Final = frozenset({(DCP_DELETION, 21), (DCP_EXPIRATION, 20)})

_DURATION: Final = u16("server_duration", "server duration", ServerDuration())

#: Framing extras of requests (magic 0x08). The ids have other meanings in responses.
REQUEST_INFOS: dict[int, FrameInfo] = {
    info.id: info
    for info in (
        FrameInfo(0, "Barrier", (), (0,)),
        FrameInfo(
            1,
            "DurabilityRequirement",
            (u8("level", "level", DURABILITY_LEVEL), u16("timeout_ms", "timeout ms")),
            (1, 3),
            refused=EINVAL,
        ),
        FrameInfo(STREAM_ID_INFO, "DcpStreamId", (u16("stream_id", "stream id"),), (2,), dcp=True),
        FrameInfo(3, "OpenTracing", (Blob("tracing", "tracing context"),), old=True),
        FrameInfo(4, "Impersonate", (Blob("user", "user"),), least=1, dcp=True),
        FrameInfo(5, "PreserveTtl", (), (0,), refused=NOT_SUPPORTED),
        FrameInfo(
            6, "ImpersonateExtraPrivilege", (Blob("privilege", "privilege", holds=Holds.META),), least=1, dcp=True
        ),
        FrameInfo(7, "ImpersonateWithTokenAuthDataId", (u16("token_id", "token id"),), (2,), dcp=True),
    )
}
#: Framing extras of responses (magic 0x18).
RESPONSE_INFOS: dict[int, FrameInfo] = {
    info.id: info
    for info in (
        FrameInfo(0, "ServerRecvSendDuration", (_DURATION,), (2,)),
        FrameInfo(1, "ReadUnits", (u16("read_units", "read units"),), (2,)),
        FrameInfo(2, "WriteUnits", (u16("write_units", "write units"),), (2,)),
        FrameInfo(3, "ThrottleDuration", (u16("throttle_duration", "throttle duration", ServerDuration()),), (2,)),
    )
}
