"""dcpdump: a packet inspector for Couchbase's Database Change Protocol (DCP)."""

__version__ = "0.1.0"
