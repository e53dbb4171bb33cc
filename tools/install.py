"""What `python tools/set_up.py` does: makes .venv and installs what this checkout needs.

It runs twice: in whatever Python starts it, to make .venv, and then in .venv's own, to install.
Only dependencies are installed. The project runs from its checkout, so .venv holds no path to it.

What was asked for is written into .venv/set-up, one file for each extra; where that says the same
as pyproject.toml and the constraints, nothing is done. A set-up that was interrupted leaves
`unfinished` behind, and the next one starts over: pip has kept what it had downloaded.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from grader.model import Message, say, what
from grader.report import usage
from grader.report.language import Language

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(".venv")
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
RECORDS = VENV / "set-up"
UNFINISHED = RECORDS / "unfinished"
CHOSEN_TORCH = RECORDS / "torch"
LOG = RECORDS / "pip.log"
CORE = "core"
PYTORCH_INDEX = "https://download.pytorch.org/whl/"
# PyTorch's own indexes, one for each kind of build.
BUILDS = re.compile(r"cpu|xpu|cu\d+|rocm[\d.]+")
REQUIREMENT = re.compile(r"[\w.-]+(\[[\w,.-]+\])?(@.+|(===?|[<>!~]=|[<>]).+)")
BY_MAKE = os.environ.get("GRADER_CALLED_BY") == "make"  # which goes on by itself


class SetUpError(Exception):
    """It cannot be done as asked; the text says what to do."""


def main() -> int:
    """Make what is missing and return the exit status."""
    for stream in (sys.stdout, sys.stderr):  # a Windows console may be set to less than UTF-8
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    usage.speak(Language())
    parser = usage.Parser("tools/set_up.py", description="Make .venv and install what is needed.")
    parser.add_argument("extras", nargs="*", help="extras of pyproject.toml to install too")
    parser.add_argument("--constraints", default="constraints.txt", help="a file, or none")
    parser.add_argument("--torch", default="", help="cpu, cu126, ..., a requirement, or default")
    parser.add_argument("--this-python", action="store_true", help="make .venv anew if of another")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(as_options(sys.argv[1:]))
    os.chdir(ROOT)
    try:
        return install(options) if options.inside else prepare(options)
    except SetUpError as error:
        tell(what(error))
        return 2
    except KeyboardInterrupt:
        if not options.inside:
            tell(say("\nInterrupted. The next call starts over."))
        return 130


def as_options(words: list[str]) -> list[str]:
    """Take `TORCH=cpu`, as make does, for what it means."""
    return [re.sub(r"\ATORCH=", "--torch=", word) for word in words]


# ------------------------------------------------------------------- in the Python that starts it


def prepare(options: argparse.Namespace) -> int:
    """Make .venv where there is no sound one, then go on inside it."""
    check_torch(options.torch)
    with contextlib.suppress(ImportError):  # a Python that can read no TOML: asked again inside
        requirements(options.extras)
    extras = set(options.extras)  # and, in a new .venv, those that the old one had
    reason = why_anew(options)
    if reason is not None:
        extras |= {path.stem for path in RECORDS.glob("*.extra")}
        problem = make_venv(reason, options.torch or chosen_torch())
        if problem is not None:
            tell(problem)
            return 1
    command = [str(PYTHON), "tools/set_up.py", "--inside", *sorted(extras)]
    return subprocess.call([*command, "--constraints", options.constraints])


def why_anew(options: argparse.Namespace) -> Message | None:
    """Say why .venv must be made from nothing, or None where the one that is there will do."""
    if not VENV.exists():
        return Message("")
    if UNFINISHED.exists():
        return say("the last set-up was interrupted")
    found = venv_version()
    if not PYTHON.exists() or found is None:
        return say("its Python is gone")
    # One that this has finished is sound; one that others made (uv, say) may have no pip.
    has_pip = [str(PYTHON), "-m", "pip", "--version"]
    if record(CORE) is None and subprocess.run(has_pip, capture_output=True).returncode != 0:
        return say("it has no pip")
    if found < (3, 10) or (options.this_python and found != sys.version_info[:2]):
        return say("it holds Python {version}", version="{}.{}".format(*found))
    if options.torch and options.torch != chosen_torch():
        return say("it holds another torch ({torch})", torch=chosen_torch())
    return None


def make_venv(reason: Message, torch: str) -> Message | None:
    """Make .venv from nothing; return what is wrong, in a sentence or two, or None."""
    version = "{}.{}".format(*sys.version_info)
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        return say(
            "{python} (Python {version}) lacks venv or ensurepip, which are needed.\n"
            "On Debian and Ubuntu: sudo apt install python{version}-venv. Then run this again.",
            python=sys.executable,
            version=version,
        )
    if VENV.exists() and not RECORDS.exists():
        return say(
            "The folder .venv is from elsewhere, and {reason}. Remove it, then run this again.",
            reason=reason,
        )
    because = say(" ({reason})", reason=reason) if reason.text else reason
    tell(
        say(
            "Setting up .venv with Python {version}{because}. Once; it takes a few minutes.",
            version=version,
            because=because,
        )
    )
    if torch == "default" and sys.platform == "linux":
        small = "make check TORCH=cpu" if BY_MAKE else "python3 tools/set_up.py --torch cpu"
        tell(
            say(
                "  torch's usual build for Linux brings CUDA: gigabytes. For the small one,\n"
                "  stop this (Ctrl-C) and type: {command}",
                command=small,
            )
        )
    try:
        empty_venv()
    except OSError as error:
        return say(
            "Cannot make .venv: {error}.\nClose what uses it, or remove the folder yourself.",
            error=what(error),
        )
    CHOSEN_TORCH.write_text(torch, encoding="utf-8")
    # Where .venv was activated, its own Python started this and has just been removed.
    python = getattr(sys, "_base_executable", sys.executable)
    made = subprocess.run([python, "-m", "venv", str(VENV)], capture_output=True, text=True)
    if made.returncode != 0:
        said = made.stdout + made.stderr
        return say("`{python} -m venv .venv` failed:\n{said}", python=python, said=said)
    return None


def empty_venv() -> None:
    """Leave nothing in .venv but the mark that it is unfinished, which is made first of all."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    UNFINISHED.touch()
    for path in [*VENV.iterdir(), *RECORDS.iterdir()]:
        if path.is_dir() and not path.is_symlink():
            if path != RECORDS:
                shutil.rmtree(path)
        elif path != UNFINISHED:
            path.unlink()


