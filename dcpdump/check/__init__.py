"""The protocol's rules, asked of a conversation: what breaks them, and what cannot be judged."""
