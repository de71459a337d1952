"""Turn captured packets into the ordered bytes of TCP connections. Knows no DCP and does no I/O.

Begin with ``connections``: a packet in, events of its connection out. ``layers`` finds the TCP segment of a packet,
through ``link``, ``ip`` and ``tcp``; ``bytestream`` puts one direction in order, with ``reassembly``; ``event`` defines
the results; ``limits`` bounds memory and time. ``batch`` does the same for many plain packets at once. Imports
``big_endian``, ``startup`` and ``text`` of the top level.
"""