# ------------------------------------------------------------------------------ in .venv's Python


def install(options: argparse.Namespace) -> int:
    """Install what is asked for into the .venv that runs this, unless it is there already."""
    RECORDS.mkdir(exist_ok=True)
    torch = chosen_torch()
    wanted = requirements(options.extras)
    pins = constraints(options.constraints, torch)
    fingerprint = {
        name: json.dumps([torch, found, pins], indent=1) for name, found in wanted.items()
    }
    if all(record(name) == text for name, text in fingerprint.items()):
        for name in wanted:
            record_of(name).touch()
        return ready(options.extras)
    is_new = UNFINISHED.exists()
    if not is_new:
        names = ", ".join(wanted)
        tell(say("Bringing .venv up to date ({names}). Once; it may take a minute.", names=names))
        UNFINISHED.touch()
    pinned = RECORDS / "constraints.txt"
    pinned.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
    packages = sorted({one for found in wanted.values() for one in found})
    if BUILDS.fullmatch(torch):
        # Alone and without its companions, so that nothing else comes from PyTorch's index. pip
        # then leaves it as it is, since 2.13.0+cpu satisfies ==2.13.0.
        status = pip(["--no-deps", "--index-url", PYTORCH_INDEX + torch, "torch"], pinned)
    else:
        packages = named(torch) + packages
        status = 0
    status = status or pip(packages, pinned)
    if status != 0:
        if not is_new and status > 0:
            UNFINISHED.unlink()  # pip gave up by itself and has undone what it did
        return 1
    for name, text in fingerprint.items():
        record_of(name).write_text(text, encoding="utf-8")
    CHOSEN_TORCH.write_text(torch, encoding="utf-8")
    UNFINISHED.unlink()
    return ready(options.extras)


def ready(extras: list[str]) -> int:
    """Say what to type next, unless make does the next thing by itself."""
    if not BY_MAKE:
        tell(say("Ready. Type next: {command}", command=f"{PYTHON!s} -m grader check"))
        if "lab" in extras:
            tell(say("      or: {command}", command=f"{PYTHON!s} -m jupyter lab exercises"))
    return 0


