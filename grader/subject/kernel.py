"""The few Linux calls that Python has no name for, by ctypes. Every one raises `OSError` or took.

Sources: the man pages of the calls; the numbers are those of the kernel's own headers.
"""

import contextlib
import ctypes
import os
import signal
import struct
import sys
from collections.abc import Iterator

ARCHITECTURE = os.uname().machine if struct.calcsize("P") == 8 else "32-bit"

# Calls without a wrapper in the C library, as numbered on x86_64 and on aarch64.
_NUMBERS = {
    "capset": {"x86_64": 126, "aarch64": 91},
    "close_range": {"x86_64": 436, "aarch64": 436},
    "landlock_create_ruleset": {"x86_64": 444, "aarch64": 444},
    "landlock_add_rule": {"x86_64": 445, "aarch64": 445},
    "landlock_restrict_self": {"x86_64": 446, "aarch64": 446},
    "memfd_create": {"x86_64": 319, "aarch64": 279},
    "seccomp": {"x86_64": 317, "aarch64": 277},
}

PR_SET_PDEATHSIG = 1
PR_GET_PDEATHSIG = 2
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_GET_SECCOMP = 21
PR_SET_SECCOMP = 22
PR_SET_MM = 35
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
PR_SET_PTRACER = 0x59616D61

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REC = 16384
MS_PRIVATE = 1 << 18

_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_SYS_ADMIN = 21
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(name: str, *arguments: int | bytes | None) -> int:
    """Call the kernel by name; integers go as machine words, bytes as pointers to them."""
    number = _NUMBERS[name].get(ARCHITECTURE)
    if number is None or _libc is None:
        raise OSError(0, f"no number known for {name} on {ARCHITECTURE}")
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    _libc.syscall.restype = ctypes.c_long
    return _checked(_libc.syscall(ctypes.c_long(number), *words))


def prctl(option: int, value: int = 0, second: int = 0) -> int:
    """`prctl(2)` with one number, or two."""
    assert _libc is not None
    words = [ctypes.c_ulong(word) for word in (value, second, 0, 0)]
    return _checked(_libc.prctl(option, *words))


def death_signal() -> int:
    """The signal that this process gets when its parent dies, 0 for none."""
    assert _libc is not None
    found = ctypes.c_int(0)
    _checked(_libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(found), 0, 0, 0))
    return found.value


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C waits until this is over: it would be lost in a bare `except` while torch is imported,
    or in what Python does around a fork.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def memory_left(most: int) -> Iterator[None]:
    """Within, this process can get so many bytes more; what asks for more, fails at once.

    A few numbers that broadcast can make a function of ours fill any memory.
    """
    import resource  # which Windows lacks

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = now + most if soft == resource.RLIM_INFINITY else min(now + most, soft)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def install_filter(program: bytes) -> None:
    """Put a BPF program of 8-byte instructions before every later system call of every thread."""
    steps = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(steps))
    stray = syscall("seccomp", _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, head)
    if stray:
        raise OSError(0, f"thread {stray} has a filter of its own")


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones of our own."""
    assert _libc is not None
    _checked(_libc.unshare(ctypes.c_int(flags)))


def mount(kind: str | None, target: str, flags: int, options: str = "") -> None:
    """`mount(2)` of a file system without a device, or a change of flags where `kind` is None."""
    assert _libc is not None
    named = kind.encode() if kind else None
    _checked(
        _libc.mount(named, target.encode(), named, ctypes.c_ulong(flags), options.encode() or None)
    )


def drop_capabilities() -> None:
    """Give up every capability: effective, permitted and inheritable."""
    _set_capabilities(0)


def keep_mounting() -> None:
    """Keep, of all capabilities, the one to mount, and keep that through the next `exec`."""
    _set_capabilities(1 << _CAP_SYS_ADMIN)
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_SYS_ADMIN)


def _set_capabilities(bits: int) -> None:
    """Have these of the first 32 capabilities and no other: effective, permitted, inheritable."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    syscall("capset", header, struct.pack("=IIIIII", bits, bits, bits, 0, 0, 0))
