"""Dissect captures in batches: blocks of packets in, many frames at once out, as columns, as runs or one by one.

Begin with ``dissector``. ``read_blocks`` reads packets in blocks; ``wire.frames.Frames`` collects the bytes of
completed frames in order, with the packet and the direction of each. Everything else is made from it:

1. ``plans`` defines an *ordinary* frame: a request without a response, with fields at fixed offsets and a name for each
   value. A plan is the layout of such frames, which are decoded from their own bytes alone.
2. ``scan`` goes through the frames in order and updates the session of each one's connection: from the bytes of an
   ordinary frame, from the header of a message that is not DCP's, and by decoding any other frame. Each frame gets a
   row: one number with the frame's offset, its plan, what the session then knew about keys and values, and the length
   of the collection id in its key.
3. Readers: ``FilteredScan`` decodes only frames that a filter may choose (a filtered ``read``, the events of
   ``streams`` and ``check``); ``document_runs`` joins consecutive documents of a stream; a ``FrameBatch`` holds rows
   as an array, and makes columns of headers, fields and keys on request; the writers of text take rows one after
   another.

A plan may decline a frame, but never decode it differently: a declined frame is decoded by ``wire.decode``, and keeps
its place among the others. May import ``capture``, ``dissect``, ``filter``, ``redact`` and what is below these; NumPy
only where columns are made.
"""
