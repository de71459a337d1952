"""Convert bytes to frames and back. Knows no TCP, no file and no clock.

Begin with ``frame``: RawFrame (the bytes of one frame) and Frame (its fields). ``split`` cuts the bytes of a direction
into RawFrames, with ``resync`` after losses; ``decode`` makes Frames from the protocol table; ``session`` remembers
what a connection negotiated, and ``value`` interprets keys and values with it. ``frames`` collects many frames at once
for ``batch``. ``encode``, the inverse of ``decode``, is for users of the library and for tests; ``mend`` suggests
repairs of contradictory headers.

Imports ``spec`` and the small modules below it.
"""
