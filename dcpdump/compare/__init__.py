"""Compare two captures of the same connections: frames, clocks, streams, documents.

Begin with ``comparison``, the result. ``capture_rows`` keeps the frames of each capture as compact rows in a file;
``pairing`` finds the connections in both, and matches their frames; ``acknowledged`` tells, by TCP, a frame that was
never sent from one that was not captured; ``documents`` compares the last change of each document instead.

May import ``streams``, ``rewrite``, ``batch`` and what is below these.
"""
