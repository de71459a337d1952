"""Rewrite captures for sharing: with all data concealed at equal length, or cut down to chosen frames.

Begin with ``redaction`` for the first and ``carving`` for the second. Both survey the packets (``packet_survey``).
Redaction conceals frames (``concealed_frame``), keeps them by their offsets (``spill``), rebuilds packets around them
(``rebuilt_packet``) and proves that no text is left. Carving notes which bytes of connections are ``needed``. May
import ``batch`` and what is below it.
"""
