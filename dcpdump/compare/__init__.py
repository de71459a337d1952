"""Compare two captures of the same connections: frames, clocks, streams, documents.

Begin with ``comparison``, the result. ``capture_rows`` keeps the frames of each capture as compact rows in a file,
and what TCP acknowledged: that tells a frame that was never sent from one that was not captured. ``pairing`` finds the
connections in both, and matches their frames; ``documents`` compares the last change of each document instead, and
``align`` finds by how much the clocks of captures differ.

May import ``streams``, ``rewrite``, ``batch`` and what is below these.
"""
