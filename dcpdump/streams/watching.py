"""Watching: a dissection into parts that remembers how connections ended, and when TCP held them up."""

from dcpdump.batch.dissector import Dissection
from dcpdump.batch.part import Part
from dcpdump.streams.ends_watching import EndsWatching


class Watching(EndsWatching[Part], Dissection):
    """A dissection that also keeps how its connections ended, to be taken away by its owner."""
