"""Index: any frame of a capture at once, and the columns of all, for those who do not read it from end to end."""

from dcpdump.index.building import IndexOptions
from dcpdump.index.capture_index import CaptureIndex
from dcpdump.index.replay import NoLongerKept

__all__ = ["CaptureIndex", "IndexOptions", "NoLongerKept"]
