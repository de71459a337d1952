"""Opcodes by their names, as the state of conversations and the rules of ``check`` speak of them."""

HELLO, SASL_AUTH, SASL_STEP, SELECT_BUCKET, STAT = 0x1F, 0x21, 0x22, 0x89, 0x10
OPEN, ADD_STREAM, CLOSE_STREAM, STREAM_REQ, STREAM_END = 0x50, 0x51, 0x52, 0x53, 0x55
MARKER, MUTATION, DELETION, EXPIRATION, SET_STATE, NOOP = 0x56, 0x57, 0x58, 0x59, 0x5B, 0x5C
BUFFER_ACK, CONTROL, SYSTEM_EVENT, PREPARE, SEQNO_ACK = 0x5D, 0x5E, 0x5F, 0x60, 0x61
COMMIT, ABORT, ADVANCED, OSO, CACHED, CACHED_END = 0x62, 0x63, 0x64, 0x65, 0x66, 0x67
FAILOVER_LOG, FAILOVER_LOG_OLD, FLUSH, ALL_SEQNOS, OBSERVE = 0x54, 0x96, 0x5A, 0x48, 0x91

#: Messages of a stream, from the end that has the changes.
STREAMED = frozenset({*range(0x55, 0x5A), SET_STATE, SYSTEM_EVENT, PREPARE, *range(0x62, 0x68)})
#: DCP requests that only the end sends which wants the changes.
WANTED = frozenset({STREAM_REQ, FAILOVER_LOG, BUFFER_ACK, CONTROL, SEQNO_ACK})
DOCUMENTS = (MUTATION, DELETION, EXPIRATION)
#: Messages with a seqno of their own.
SEQUENCED = (*DOCUMENTS, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, ADVANCED)
