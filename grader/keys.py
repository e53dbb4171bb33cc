"""Single keys, as they are pressed, where there is a terminal; it is left as it was found."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

_GLANCE_S = 0.05  # Windows has no way to wait for a key or for the end


def available() -> bool:
    """Whether somebody sits there, whose terminal is ours to listen to."""
    try:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return False
        return os.name == "nt" or os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):
        return False


class Keys(contextlib.AbstractContextManager["Keys"]):
    """Hands on each key that is pressed. On POSIX the terminal neither waits for a line nor echoes.

    Args:
        pressed: called from another thread with one character.
    """

    def __init__(self, pressed: Callable[[str], None]):
        self._pressed = pressed
        self._over = threading.Event()
        self._terminal: _Terminal | None = None if os.name == "nt" else _Terminal()
        read = self._read_windows if os.name == "nt" else self._read
        self._thread = threading.Thread(target=read, daemon=True)

    def __enter__(self) -> Keys:
        if self._terminal:
            self._terminal.listen()
        self._thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._over.set()
        if self._terminal:
            self._terminal.restore()
        self._thread.join(1.0)

    def _read(self) -> None:
        import select

        end = sys.stdin.fileno()
        while not self._over.is_set():
            ready, _, _ = select.select([end], [], [], _GLANCE_S * 4)
            if ready and not self._over.is_set():
                text = os.read(end, 64)
                if not text:  # the terminal is gone
                    return
                for key in text.decode(errors="ignore"):
                    self._pressed(key)

    def _read_windows(self) -> None:
        import msvcrt

        while not self._over.wait(_GLANCE_S):
            while msvcrt.kbhit():  # type: ignore[attr-defined, unused-ignore]
                self._pressed(msvcrt.getwch())  # type: ignore[attr-defined, unused-ignore]


class _Terminal:
    """A POSIX terminal's settings; Ctrl-Z finds and leaves them as they belong."""

    def __init__(self) -> None:
        import termios

        self._end = sys.stdin.fileno()
        self._found = termios.tcgetattr(self._end)
        self._handlers: dict[int, Any] = {}

    def listen(self) -> None:
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._pause)
        self._quieten()

    def restore(self) -> None:
        import termios

        with contextlib.suppress(termios.error):  # it is gone
            termios.tcsetattr(self._end, termios.TCSADRAIN, self._found)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _quieten(self) -> None:
        import termios
        import tty

        with contextlib.suppress(termios.error):
            tty.setcbreak(self._end, termios.TCSADRAIN)

    def _pause(self, *_: object) -> None:
        """Ctrl-Z: stop as a program does that has changed nothing; go on from here with `fg`."""
        self.restore()
        signal.raise_signal(signal.SIGTSTP)
        self.listen()
