"""How far the two directions of a connection may be captured out of order.

Queues of a network card, ports of a tap and captures that were merged keep their own order each, not that of all.
"""

#: Frames of both directions this near to each other in time may have been sent in the other order.
OUT_OF_ORDER_NS = 50_000_000
#: And as many frames of a connection, where time does not tell: a segment may hold thousands that have one time.
GRACE = 64
