"""Decrypt TLS: the events of a TCP connection in, the events of the text inside out. Knows no DCP.

Begin with ``unsealer``: one connection. Each ``side`` is one direction, whose bytes ``records`` cuts into records;
``record_reader`` decides what a record is and which key decrypts it. A ``keyring`` makes the keys, from ``secrets`` and
for the cipher ``suites``; only ``openers`` knows ciphers, and is imported when there is something to decrypt.
``outcome`` describes the result. Imports ``net``.
"""
