"""Processes of the command and a board for each test, as the end-to-end tests have them."""

from tests.end_to_end.conftest import shared, start, there

__all__ = ["shared", "start", "there"]
