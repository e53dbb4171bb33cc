"""What a fork of the warm parent does to itself before it reads a line of student code.

Each protection is one small function that raises `OSError` unless it took; `_attempt` writes down
which did. Nothing here is assumed from a version number. The order matters: what needs /proc or
rights comes before what takes them away, and the filter of system calls comes last.
"""

import _thread
import errno
import functools
import os
import resource
import tempfile
from collections.abc import Callable, Iterable

from grader.subject import kernel, landlock, seccomp
from grader.subject.control import PRESENT, Report, Settings

FOLDER = "fork-"  # a fork without a disk of its own gets a folder named so, and its parent's pid

_KILL = 9
_THREAD_ROOM = 256 << 20  # address space (bytes) for stacks and guard pages, on top of the memory
_SCRATCH_FILES = 4096

_DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]

_NAMESPACES = {
    "pid-namespace": kernel.CLONE_NEWPID,
    "network-namespace": kernel.CLONE_NEWNET,
    "ipc-namespace": kernel.CLONE_NEWIPC,
}


def _attempt(report: Report, name: str, action: Callable[[], None]) -> None:
    try:
        action()
    except (OSError, ValueError) as problem:
        report[name] = f"absent: {problem}"
    else:
        report[name] = PRESENT


def close_descriptors(keep: Iterable[int]) -> None:
    """Point 0, 1 and 2 at /dev/null and close everything else but `keep`."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    kept = sorted({0, 1, 2, *keep})
    for low, high in zip(kept, [*kept[1:], 1 << 31], strict=True):
        if low + 1 < high:
            _close_between(low + 1, high - 1)
    listing = os.listdir("/proc/self/fd")  # one of these was the listing itself
    left = {int(name) for name in listing} - set(kept)
    if len(left) > 1:
        raise OSError(errno.EBADF, f"descriptors {sorted(left)} stayed open")


def _close_between(first: int, last: int) -> None:
    try:
        kernel.syscall("close_range", first, last, 0)
    except OSError:  # before Linux 5.9
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        os.closerange(first, min(last, max(most, 1 << 16)) + 1)


def leave_namespaces(report: Report) -> None:
    """Take our own namespaces. The pid namespace holds only processes forked after this."""
    _attempt(report, "user-namespace", _own_users)
    for name, flag in _NAMESPACES.items():
        _attempt(report, name, functools.partial(kernel.unshare, flag))
    _attempt(report, "mount-namespace", _own_mounts)


def _own_users() -> None:
    user, group = os.geteuid(), os.getegid()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else /proc/self/uid_map belongs to root
    kernel.unshare(kernel.CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _own_mounts() -> None:
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", kernel.MS_REC | kernel.MS_PRIVATE)  # nothing mounted here gets out


def let_go(report: Report, keep: Iterable[int]) -> None:
    """Close every descriptor but these, and write down in `report` whether that took."""
    _attempt(report, "descriptors", lambda: close_descriptors(keep))


def lock_down(report: Report, settings: Settings, pid: int) -> None:
    """Lock this process in for good, and write down in `report` what took.

    It should have one thread. Where a GPU's driver has started some, they are bound by all but
    Landlock and the loss of capabilities, which the kernel keeps for each thread. The filter of
    system calls leaves them nothing to use a capability for.

    Args:
        report: what `leave_namespaces` found, in the parent of this process, and `let_go`.
        settings: limits and readable paths.
        pid: this process, as its parent sees it.
    """
    limits, scratch = settings.limits, settings.scratch
    _attempt(report, "dies-with-parent", _die_with_parent)
    _attempt(report, "first-out-of-memory", _first_out_of_memory)
    address_space, private_data = _sizes()  # read while there is a /proc
    others = len(os.listdir("/proc/self/task")) - 1

    if report["mount-namespace"] == PRESENT:
        _attempt(report, "scratch", lambda: _own_scratch(settings.scratch, limits.scratch))
        _attempt(report, "proc-hidden", _hide_proc)
    else:
        report |= dict.fromkeys(("scratch", "proc-hidden"), "absent: it takes a mount namespace")
    if report["scratch"] != PRESENT:
        scratch = tempfile.mkdtemp(prefix=f"{FOLDER}{pid}-", dir=scratch)
    os.chdir(scratch)
    os.environ["HOME"] = os.environ["TMPDIR"] = scratch
    tempfile.tempdir = None

    _attempt(report, "no-capabilities", kernel.drop_capabilities)
    _attempt(report, "no-new-privileges", _no_new_privileges)
    _landlock(report, settings, scratch, others)

    _attempt(report, "threads", lambda: _limit_threads(limits.threads))
    _attempt(report, "memory", lambda: _limit(resource.RLIMIT_DATA, private_data + limits.memory))
    most = address_space + limits.memory + _THREAD_ROOM
    _attempt(report, "shared-memory", lambda: _limit(resource.RLIMIT_AS, most))
    _attempt(report, "cpu-time", lambda: _limit(resource.RLIMIT_CPU, limits.cpu))
    _attempt(report, "file-size", lambda: _limit(resource.RLIMIT_FSIZE, limits.scratch))
    _attempt(report, "open-files", lambda: _limit(resource.RLIMIT_NOFILE, limits.files))
    _attempt(report, "no-core-dumps", lambda: _limit(resource.RLIMIT_CORE, 0))
    _attempt(report, "no-locked-memory", lambda: _limit(resource.RLIMIT_MEMLOCK, 0))
    _attempt(report, "not-dumpable", _not_dumpable)
    _attempt(report, "system-calls", seccomp.install)


def _die_with_parent() -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, _KILL)
    if kernel.death_signal() != _KILL:
        raise OSError(errno.EINVAL, "the kernel forgot the signal")


def _first_out_of_memory() -> None:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _sizes() -> tuple[int, int]:
    """Bytes of address space and of private data that this process has already."""
    with open("/proc/self/statm") as file:
        pages = [int(word) for word in file.read().split()]
    return pages[0] * resource.getpagesize(), pages[5] * resource.getpagesize()


def _own_scratch(folder: str, size: int) -> None:
    closed = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("tmpfs", folder, closed, f"size={size},nr_inodes={_SCRATCH_FILES},mode=0700")


def _hide_proc() -> None:
    closed = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("tmpfs", "/proc", closed, "size=4k,mode=0555")


def _no_new_privileges() -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if kernel.prctl(kernel.PR_GET_NO_NEW_PRIVS) != 1:
        raise OSError(errno.EINVAL, "the kernel did not keep it")


def _landlock(report: Report, settings: Settings, scratch: str, others: int) -> None:
    try:
        abi = landlock.restrict(settings.readable, _DEVICES + settings.devices, [scratch])
    except OSError as problem:
        abi, reason = 0, f"absent: {problem}"
    else:
        reason = f"absent: the kernel's Landlock, version {abi}, does not know it"
        if others:
            abi, reason = 0, f"absent: {others} threads of a driver are not bound by it"
    for name, first in (("landlock-files", 1), ("landlock-tcp", 4), ("landlock-scopes", 6)):
        report[name] = PRESENT if abi >= first else reason


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, most))
    if resource.getrlimit(kind) != (most, most):
        raise OSError(errno.EINVAL, "the kernel did not keep it")


def _limit_threads(most: int) -> None:
    """RLIMIT_NPROC, which counts this fork alone in a user namespace, and nothing for root."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, hard))
    try:
        _thread.start_new_thread(lambda: None, ())
    except RuntimeError:
        refused = True
    else:
        refused = False
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most) if refused else (hard, hard))
    if not refused:
        raise OSError(errno.EPERM, "RLIMIT_NPROC does not bind this user")


def _not_dumpable() -> None:
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    if kernel.prctl(kernel.PR_GET_DUMPABLE) != 0:
        raise OSError(errno.EINVAL, "the kernel did not keep it")
