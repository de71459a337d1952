"""Browse captures in a terminal: frames, their fields and bytes, streams, findings, connections, dialogues.

The screen asks, other processes read. ``reader`` asks ``frame_service``, which holds the index in a process of its own;
``rows`` and ``search`` make what is listed of the index's columns. ``analysed`` makes the tabs from one reading of all
frames, in another process, which ``analysis`` starts. Of the screen, ``pane`` draws lines under a cursor;
``framelist``, ``tabs`` and ``frame_panes`` are panes; ``screen`` puts them below each other; ``browser`` knows the way
through the frames; ``app`` gives the keys to those who answer them.

Begin with ``keys``, the table of keys, then ``browser``. This package alone imports Textual, an extra. What runs in
other processes (``frame_service``, ``rows``, ``analysed``) does not, and nothing before the first frames needs NumPy.
"""
