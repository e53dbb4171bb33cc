"""A seccomp filter: which requests the kernel refuses to hear from a locked process.

The filter is a classic BPF program of 8-byte instructions, built here by hand: `pyseccomp` needs
`libseccomp.so.2`, which a slim image lacks, and had its last release in January 2021.

Refused calls give EPERM, so that `os.fork()` in a student's file is an ordinary `PermissionError`.
Calls of another architecture (i386, x32), which would be numbered otherwise, end the process.

Sources: `Documentation/userspace-api/seccomp_filter.rst`, `include/uapi/linux/audit.h`, and the
kernel's tables of system calls.
"""

import errno
import functools
import os
import struct

from grader.subject import kernel

# Name, number on x86_64, number on aarch64.
_REFUSED = {
    "new programs and processes": """
        execve 59 221  execveat 322 281  fork 57 -  vfork 58 -
    """,
    "sockets": """
        socket 41 198  socketpair 53 199  bind 49 200  listen 50 201  connect 42 203
        accept 43 202  accept4 288 242
    """,
    "signals to others": """
        tkill 200 130  rt_sigqueueinfo 129 138  rt_tgsigqueueinfo 297 240  pidfd_open 434 434
        pidfd_getfd 438 438  pidfd_send_signal 424 424
    """,
    "the memory of others": """
        ptrace 101 117  process_vm_readv 310 270  process_vm_writev 311 271
        process_madvise 440 440  process_mrelease 448 448  kcmp 312 272  migrate_pages 256 238
        move_pages 279 239
    """,
    "memory that no limit counts": """
        shmget 29 194  shmat 30 196  shmctl 31 195  shmdt 67 197  memfd_create 319 279
        memfd_secret 447 447
    """,
    "queues and semaphores that outlive us": """
        semget 64 190  semop 65 193  semctl 66 191  semtimedop 220 192  msgget 68 186
        msgsnd 69 189  msgrcv 70 188  msgctl 71 187  mq_open 240 180  mq_unlink 241 181
        mq_timedsend 242 182  mq_timedreceive 243 183  mq_notify 244 184  mq_getsetattr 245 185
    """,
    "namespaces and mounts": """
        unshare 272 97  setns 308 268  mount 165 40  umount2 166 39  pivot_root 155 41
        chroot 161 51  open_tree 428 428  move_mount 429 429  fsopen 430 430  fsconfig 431 431
        fsmount 432 432  fspick 433 433  mount_setattr 442 442  quotactl 179 60
        quotactl_fd 443 443
    """,
    "files by other doors": """
        name_to_handle_at 303 264  open_by_handle_at 304 265  fanotify_init 300 262  mknod 133 -
        mknodat 259 33  uselib 134 -
    """,
    "parts of the kernel that attacks begin with": """
        io_uring_setup 425 425  io_uring_enter 426 426  io_uring_register 427 427  bpf 321 280
        perf_event_open 298 241  userfaultfd 323 282  add_key 248 217  request_key 249 218
        keyctl 250 219  seccomp 317 277  personality 135 92  modify_ldt 154 -  iopl 172 -
        ioperm 173 -
    """,
    "priorities, of which ours may be someone else's": """
        setpriority 141 140  ioprio_set 251 30  sched_setaffinity 203 122
        sched_setscheduler 144 119  sched_setparam 142 118  sched_setattr 314 274  mbind 237 235
        set_mempolicy 238 237
    """,
    "the machine": """
        syslog 103 116  acct 163 89  vhangup 153 58  swapon 167 224  swapoff 168 225
        reboot 169 142  kexec_load 246 104  kexec_file_load 320 294  init_module 175 105
        finit_module 313 273  delete_module 176 106  settimeofday 164 170  clock_settime 227 112
        clock_adjtime 305 266  adjtimex 159 171  sethostname 170 161  setdomainname 171 162
    """,
}
# Calls that are fine in some forms: looked at by their first argument.
_CLONE, _CLONE3 = {"x86_64": 56, "aarch64": 220}, 435
_KILL, _TGKILL = {"x86_64": 62, "aarch64": 129}, {"x86_64": 234, "aarch64": 131}
_PRLIMIT, _PRCTL = {"x86_64": 302, "aarch64": 261}, {"x86_64": 157, "aarch64": 167}
_REFUSED_PRCTL = (
    kernel.PR_SET_PDEATHSIG,
    kernel.PR_SET_DUMPABLE,
    kernel.PR_SET_SECCOMP,
    kernel.PR_SET_MM,
    kernel.PR_SET_CHILD_SUBREAPER,
    kernel.PR_SET_PTRACER,
)
# The newest call judged here (Linux 5.17). Later ones do not exist for a locked process; the C
# library copes, as it does on an old kernel.
_NEWEST = 450

_AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_CLONE_THREAD = 0x00010000

# Offsets in `struct seccomp_data`; both architectures are little-endian, so the low half of an
# argument comes first, and the arguments looked at (flags, pids, options) are 32 bits wide.
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16

_LOAD, _RETURN = 0x20, 0x06
_EQUAL, _GREATER, _AT_LEAST, _ANY_BIT = 0x15, 0x25, 0x35, 0x45

_END_PROCESS, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refused(column: int) -> list[int]:
    words = " ".join(_REFUSED.values()).split()
    return [int(number) for number in words[1 + column :: 3] if number != "-"]


@functools.cache  # the warm parent makes it once: every fork is process 1 of its own namespace
def program(architecture: str, pid: int) -> bytes:
    """The filter for a process that sees itself as `pid`."""
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _AUDIT_ARCHITECTURE[architecture], 1, 0),
        _step(_RETURN, _END_PROCESS),
        _step(_LOAD, _NUMBER),
    ]

    def answer(test: int, number: int, verdict: int) -> None:
        steps.extend([_step(test, number, 0, 1), _step(_RETURN, verdict)])

    def allow_by_argument(number: int, test: int, *values: int) -> None:
        """Where the call is `number`: allow if its first argument passes, else EPERM."""
        steps.append(_step(_EQUAL, number, 0, 2 * len(values) + 2))
        steps.append(_step(_LOAD, _ARGUMENT))
        for value in values:
            answer(test, value, _ALLOW)
        steps.append(_step(_RETURN, _EPERM))

    if architecture == "x86_64":
        answer(_AT_LEAST, _X32_BIT, _END_PROCESS)
    answer(_GREATER, _NEWEST, _ENOSYS)
    for number in _refused(0 if architecture == "x86_64" else 1):
        answer(_EQUAL, number, _EPERM)
    answer(_EQUAL, _CLONE3, _ENOSYS)  # its flags lie in memory; the C library falls back to clone
    allow_by_argument(_CLONE[architecture], _ANY_BIT, _CLONE_THREAD)
    allow_by_argument(_KILL[architecture], _EQUAL, pid)
    allow_by_argument(_TGKILL[architecture], _EQUAL, pid)
    allow_by_argument(_PRLIMIT[architecture], _EQUAL, 0, pid)
    refused = len(_REFUSED_PRCTL)
    steps.append(_step(_EQUAL, _PRCTL[architecture], 0, 2 * refused + 1))
    steps.append(_step(_LOAD, _ARGUMENT))
    for option in _REFUSED_PRCTL:
        answer(_EQUAL, option, _EPERM)
    steps.append(_step(_RETURN, _ALLOW))
    return b"".join(steps)


def warm() -> None:
    """Make the usual filter ahead of time."""
    if kernel.ARCHITECTURE in _AUDIT_ARCHITECTURE:
        program(kernel.ARCHITECTURE, 1)


def install() -> None:
    """Filter every thread and what it starts, for good; needs `no_new_privs`.

    Raises:
        OSError: the kernel has no seccomp, the architecture is not one of ours, or a call that
            must be refused was not.
    """
    if kernel.ARCHITECTURE not in _AUDIT_ARCHITECTURE:
        raise OSError(errno.ENOSYS, f"no filter is written for {kernel.ARCHITECTURE}")
    steps = program(kernel.ARCHITECTURE, os.getpid())
    kernel.install_filter(steps)
    try:
        kernel.syscall("memfd_create", b"must be refused\0", 0)
    except PermissionError:
        return
    raise OSError(errno.EINVAL, "the filter is there but refuses nothing")
