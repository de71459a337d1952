"""Browse captures in a terminal: frames, their fields and bytes, streams, findings, connections, dialogues.

The screen's process asks, other processes read. ``indexed_frames`` asks ``frame_service``, which has the index in
another process; ``rows`` and ``search`` make the list from the index's columns. ``analysed`` makes the tabs from one
reading of all frames, in a third process, which ``analysis`` starts. On the screen, ``pane`` draws lines under a
cursor; ``framelist``, ``tabs`` and ``frame_panes`` are panes; ``screen`` arranges them; ``browser`` moves through the
frames; ``app`` connects keys to these.

Begin with ``keys``, the table of keys, then ``browser``. Only this package imports Textual, an extra; modules that run
in other processes (``frame_service``, ``rows``, ``analysed``) do not. NumPy is imported after the first frames are
shown. May import everything but ``cli``.
"""
