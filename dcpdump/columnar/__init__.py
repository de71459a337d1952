"""Captures as columns: the decoder for a million frames at once, and the tables that it fills.

The fast path may decline, never differ: what it cannot place goes to the decoder for one frame and lands in
the same table.
"""
