"""From captured packets to ordered bytes of TCP connections. Knows no DCP and does no I/O.

Begin with ``connections``: a packet in, events of its connection out. ``layers`` finds the segment of a packet, through
``link``, ``ip`` and ``tcp``; ``bytestream`` orders one direction with ``reassembly``; ``event`` defines what comes out;
``limits`` bounds all of it. ``batch`` does the same for many plain packets at once. Imports nothing above itself.
"""
