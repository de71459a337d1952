"""What is known of connections and of their DCP streams, frame by frame."""
