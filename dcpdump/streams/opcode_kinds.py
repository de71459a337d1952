"""Opcodes as the state of conversations and the rules of ``check`` call them, and kinds of them."""

from dcpdump.batch import document_runs
from dcpdump.spec import MESSAGES
from dcpdump.spec import opcodes as spec

HELLO, SASL_LIST_MECHS, SASL_AUTH, SASL_STEP = spec.HELLO, spec.SASL_LIST_MECHS, spec.SASL_AUTH, spec.SASL_STEP
SELECT_BUCKET, OPEN, CONTROL, NOOP = spec.SELECT_BUCKET, spec.DCP_OPEN, spec.DCP_CONTROL, spec.DCP_NOOP
STREAM_REQ, ADD_STREAM, CLOSE_STREAM = spec.DCP_STREAM_REQ, spec.DCP_ADD_STREAM, spec.DCP_CLOSE_STREAM
FAILOVER_LOG, FAILOVER_LOG_OLD = spec.DCP_GET_FAILOVER_LOG, spec.GET_FAILOVER_LOG
ALL_SEQNOS, OBSERVE, STAT = spec.GET_ALL_VB_SEQNOS, spec.OBSERVE_SEQNO, spec.STAT
BUFFER_ACK, SEQNO_ACK = spec.DCP_BUFFER_ACKNOWLEDGEMENT, spec.DCP_SEQNO_ACKNOWLEDGED
MARKER, STREAM_END, SET_STATE = spec.DCP_SNAPSHOT_MARKER, spec.DCP_STREAM_END, spec.DCP_SET_VBUCKET_STATE
MUTATION, DELETION, EXPIRATION = spec.DCP_MUTATION, spec.DCP_DELETION, spec.DCP_EXPIRATION
PREPARE, COMMIT, ABORT, FLUSH = spec.DCP_PREPARE, spec.DCP_COMMIT, spec.DCP_ABORT, spec.DCP_FLUSH
SYSTEM_EVENT, ADVANCED, OSO = spec.DCP_SYSTEM_EVENT, spec.DCP_SEQNO_ADVANCED, spec.DCP_OSO_SNAPSHOT
CACHED, CACHED_END = spec.DCP_CACHE_TRANSFER, spec.DCP_CACHE_TRANSFER_END

#: Messages of a stream, from the end that has the changes: those that flow control counts.
STREAMED = frozenset(opcode for opcode, message in MESSAGES.items() if message.streamed) - {SEQNO_ACK}
#: DCP requests that only the end sends which wants the changes.
WANTED = frozenset({STREAM_REQ, FAILOVER_LOG, BUFFER_ACK, CONTROL, SEQNO_ACK})
DOCUMENTS = document_runs.DOCUMENTS
#: Messages with a value of a document.
WITH_VALUES = (*DOCUMENTS, PREPARE)
#: Messages whose key a snapshot may have only once.
KEYED = frozenset({*WITH_VALUES, COMMIT, ABORT})
#: Messages with a seqno of their own.
SEQUENCED = (*DOCUMENTS, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, ADVANCED)
