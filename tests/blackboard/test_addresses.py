"""What is no address of a server is said before anything is looked up."""

import pytest

from blackboard.nats_connection import connect
from blackboard.nats_errors import BadAddress
from tests.end_to_end.support import call


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://h:1", "'http' is none of nats, tls, ws, wss; write nats://host:port"),
        ("NATS://h:1", "'NATS' is none of nats, tls, ws, wss; write nats://host:port"),
        ("nats://h:1,file:///h", "'file:///h' is no address of a NATS server: 'file' is none of nats, tls, ws, wss"),
        ("nats://h:port", "'nats://h:port' is no address of a NATS server: write nats://host:port"),
        ("nats://", "'nats://' is no address of a NATS server: write nats://host:port"),
        ("nats://h:1,", "'' is no address of a NATS server: write nats://host:port"),
        ("nats://h:1,wss://h:2", "names servers with WebSocket and without: name those of one kind"),
    ],
)
async def test_what_is_none_is_refused(url: str, said: str) -> None:
    with pytest.raises(BadAddress) as found:
        await connect(url, timeout_s=0.1)
    assert said in str(found.value)


@pytest.mark.parametrize("verb", ["up", "runs"])
async def test_a_command_says_so_as_a_usage_error(verb: str) -> None:
    told = await call(verb, "--nats", "http://h:1")
    said = "'http://h:1' is no address of a NATS server: 'http' is none of nats, tls, ws, wss; write nats://host:port"
    assert (told.code, told.out, told.err) == (2, "", f"blackboard: {said}\n")
