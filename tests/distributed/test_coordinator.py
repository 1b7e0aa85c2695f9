"""The coordinator by itself, for orders in which processes come that are rare."""

from __future__ import annotations

import asyncio
import socket

import pytest

from weft.distributed.coordinator import Coordinator
from weft.distributed.messages import decode, encode

pytestmark = pytest.mark.fast


async def hello(port, number, count):
    """What a process is told when it comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    about = {"process_id": number, "num_processes": count, "host": "here", "pid": 1, "versions": {}}
    writer.write(encode({"hello": about}))
    answer = decode(await reader.readline())
    writer.close()
    return answer


def test_whoever_comes_after_a_refusal_is_told_why():
    """A process with another count may come before process 0, which started the coordinator."""

    async def meeting():
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        serving = asyncio.create_task(Coordinator("127.0.0.1", 3, 30.0, 10).serve(listening))
        first = await hello(port, 1, 2)
        await asyncio.sleep(0.1)
        assert not serving.done()
        second = await hello(port, 0, 3)
        await asyncio.wait_for(serving, 10)
        return first, second

    first, second = asyncio.run(meeting())
    assert first == second and "different counts: process 1" in first["refused"]
