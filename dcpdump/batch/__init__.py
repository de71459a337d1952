"""Captures in batches: blocks of packets in, many frames at once out, as columns.

The batch decoder may decline a frame, never differ: what it cannot take goes to the decoder for one frame and lands
among the same frames.
"""
