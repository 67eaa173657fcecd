"""The log and the way in: ports, their transports, and the client."""
