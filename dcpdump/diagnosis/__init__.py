"""Diagnose a capture: what is wrong, ranked, what is worth a look, and what cannot be judged.

Begin with ``diagnosis``: from a finished ledger and its findings to a list of troubles. ``trouble`` defines them, as
codes and values; ``stream_troubles`` and ``connection_troubles`` find them, joining those of one cause; ``words`` has
their sentences, the same for every command. "Wrong" is only what is certain: the rest is a note, or unknown.

May import ``check``, ``streams`` and what is below these. ``render``, ``report`` and ``browse`` show the result.
"""
