"""A board on a real server for each test, as the end-to-end tests have it."""

from tests.end_to_end.conftest import shared

__all__ = ["shared"]
