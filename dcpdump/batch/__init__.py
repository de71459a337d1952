"""Captures in batches: blocks of packets in, many frames at once out, one by one, as runs or as columns.

``wire.frames.Frames`` holds the bytes of frames that completed, in the order in which they did, and of which run of a
direction and which packet each is. Everything else is made of it:

1. ``plans`` says which layout takes a frame whose bytes say all by themselves: requests that expect no answer, with
   fields at fixed places and names for all values. That is the one definition of an ordinary frame.
2. ``learning`` goes through frames in order and has the session of each one's connection learn of it: of what a plan
   takes from its bytes, before the row is made; of what does not concern DCP from its header; of all else by decoding
   it, after which it looks at the session again. A row is one number: where the frame begins, its plan, what the
   session knew of its keys and values when it came, and how long the collection id of its key is.
3. Readers: ``Picking`` stops at the frames that somebody wants, and makes nothing of the others (a filtered ``read``,
   the events of ``streams`` and ``check``); ``document_runs`` joins documents of a stream; a ``Part`` holds rows as an
   array, of which headers, fields and keys are made as columns when somebody asks for them; writers of text read rows
   one after another; and a part gives the frames back to who takes them so.

The batch decoder may decline a frame, never differ: what no plan takes goes to the decoder for one frame and lands
among the same frames.
"""
