"""Captures in batches: blocks of packets in, many frames at once out, one by one, as runs or as columns.

``wire.frames.Frames`` holds the bytes of frames that completed, in the order in which they did, and of which run of a
direction and which packet each is. Everything else is made of it:

1. ``plans`` says which layout takes a frame whose bytes say all by themselves: requests that expect no answer, with
   fields at fixed places and names for all values. That is the one definition of an ordinary frame.
2. ``learning`` goes through frames in order and has the session of each one's connection learn of it: of what a plan
   takes from its bytes, before the row is made; of what does not concern DCP from its header; of all else by decoding
   it, after which it looks at the session again. A row is one number: where the frame begins, its plan, and what the
   session knew of its keys and values when it came.
3. Readers: ``picking`` stops at the frames that somebody wants, and makes nothing of the others (a filtered ``read``,
   the events of ``streams`` and ``check``); ``document_runs`` joins documents of a stream; ``part`` makes columns of
   rows, for tables, text and the index, and gives the frames back to who takes them one after another.

The batch decoder may decline a frame, never differ: what no plan takes goes to the decoder for one frame and lands
among the same frames.
"""
