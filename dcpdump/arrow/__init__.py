"""Write frames, streams and findings as Arrow tables: their schemas, their rows, and the files that hold them."""