def requirements(extras: list[str]) -> dict[str, list[str]]:
    """Read from pyproject.toml what the core and each of the extras need.

    Raises:
        SetUpError: there is no such extra.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pip carries a copy
        from pip._vendor import tomli as tomllib
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {CORE: project["dependencies"]}
    known = project["optional-dependencies"]
    for extra in extras:
        if extra not in known:
            names = ", ".join(known)
            raise SetUpError(
                say("There is no extra {extra!r}; there are: {names}.", extra=extra, names=names)
            )
        needed[extra] = project["optional-dependencies"][extra]
    return needed


def constraints(file: str, torch: str) -> list[str]:
    """Read the pins, less those of packages that the choice of torch names itself."""
    if file == "none":
        return []
    named_here = {package_of(one) for one in named(torch)}
    lines = (line.split("#")[0].strip() for line in Path(file).read_text("utf-8").splitlines())
    return [line for line in lines if line and package_of(line) not in named_here]


def named(torch: str) -> list[str]:
    """Split a choice of torch into pip's requirements; a build, and the default, has none."""
    return [] if torch == "default" or BUILDS.fullmatch(torch) else shlex.split(torch)


def check_torch(torch: str) -> None:
    """Hold a choice of torch against what there can be, before it costs minutes.

    Raises:
        SetUpError: it is none of that.
    """
    for one in named(torch):
        is_place = "://" in one or one.endswith(".whl") or os.sep in one or Path(one).exists()
        if not (is_place or REQUIREMENT.fullmatch(one) or one in ("torch", "numpy")):
            raise SetUpError(
                say(
                    "{name!r} is no build of torch that is known here. There are: cpu (small);"
                    " cu126 and the like (CUDA); rocm6.4 and the like (AMD); xpu (Intel); default"
                    " (what pip takes). Or say what pip understands: a version as in"
                    " 'torch==2.8.0', a wheel's path, a URL.",
                    name=one,
                )
            )


def package_of(requirement: str) -> str:
    """Name the package of a requirement; that of a wheel is in its file's name."""
    name = requirement.partition("@")[0].strip()
    if name.endswith(".whl"):
        name = name.replace("\\", "/").rpartition("/")[2].partition("-")[0]
    found = re.match(r"[\w.-]+", name)
    return found.group().lower().replace("_", "-") if found else requirement


def pip(arguments: list[str], pinned: Path) -> int:
    """Run `pip install`; on a terminal show the time, and on failure all that pip said."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "-c", str(pinned), *arguments]
    # A pip.conf that says `user = true` would make every installation into .venv fail.
    environment = {**os.environ, "PIP_USER": "0"}
    start = time.monotonic()
    with LOG.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        while True:
            try:
                status = process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                tick(time.monotonic() - start)
    tick(None)
    if status < 0:
        tell(say("Something ended pip (signal {signal}). The next call starts over.",
                 signal=-status))  # fmt: skip
    elif status > 0:
        said = LOG.read_text(encoding="utf-8", errors="replace")
        print(said, end="", file=sys.stderr)
        tell(say("pip could not install what is needed; above is what it said."))
        if "No matching distribution found for torch" in said:
            tell(
                say("torch has builds for Linux, Windows and Apple silicon, all for 64-bit Python.")
            )
            older = "make check PYTHON=python3.12" if BY_MAKE else "python3.12 tools/set_up.py"
            tell(say("Is this Python too new for it? With an older one: {command}", command=older))
        if "onnection" in said or "timed out" in said:
            tell(
                say(
                    "Behind a slow line, a nearer mirror helps: set PIP_INDEX_URL, as for pip"
                    " itself."
                )
            )
        tell(say("Then run the same command again."))
    return status


# ---------------------------------------------------------------------------------------- records


def record_of(name: str) -> Path:
    """Where it is written what was installed for the core or for an extra."""
    return RECORDS / (name if name == CORE else f"{name}.extra")


def record(name: str) -> str | None:
    """What was installed for the core or for an extra, or None."""
    path = record_of(name)
    return path.read_text(encoding="utf-8") if path.exists() else None


def chosen_torch() -> str:
    """The choice of torch that .venv was made with."""
    return CHOSEN_TORCH.read_text(encoding="utf-8") if CHOSEN_TORCH.exists() else "default"


def venv_version() -> tuple[int, int] | None:
    """The version of Python that .venv was made with; None where it does not say."""
    settings = VENV / "pyvenv.cfg"
    text = settings.read_text(encoding="utf-8", errors="replace") if settings.exists() else ""
    found = re.search(r"^version\w* *= *(\d+)\.(\d+)", text, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else None


def tell(message: Message) -> None:
    """Tell the person in front of the terminal."""
    print(Language().render(message), file=sys.stderr, flush=True)


def tick(seconds: float | None) -> None:
    """Show on a terminal that time passes; None wipes it away."""
    if sys.stderr.isatty():
        text = ""
        if seconds is not None:
            minutes, rest = divmod(round(seconds), 60)
            words = say("  {minutes} min {seconds} s", minutes=minutes, seconds=f"{rest:02}")
            text = Language().render(words)
        print(f"\r{text:20}\r", end=text and "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
