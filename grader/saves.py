"""Tells when files of a folder have been saved.

The system's file events make it quick. They do not arrive everywhere (network folders, folders that
a container or a virtual machine shares, no handles left), so the files are looked at now and then
as well; where that finds what no event has told, it is done often from then on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SELDOM_S, OFTEN_S = 1.0, 0.1  # between two looks
_STEP_MS = 5  # events that come this soon after each other are one save
_SETTLES_S = 0.06  # an editor that writes a new file in the place of the old takes less

Look = tuple[tuple[int, int] | None, ...]  # time and size of each file


class Saves:
    """Watches some files, which need not be there.

    Args:
        paths: the files, of one folder.
        saved: called from another thread after one of them has changed.
        events: whether to ask the system for events.
    """

    def __init__(self, paths: Sequence[Path], saved: Callable[[], None], events: bool = True):
        self._paths = list(paths)
        self._saved = saved
        self._stop = threading.Event()
        self._woken = threading.Event()
        self._hears = False  # whether events can come
        self._deaf = not events  # whether one did not
        self._last = self._look()
        threads = [self._compare, self._listen] if events else [self._compare]
        self._threads = [threading.Thread(target=work, daemon=True) for work in threads]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        self._woken.set()
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        """Wake the other thread at every event."""
        try:
            from watchfiles import watch
        except ImportError:
            return
        folder = self._paths[0].parent
        while not self._stop.is_set():
            with contextlib.suppress(OSError, RuntimeError):  # the folder is gone, no handles left
                changes = watch(
                    folder,
                    watch_filter=None,
                    step=_STEP_MS,
                    debounce=10 * _STEP_MS,
                    rust_timeout=500,
                    stop_event=self._stop,
                    yield_on_timeout=True,
                    recursive=False,
                    raise_interrupt=False,
                )
                self._hears = True
                for change in changes:
                    if change:
                        self._woken.set()
                    elif not folder.exists():
                        break  # another one of its name would not be heard of
            self._hears = False
            self._stop.wait(SELDOM_S)

    def _compare(self) -> None:
        while not self._stop.is_set():
            told = self._woken.wait(SELDOM_S if self._hears and not self._deaf else OFTEN_S)
            self._woken.clear()
            now = self._look()
            if now == self._last or self._stop.is_set():
                continue
            self._deaf = self._deaf or not (told or self._woken.wait(_SETTLES_S))
            if any(new is None or not new[1] for new, old in zip(now, self._last) if new != old):
                time.sleep(_SETTLES_S)  # gone or empty: perhaps only for a moment
                now = self._look()
            self._last = now
            self._saved()

    def _look(self) -> Look:
        return tuple(map(_stat, self._paths))


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
