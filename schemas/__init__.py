"""What may be said: events, contracts, playbooks, subjects, and their bytes."""
