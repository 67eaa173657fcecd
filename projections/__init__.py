"""What the log adds up to: the canonical state, its provenance, and views for those who audit."""
