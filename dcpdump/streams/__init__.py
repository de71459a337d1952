"""Follow connections and their DCP streams frame by frame, and judge what became of them.

Begin with ``phases``: the states of a stream and of a connection, as tables. ``ledger`` holds all connections and their
streams; it learns ``frame_event``s (frames, or runs of documents), which ``feed`` makes from parts. ``learning``,
``setup``, ``flow``, ``exchanges`` and ``failover_logs`` update one ``stream`` or connection (``state``), and since
when it is known: what was not captured is None, never a guess. When the input has ended, ``verdict``, ``rollbacks``,
``clients`` and ``silence`` judge; ``wording`` puts it in words.

May import ``batch`` and what is below it. ``check`` asks its rules with this state; ``render.streams`` prints it.
"""
