"""Rewrite captures so that they can be shared: concealed at equal length, or cut down to chosen frames."""
