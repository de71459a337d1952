"""Captures that may be given to others: concealed at equal length, or cut down to what matters."""
