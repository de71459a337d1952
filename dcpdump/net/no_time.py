"""Define how a packet without a time is written where times are numbers."""

from typing import Final

#: The time of a packet that has none.
NO_TIME: Final = -(1 << 63)
