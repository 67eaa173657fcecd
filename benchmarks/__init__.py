"""What a board costs: against a floor written by hand on JetStream, and against reading and parsing the log."""
