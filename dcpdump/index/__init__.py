"""Index a capture: any frame on request, and columns of all frames, without reading from end to end.

Begin with ``capture_index``: an index that grows while it is used. ``building`` dissects the input block by block,
writes ``columns``, and saves checkpoints; a frame is made again by dissecting from the checkpoint before it. The
process that shows an index may be another than the one that makes it: they share the columns.

May import ``batch`` and what is below it. Only ``browse`` uses it.
"""
