"""Who decides: pure rules from inputs to events, and the service that commits them."""
