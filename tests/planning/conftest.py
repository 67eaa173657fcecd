"""What tests of planners share: no model is configured, unless a test does it."""

from tests.models.conftest import nothing_configured, real_url

__all__ = ["nothing_configured", "real_url"]
