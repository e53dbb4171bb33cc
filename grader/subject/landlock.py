"""Landlock: what a process may open, whatever its user could.

The `landlock` package from PyPI knows files only, so these few calls are written out. Layouts and
bits are those of the kernel's `include/uapi/linux/landlock.h`.
"""

import os
import stat
import struct
from collections.abc import Iterable

from grader.subject import kernel

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READING = _READ_FILE | _READ_DIR  # mapping a library for execution needs no more
_WRITING = _READING | _WRITE_FILE | _TRUNCATE
_WRITING |= _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER

_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

# What each version of the interface (ABI) can rule over: its rights on files are the lowest bits.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # from 5 on: 16
_TCP_ABI = 4
_BIND_AND_CONNECT = 0b11
_SCOPE_ABI = 6
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


def version() -> int:
    """The kernel's Landlock ABI. Raises `OSError` where there is none."""
    return kernel.syscall("landlock_create_ruleset", None, 0, _VERSION_FLAG)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not there, or closed to us anyway
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= _ON_A_FILE
        rule = struct.pack("=Qi", rights, opened)
        kernel.syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(opened)


def restrict(readable: Iterable[str], devices: Iterable[str], writable: Iterable[str]) -> int:
    """Confine this thread, and what it starts, for good; needs `no_new_privs`.

    Args:
        readable: files and folders that may be read.
        devices: files that may be read, written and told what to do by `ioctl`.
        writable: folders in which files may be made, changed and removed.

    Returns:
        The ABI: from 1 files are confined, from 4 also TCP, from 6 also signals to, and abstract
        unix sockets of, processes that are not confined with us.

    Raises:
        OSError: the kernel has no Landlock, or it is switched off.
    """
    abi = version()
    handled = (1 << _FILE_RIGHTS.get(abi, 16)) - 1
    network = _BIND_AND_CONNECT if abi >= _TCP_ABI else 0
    scope = _ABSTRACT_SOCKETS_AND_SIGNALS if abi >= _SCOPE_ABI else 0
    size = 24 if abi >= _SCOPE_ABI else 16 if abi >= _TCP_ABI else 8
    attributes = struct.pack("=QQQ", handled, network, scope)[:size]
    ruleset = kernel.syscall("landlock_create_ruleset", attributes, size, 0)
    try:
        for paths, rights in (
            (readable, _READING),
            (devices, _READING | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV),
            (writable, _WRITING),
        ):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        kernel.syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    return abi
