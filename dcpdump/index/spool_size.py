"""Define how much of packets is kept that cannot be read a second time."""

#: Bytes of a spool, at most.
SPOOL_BYTES = 4 << 30
