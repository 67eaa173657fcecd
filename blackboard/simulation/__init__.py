"""The simulator behind `blackboard.testing`: a board in virtual time, with faults that a seed draws."""
