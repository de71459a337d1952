"""The protocol's rules as a referee: what in a conversation breaks them, and what cannot be judged."""
