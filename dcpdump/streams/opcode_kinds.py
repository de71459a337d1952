"""Opcodes as the state of conversations and the rules of ``check`` call them, and kinds of them."""

from dcpdump.batch import document_runs
from dcpdump.spec.opcodes import DCP_ABORT as ABORT
from dcpdump.spec.opcodes import DCP_ADD_STREAM as ADD_STREAM
from dcpdump.spec.opcodes import DCP_BUFFER_ACKNOWLEDGEMENT as BUFFER_ACK
from dcpdump.spec.opcodes import DCP_CACHE_TRANSFER as CACHED
from dcpdump.spec.opcodes import DCP_CACHE_TRANSFER_END as CACHED_END
from dcpdump.spec.opcodes import DCP_CLOSE_STREAM as CLOSE_STREAM
from dcpdump.spec.opcodes import DCP_COMMIT as COMMIT
from dcpdump.spec.opcodes import DCP_CONTROL as CONTROL
from dcpdump.spec.opcodes import DCP_DELETION as DELETION
from dcpdump.spec.opcodes import DCP_EXPIRATION as EXPIRATION
from dcpdump.spec.opcodes import DCP_FLUSH as FLUSH
from dcpdump.spec.opcodes import DCP_GET_FAILOVER_LOG as FAILOVER_LOG
from dcpdump.spec.opcodes import DCP_MUTATION as MUTATION
from dcpdump.spec.opcodes import DCP_NOOP as NOOP
from dcpdump.spec.opcodes import DCP_OPEN as OPEN
from dcpdump.spec.opcodes import DCP_OSO_SNAPSHOT as OSO
from dcpdump.spec.opcodes import DCP_PREPARE as PREPARE
from dcpdump.spec.opcodes import DCP_SEQNO_ACKNOWLEDGED as SEQNO_ACK
from dcpdump.spec.opcodes import DCP_SEQNO_ADVANCED as ADVANCED
from dcpdump.spec.opcodes import DCP_SET_VBUCKET_STATE as SET_STATE
from dcpdump.spec.opcodes import DCP_SNAPSHOT_MARKER as MARKER
from dcpdump.spec.opcodes import DCP_STREAM_END as STREAM_END
from dcpdump.spec.opcodes import DCP_STREAM_REQ as STREAM_REQ
from dcpdump.spec.opcodes import DCP_SYSTEM_EVENT as SYSTEM_EVENT
from dcpdump.spec.opcodes import GET_ALL_VB_SEQNOS as ALL_SEQNOS
from dcpdump.spec.opcodes import GET_FAILOVER_LOG as FAILOVER_LOG_OLD
from dcpdump.spec.opcodes import HELLO, SASL_AUTH, SASL_LIST_MECHS, SASL_STEP, SELECT_BUCKET, STAT
from dcpdump.spec.opcodes import OBSERVE_SEQNO as OBSERVE

#: Messages of a stream, from the end that has the changes.
STREAMED = frozenset(
    {STREAM_END, MARKER, MUTATION, DELETION, EXPIRATION, SET_STATE, SYSTEM_EVENT, PREPARE}
    | {COMMIT, ABORT, ADVANCED, OSO, CACHED, CACHED_END}
)
#: DCP requests that only the end sends which wants the changes.
WANTED = frozenset({STREAM_REQ, FAILOVER_LOG, BUFFER_ACK, CONTROL, SEQNO_ACK})
DOCUMENTS = document_runs.DOCUMENTS
#: Messages with a value of a document.
WITH_VALUES = (*DOCUMENTS, PREPARE)
#: Messages with a seqno of their own.
SEQUENCED = (*DOCUMENTS, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, ADVANCED)

__all__ = [
    "ABORT", "ADD_STREAM", "ADVANCED", "ALL_SEQNOS", "BUFFER_ACK", "CACHED", "CACHED_END", "CLOSE_STREAM", "COMMIT",
    "CONTROL", "DELETION", "DOCUMENTS", "EXPIRATION", "FAILOVER_LOG", "FAILOVER_LOG_OLD", "FLUSH", "HELLO", "MARKER",
    "MUTATION", "NOOP", "OBSERVE", "OPEN", "OSO", "PREPARE", "SASL_AUTH", "SASL_LIST_MECHS", "SASL_STEP",
    "SELECT_BUCKET", "SEQNO_ACK", "SEQUENCED", "SET_STATE", "STAT", "STREAMED", "STREAM_END", "STREAM_REQ",
    "SYSTEM_EVENT", "WANTED", "WITH_VALUES",
]  # fmt: skip
