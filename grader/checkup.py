"""The first part of `grader doctor`: what is wrong with a student's machine, and how to mend it.

It must work where nothing else does: with the standard library alone, in a Python that is too old
for the rest, beside a torch that ends its process.
(The second part, the walls around workers, is for instructors, with --walls: see `walls`.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from grader.machine import Machine
from grader.model import Message, say
from grader.report.language import Language, columns

OK, NOTE, WRONG = "ok", "note", "wrong"

OLDEST, NEWEST = (3, 10), (3, 14)  # of Python: what the course needs, what torch has builds for
OLDEST_TORCH = (2, 4)
_GB = 1 << 30
_SET_UP = 2 * _GB  # what a set-up takes with the small torch
_CUDA = 8 * _GB  # and with Linux's usual one
_LEFT = _GB // 4  # what should be left


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        state: "ok", "note" (it works, and could be better) or "wrong".
        what: was found.
        how: to mend it.
    """

    state: str
    what: Message
    how: Message | None = None


def examine(machine: Machine) -> Iterator[Finding]:
    """Look at everything, the causes before what they cause."""
    for look in (_system, _python, _folder, _disk, _variables, _proxy, _venv, _packages, _make):
        yield from look(machine)


def _system(machine: Machine) -> Iterator[Finding]:
    name = f"{machine.system} {machine.processor}"
    if machine.system == "Darwin" and machine.processor == "x86_64":
        if machine.translated():
            yield Finding(
                WRONG,
                say("This Python is an Intel build, on a Mac with Apple silicon."),
                say("Install Python from https://www.python.org/downloads, remove the folder .venv,"
                    " and set up again."),
            )  # fmt: skip
        else:
            yield Finding(
                WRONG,
                say("This is an Intel Mac: torch has had no builds for it since 2.2."),
                say("Work in GitHub Codespaces or on another machine: the course needs torch 2.4."),
            )
    elif machine.bits != 64:
        yield Finding(
            WRONG,
            say("This Python is a 32-bit one; torch needs 64."),
            say("Install the 64-bit installer's Python from https://www.python.org/downloads."),
        )
    elif machine.system == "Linux" and machine.libc != "glibc":
        yield Finding(
            WRONG,
            say("This Linux has another C library than glibc (Alpine has); torch needs that one."),
            say("Use a distribution with glibc, such as Debian, Ubuntu or Fedora."),
        )
    else:
        yield Finding(OK, say("{name}, 64 bits", name=name))


def _python(machine: Machine) -> Iterator[Finding]:
    version = machine.python
    spelled = ".".join(map(str, version))
    other = say("Install Python 3.12 from https://www.python.org/downloads, then set up with it:"
                " make check PYTHON=python3.12")  # fmt: skip
    if version[:2] < OLDEST:
        yield Finding(
            WRONG, say("Python {version} is too old: 3.10 is the oldest.", version=spelled), other
        )
    elif version[:2] > NEWEST:
        words = say("Python {version} is newer than torch's builds may be.", version=spelled)
        yield Finding(NOTE, words, other)
    else:
        yield Finding(OK, say("Python {version}", version=spelled))


def _folder(machine: Machine) -> Iterator[Finding]:
    places = [machine.root, machine.root / "exercises", machine.root / ".venv"]
    closed = [str(place) for place in places if place.is_dir() and not machine.can_write(place)]
    for place in closed:
        yield Finding(
            WRONG,
            say("{folder} cannot be written.", folder=place),
            say("Move the course to a folder of your own, such as your home folder, or ask who"
                " owns it."),
        )  # fmt: skip
    if not closed:
        yield Finding(OK, say("{folder} can be written", folder=str(machine.root)))


def _disk(machine: Machine) -> Iterator[Finding]:
    free = machine.free()
    left = say("{free} GB of the disk are free", free=f"{free / _GB:.1f}")
    empty = say("Make room: empty the bin and the folder of downloads, or move the course.")
    if free < _LEFT or (free < _SET_UP and not machine.is_set_up):
        yield Finding(WRONG, left, empty)
    elif free < _CUDA and machine.system == "Linux" and not machine.is_set_up:
        yield Finding(NOTE, left, say("Enough for the small torch: make check TORCH=cpu"))
    else:
        yield Finding(OK, left)


def _variables(machine: Machine) -> Iterator[Finding]:
    for name in ("PYTHONHOME", "PYTHONPATH"):
        value = machine.environment.get(name)
        if value:
            yield Finding(
                WRONG if name == "PYTHONHOME" else NOTE,
                say("{name} is set ({value}): Python looks for packages there.",
                    name=name, value=value),
                say("Unless you know what for, take it out of your shell's or system's settings."),
            )  # fmt: skip


_INDEX = "https://pypi.python.org/simple"  # pip's own, by the name that has long stood for it


def _proxy(machine: Machine) -> Iterator[Finding]:
    named = {name.upper(): value for name, value in machine.environment.items() if value}
    value = named.get("HTTPS_PROXY") or named.get("ALL_PROXY") or named.get("HTTP_PROXY")
    if value:
        yield _through(machine, value)
    elif not machine.is_set_up:
        index = urlsplit(named.get("PIP_INDEX_URL", _INDEX)).hostname or ""
        if index and not machine.reaches(index, 443):
            yield Finding(
                WRONG,
                say("{host} cannot be reached, where the packages come from.", host=index),
                say("Are you online? Behind a slow line set PIP_INDEX_URL to a nearer mirror;"
                    " behind a company's proxy set HTTPS_PROXY."),
            )  # fmt: skip


