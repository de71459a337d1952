"""Write one HTML page about a capture: what is wrong, with pictures, down to the bytes that prove it.

Begin with ``page``, which puts the sections in order. ``gathered`` collects in the reading's one pass what ledger and
findings do not keep; ``context`` holds all data of a page, and makes links between sections. Sections are in
``troubles``, ``timeline``, ``vbuckets``, ``tables`` and ``details``; ``html`` makes escaped elements, ``draw``
pictures. The page needs no network: style and script are inside it.

May import ``render``, ``diagnosis``, ``batch`` and what is below these.
"""
