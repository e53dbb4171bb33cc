"""A worker that was spawned, not forked: an interpreter of its own, since CUDA survives no fork.

The warm parent's second fork becomes it (`nursery.become`): namespaces are taken by then, and
descriptors closed. It imports torch, wakes the device, and then locks itself in as a fork does.
What a fork finds in its parent's memory comes as one JSON argument.
"""

import json
import os
import socket
import sys
from typing import Any

from grader.subject import control, nursery


def main(told: dict[str, Any]) -> None:
    """Get ready, lock everything, and serve."""
    worker, cradle = socket.socket(fileno=told["worker"]), socket.socket(fileno=told["cradle"])
    try:
        settings = control.Settings.of(told["settings"])
        serve = nursery.load(settings.service)
        if settings.device != "cpu":
            wake(settings.device)
        nursery.live(worker, cradle, told["report"], settings, told["pid"], serve)
    except BaseException:
        nursery.complain(cradle)
    finally:
        os._exit(nursery.WENT_WRONG)


def wake(device: str) -> None:
    """Open the device and load what most calls need, which the driver could not do behind locks.

    No backward pass: torch then starts a thread that runs Python, and that must be locked too.

    Raises:
        DeviceError: it cannot be opened.
    """
    import torch
    from torch import nn

    try:
        for dtype in (torch.float32, torch.float64):
            layer = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).to(device, dtype)
            x = torch.ones(2, 3, 4, dtype=dtype, device=device)
            with torch.no_grad():
                (torch.softmax(x @ x.transpose(-2, -1), -1) @ layer(x)).sum().item()
    except RuntimeError as error:
        raise nursery.DeviceError(f"{device} cannot be used behind walls: {error}") from None


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
