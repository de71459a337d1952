"""Open TLS: the events of a connection in, the events of the text inside out. Knows TCP's events, and no DCP.

Begin with ``unsealer``: one connection. Each ``side`` is one direction, whose bytes ``records`` cuts; ``record_reader``
decides what a record is and which key opens it. Keys are those of a ``keyring``, made from ``secrets`` for the
``suites``; only ``openers`` knows ciphers, and is imported once there is something to open. ``report`` says what became
of a connection. Imports ``net``.
"""
