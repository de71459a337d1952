"""Check conversations against the rules of the protocol: what breaks them, and what cannot be judged.

Begin with ``rule``: a rule is a pure function under ``@rule``, which is called with a frame, its connection and its
stream before the ledger learns the frame, and returns a sentence or None. The rules are in ``rules``, by subject.
``engine`` calls them, and adds code, severity and certainty; ``evidence`` finds what becomes certain only later, such
as a missing response; ``finding`` is the result.

May import ``streams`` and what is below it. Prints nothing: ``render.findings`` does.
"""
