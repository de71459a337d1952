"""Refused messages: errors that a consumer answers to messages of a stream, and for which a producer disconnects."""

from dcpdump.spec import find
from dcpdump.spec.statuses import ENOMEM, KEY_EEXISTS, KEY_ENOENT, NOT_MY_VBUCKET, OPAQUE_NO_MATCH, STREAM_NOT_FOUND
from dcpdump.streams.facts import Complaint
from dcpdump.streams.opcode_kinds import ABORT, CACHED, COMMIT, MARKER, SET_STATE, STREAM_END
from dcpdump.streams.state import ConnectionState
from dcpdump.streams.stream import Stream
from dcpdump.streams.wording import clock, status

#: A producer disconnects at once; what came long before its disconnect explains nothing.
_SOON_NS = 60 * 1_000_000_000
_TOLERATED = frozenset({NOT_MY_VBUCKET, STREAM_NOT_FOUND, OPAQUE_NO_MATCH})
#: Any answer to these is taken for the acknowledgement.
_ACKNOWLEDGED = frozenset({MARKER, SET_STATE})


def why_disconnected(connection: ConnectionState) -> str:
    """Return which error of its consumer a producer disconnected for, in words; empty where none explains it."""
    ended_ns = connection.ended_ns
    if ended_ns is None or connection.ended_by != connection.feeder or not connection.ended_surely:
        return ""
    found = [
        (complaint.ts_ns, stream, complaint)
        for stream in connection.streams
        for complaint in stream.complaints
        if complaint.ts_ns is not None
        and 0 <= ended_ns - complaint.ts_ns <= _SOON_NS
        and _disconnects(connection, complaint)
    ]
    return _words(*min(found, key=lambda each: each[0])[1:]) if found else ""


def _disconnects(connection: ConnectionState, complaint: Complaint) -> bool:
    """Return whether a producer disconnects for an error."""
    opcode, code = complaint.opcode, complaint.status
    if opcode in _ACKNOWLEDGED or code in _TOLERATED or (opcode == CACHED and code == ENOMEM):
        return False
    if opcode == STREAM_END and code == KEY_ENOENT:
        return False
    if code == KEY_EEXISTS or (code == KEY_ENOENT and opcode not in (COMMIT, ABORT)):
        return connection.on("v7_dcp_status_codes")
    return True


def _words(stream: Stream, complaint: Complaint) -> str:
    message = f"{find(complaint.opcode).name.removeprefix('DCP_')} of vb {stream.vbucket}"
    when = clock(complaint.ts_ns)
    return (
        f"its consumer answered {message} with {status(complaint.status)} at {when}, for which a producer disconnects"
    )