def _through(machine: Machine, value: str) -> Finding:
    """What there is to say of a proxy; never its password."""
    address = urlsplit(value if "://" in value else f"http://{value}")
    try:
        host, port = address.hostname or "", address.port or 80
    except ValueError:
        host, port = "", 0
    shown = f"{address.scheme}://{host}:{port}"
    if address.scheme.startswith("socks"):
        return Finding(
            WRONG,
            say("The proxy {proxy} is a SOCKS proxy, which pip cannot use by itself.", proxy=shown),
            say("Set HTTPS_PROXY to an HTTP proxy (many programs offer both), or unset it."),
        )
    if not host or not machine.reaches(host, port):
        return Finding(
            WRONG,
            say("The proxy {proxy} does not answer.", proxy=shown),
            say("Start it, or unset HTTPS_PROXY, HTTP_PROXY and ALL_PROXY."),
        )
    return Finding(OK, say("the proxy {proxy} answers", proxy=shown))


def _venv(machine: Machine) -> Iterator[Finding]:
    folder = machine.root / ".venv"
    again = say("Run `make check`, or `python tools/set_up.py`: it is made anew.")
    if not folder.exists() and machine.has_packages:
        yield Finding(OK, say("There is no folder .venv; this Python has packages of its own."))
    elif not folder.exists():
        how = say("Run `make check`, or `python tools/set_up.py`. Once; it takes some minutes.")
        yield Finding(WRONG, say("The course is not set up yet: there is no folder .venv."), how)
    elif (folder / "set-up" / "unfinished").exists():
        yield Finding(WRONG, say("The last set-up was interrupted."), again)
    elif not machine.venv_python.exists():
        yield Finding(WRONG, say("The Python from which .venv was made is gone."), again)
    elif not (folder / "set-up" / "core").exists():
        yield Finding(NOTE, say(".venv was made by something else than the course."), None)
    elif machine.is_stale:
        how = say("The next `make check` brings it up to date.")
        yield Finding(NOTE, say(".venv is older than what the course needs by now."), how)
    else:
        yield Finding(OK, say(".venv is set up"))


def _packages(machine: Machine) -> Iterator[Finding]:
    if not machine.is_set_up and not machine.venv_python.exists() and not machine.has_packages:
        return  # that it is not set up has been said
    told, status = machine.packages()
    facts = {fact["name"]: fact for fact in told if "name" in fact}
    again = say("Remove the folder .venv and set up again: make check")
    trying = [fact["trying"] for fact in told if "trying" in fact]
    if status != 0:
        yield Finding(
            WRONG,
            say("Importing {name} ends Python (status {status}).",
                name=trying[-1] if trying else "-", status=status),
            say("Remove the folder .venv and set up again: make check TORCH=cpu. If that changes"
                " nothing, the processor is too old for torch's builds: use another machine."),
        )  # fmt: skip
    for name, fact in facts.items():
        if "error" in fact:
            words = say("{name} cannot be used: {error}", name=name, error=fact["error"])
            yield Finding(WRONG, words, again)
    version = facts.get("torch", {}).get("version", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers and numbers < OLDEST_TORCH:
        words = say("torch {version} is too old: 2.4 is the oldest.", version=version)
        yield Finding(WRONG, words, again)
    elif status == 0 and not any("error" in fact for fact in facts.values()):
        listed = ", ".join(f"{fact['name']} {fact['version']}".strip() for fact in facts.values())
        yield Finding(OK, say("{packages}", packages=listed))
    for fact in told:
        if fact.get("cuda") and not fact["gpu"]:
            yield Finding(
                NOTE,
                say("torch is a build for CUDA {version}, and no GPU can be used here.",
                    version=fact["cuda"]),
                say("It works: the course needs none. The build without CUDA saves gigabytes: make"
                    " check TORCH=cpu"),
            )  # fmt: skip


def _make(machine: Machine) -> Iterator[Finding]:
    if machine.find("make") or machine.find("gmake"):
        yield Finding(OK, say("make is there"))
        return
    run = r".venv\Scripts\python.exe" if machine.system == "Windows" else ".venv/bin/python"
    yield Finding(
        NOTE,
        say("There is no make."),
        say("Not needed: for `make check ONLY=attention` type `{run} -m grader check attention`.",
            run=run),
    )  # fmt: skip


def show(language: Language, machine: Machine | None = None) -> int:
    """Print a line for each thing that was looked at, and how to mend it.

    Returns:
        How many are wrong.
    """
    words = {OK: language("ok"), NOTE: language("note"), WRONG: language("WRONG")}
    margin = 2 + max(map(columns, words.values()))
    wrong = 0
    for one in examine(machine or Machine()):
        wrong += one.state == WRONG
        state = words[one.state]
        print(state + " " * (margin - columns(state)) + language.render(one.what), flush=True)
        if one.how:
            print(" " * margin + language.render(one.how), flush=True)
    print()
    if wrong:
        print(language("{count} wrong: begin with the first, then run this again.", count=wrong))
    else:
        print(language("Nothing is wrong with this machine."))
    return wrong
