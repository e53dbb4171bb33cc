"""`grader grade`: a class.

    SUBMISSIONS/*  ->  OUT/<submission>/result.json and report.html, OUT/grades.csv, OUT/class.html,
                       OUT/journal.jsonl

The journal is append-only and keyed by content, so a killed run goes on where it stopped, only what
changed is graded again, and identical submissions are graded once. Points are made of it at the end
by `score`, so adjustments need no grading.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import multiprocessing
import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from grader import __version__, intake
from grader.course import ROOT, Course, CourseError
from grader.intake import IntakeError
from grader.judge.suite import collect, suite_files
from grader.marker import Marked, Marker
from grader.model import Message, Outcome, Submission, say, what
from grader.report import record
from grader.subject import kernel
from grader.subject.sandbox import JailError, Sandbox

SECRET = ROOT / ".course-secret"


Report = Callable[[str, int, int], None]  # whose turn it was, how many are done, of how many


@dataclass(frozen=True)
class Options:
    """How to grade."""

    exercises: Sequence[str]  # ids, what they stand on included
    jobs: int = 1
    check_limit_s: float = 10.0
    submission_limit_s: float = 120.0
    device: str = "cpu"  # or "cuda"

    def depends_on(self) -> str:
        """What of these a result depends on."""
        return repr(
            (list(self.exercises), self.check_limit_s, self.submission_limit_s, self.device)
        )


@dataclass
class Graded:
    """One submission and what became of it.

    Its text is read when its turn comes: a class of texts is too much to hold.
    """

    id: str
    path: Path
    digest: str = ""
    passed_by: Sequence[str] = ()  # folders with modules of the same names
    problems: Sequence[Message] = ()  # why it could not be read
    key: str = ""
    journal: Journal | None = None

    def submission(self, course: Course) -> Submission:
        """What was handed in.

        Raises:
            IntakeError: it is no longer what it was when the class was read.
        """
        submission = _read(self.path, course, self.id)
        if record.digest(submission) != self.digest:
            words = say("{file} has changed meanwhile: grade again.", file=self.path.name)
            raise IntakeError(words)
        return submission

    @property
    def marked(self) -> Marked | None:
        """Its results, from the journal: a class of results is too much to hold."""
        return self.journal.read(self.key) if self.journal else None

    @property
    def seconds(self) -> float | None:
        """How long marking took when it was done, where the journal says so."""
        return self.journal.seconds.get(self.key) if self.journal else None


@dataclass(frozen=True)
class Key:
    """What a result depends on, besides the submission."""

    course: str
    suites: str
    made_by: str

    def of(self, digest: str) -> str:
        text = f"{digest}\n{self.course}\n{self.suites}\n{self.made_by}"
        return hashlib.sha256(text.encode()).hexdigest()[:24]


class Journal:
    """Results by key, one JSON object a line; a torn last line is a result that is not there."""

    def __init__(self, path: Path):
        self._path = path
        self._places: dict[str, int] = {}  # where in the file
        self._unwritten: dict[str, Marked] = {}
        self.seconds: dict[str, float] = {}
        if path.exists():
            with path.open("rb") as file:
                place = 0
                for line in file:
                    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                        entry = json.loads(line.decode(errors="replace"))
                        Marked.from_json(entry["marked"])
                        self._places[entry["key"]] = place
                        self.seconds[entry["key"]] = float(entry["seconds"])
                    place += len(line)

    def __contains__(self, key: str) -> bool:
        return key in self._places or key in self._unwritten

    def read(self, key: str) -> Marked | None:
        """The results of a key; None where there are none."""
        if key not in self._places:
            return self._unwritten.get(key)
        with self._path.open("rb") as file:
            file.seek(self._places[key])
            return Marked.from_json(json.loads(file.readline().decode(errors="replace"))["marked"])

    def add(self, key: str, submission: str, marked: Marked, seconds: float) -> None:
        """Append a result, and see it on the disk."""
        self.seconds[key] = round(seconds, 3)
        entry = {
            "key": key,
            "submission": submission,
            "seconds": self.seconds[key],
            "marked": marked.to_json(),
        }
        line = json.dumps(entry, ensure_ascii=False).encode(errors="replace") + b"\n"
        with self._path.open("ab+") as file:
            file.seek(max(0, file.tell() - 1))  # it begins at the end
            torn = file.read() not in (b"", b"\n")
            file.write(b"\n" + line if torn else line)
            file.flush()
            os.fsync(file.fileno())
            self._places[key] = file.tell() - len(line)

    def hold(self, key: str, marked: Marked) -> None:
        """Keep a result for this run alone."""
        self._unwritten[key] = marked


def course_secret() -> str:
    """What makes hidden inputs unknown: from the environment, or a file made once.

    Set GRADER_SECRET to the same value on every machine that grades one class.
    """
    if os.environ.get("GRADER_SECRET"):
        return os.environ["GRADER_SECRET"]
    if not SECRET.exists():
        SECRET.write_text(secrets.token_hex(16) + "\n", encoding="utf-8")
        SECRET.chmod(0o600)
    return SECRET.read_text(encoding="utf-8").strip()


def key(options: Options, secret: str, protections: Sequence[str]) -> Key:
    """The digests on which results depend."""
    suites = hashlib.sha256(secret.encode())
    for path in suite_files():
        suites.update(path.read_bytes())
    course = hashlib.sha256((ROOT / "course.toml").read_bytes())
    for path in sorted((ROOT / "solutions").rglob("*")):
        if path.suffix in (".py", ".toml"):
            course.update(path.read_bytes())
    made_by = (__version__, torch.__version__, sorted(protections), options.depends_on())
    return Key(course.hexdigest(), suites.hexdigest(), repr(made_by))


def read_class(folder: Path, course: Course, assignment: str = "") -> list[Graded]:
    """Every submission, looked into; one that cannot be read says why."""
    found = []
    for id, path in intake.discover(folder, assignment):
        try:
            submission = _read(path, course, id)
            problems = submission.notes if submission.unreadable else ()
            digest = record.digest(submission)
            found.append(Graded(id, path, digest, submission.passed_by, problems))
        except IntakeError as error:
            found.append(Graded(id, path, problems=(what(error),)))
    return found


def _read(path: Path, course: Course, id: str) -> Submission:
    """What was handed in; a unit that cannot be read was not, and a sound one stands in for it."""
    found = intake.read(path, course.definitions, id)
    read = {unit: module for unit, module in found.modules.items() if unit not in found.unread}
    return replace(found, modules=read)


def grade(
    course: Course,
    submissions: Sequence[Graded],
    out: Path,
    options: Options,
    sandbox: Sandbox,
    protections: Sequence[str],
    progress: Report = lambda id, done, all: None,
    students: str = "*",
) -> Generator[Graded]:
    """Grade what the journal does not know yet.

    Yields:
        The submissions, in order, each as soon as it has its results: all, but for those that
        ``students`` leaves out and that no earlier run has graded.

    Args:
        course: the table.
        submissions: filled in.
        out: the folder of the journal.
        options: how.
        sandbox: where workers come from; it has begun to start.
        protections: what stands between a submission and the judge, for the key.
        progress: told whose turn it was, how many are done, and of how many.
        students: a pattern of the names to grade.
    """
    secret = course_secret()
    keys = key(options, secret, protections)
    journal = Journal(out / "journal.jsonl")
    for graded in submissions:
        graded.key = keys.of(graded.digest)
        graded.journal = None if graded.problems else journal
    new = [g for g in submissions if g.key not in journal and not g.problems]
    todo: dict[str, list[Graded]] = {}  # those that handed in the same, together
    for graded in new:
        if fnmatchcase(graded.id, students):
            todo.setdefault(graded.key, []).append(graded)
    in_order = deque(g for g in submissions if g.problems or g.key in journal or g.key in todo)

    def ready() -> Iterator[Graded]:
        while in_order and (in_order[0].problems or in_order[0].key in journal):
            yield in_order.popleft()

    if todo:
        torch.set_num_threads(1)  # jobs share the cores; and a fork must find no threads
        units = {id.split(".")[0] for id in options.exercises}
        marker = Marker(
            course,
            collect(suite_files(units), secret),
            sandbox,
            options.exercises,
            options.check_limit_s,
            options.submission_limit_s,
            out / ".cache" / keys.of(""),
        )
        with contextlib.closing(_mark(marker, options.jobs, list(todo.values()))) as marks:
            for done, (key_of_it, marked, seconds) in enumerate(marks, 1):
                id = todo[key_of_it][0].id
                if any(r.outcome is Outcome.GRADER_ERROR for r in marked.results):
                    journal.hold(key_of_it, marked)  # our fault, which the next run may not have
                else:
                    journal.add(key_of_it, id, marked, seconds)
                progress(id, done, len(todo))
                yield from ready()
    yield from ready()


Mark = tuple[str, Marked, float]  # the key, what became of it, and how long that took


def _mark(marker: Marker, jobs: int, todo: Sequence[Sequence[Graded]]) -> Generator[Mark]:
    gc.collect()
    gc.freeze()  # the collector need not go through all of torch again and again
    jobs = min(jobs, len(todo))
    marker.sandbox.wait()
    if jobs <= 1:
        for same in todo:
            yield _timed(marker, same)
        return
    # Forked from here, so that every job has what the whole class shares.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context, _begin_job, (marker, os.getpid())) as pool:
        with kernel.undisturbed():
            waiting = {pool.submit(_do_job, same) for same in todo}
        try:
            for future in as_completed(waiting):
                waiting.discard(future)  # it holds its result for as long as it lives
                yield future.result()
        except BrokenProcessPool:
            raise CourseError(
                say(
                    "A grading process was ended from outside (out of memory?). What was finished"
                    " is kept: run the same command again, or with fewer --jobs."
                )
            ) from None
        except BaseException:  # Ctrl-C, a full disk: nobody waits for what is being marked
            pool.shutdown(wait=False, cancel_futures=True)
            for job in multiprocessing.active_children():
                job.kill()
            raise


_job: Marker  # of this process, where it is one of several


def _begin_job(marker: Marker, run: int) -> None:
    global _job
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's, which ends its jobs
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # go when the run is killed
    if os.getppid() != run:
        os._exit(1)  # it was killed just before
    marker.sandbox.share()
    _job = marker


def _do_job(same: Sequence[Graded]) -> Mark:
    return _timed(_job, same)


def _timed(marker: Marker, same: Sequence[Graded]) -> Mark:
    started = time.monotonic() - marker.for_all_s
    try:
        marked = marker.mark(_first(same, marker.course))
    except JailError:
        raise  # nothing can be graded
    except Exception as error:  # one submission must not stop a class
        marked = marker.failed(error)
    return same[0].key, marked, time.monotonic() - started - marker.for_all_s


def _first(same: Sequence[Graded], course: Course) -> Submission:
    """Of submissions that are the same, the first that has not changed meanwhile."""
    for graded in same[:-1]:
        with contextlib.suppress(IntakeError):
            return graded.submission(course)
    return same[-1].submission(course)
