"""Read captures: files, pipes and folders become Packets in one timeline, with their damage on record."""

from dcpdump.capture.damage import Damage, Health
from dcpdump.capture.file import Capture, open_capture
from dcpdump.capture.merge import timeline
from dcpdump.capture.paths import expand

__all__ = ["Capture", "Damage", "Health", "expand", "open_capture", "timeline"]
