"""Browse captures in a terminal: frames, their fields and bytes, streams, findings, connections, dialogues.

This package is the only one that imports Textual, which is an extra.
"""
