"""Diagnosis: what is wrong in a capture, ranked, in sentences that every report of it uses; what was not judged."""
