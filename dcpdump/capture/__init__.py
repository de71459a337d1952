"""Read captures: files, pipes, folders and interfaces as Packets in one timeline, with a record of any damage.

Begin with ``file``: a Capture, and the timeline of several. ``paths`` finds captures; ``source`` reads their bytes,
which ``compression`` unpacks; ``pcap``, ``pcapng`` and the quick ``plain_pcap`` read the formats; ``rewriter`` and
``blocks`` write. ``live`` captures with ``bpf``, and ``relay`` passes connections on. Knows files, not protocols.
Imports ``net``, and ``tls`` for secrets in captures.
"""
