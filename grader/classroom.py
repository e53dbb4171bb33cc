"""`grader grade`, and the walls of `grader doctor --walls`, as an instructor meets them."""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from grader import adjustments, intake
from grader import course as courses
from grader import walls as protections
from grader.course import Course, CourseError
from grader.intake import IntakeError
from grader.model import CheckResult, Message, Submission, say, what
from grader.report import gradebook, record
from grader.report.gradebook import Row
from grader.report.language import Language
from grader.report.words import STATUSES
from grader.score import score
from grader.subject import endings
from grader.subject.sandbox import Sandbox

if TYPE_CHECKING:
    from grader.grade import Graded, Options, Report
    from grader.report.classpage import Class

OK, UNGRADED, TROUBLE = 0, 1, 2

_ENDING_SECONDS = 3.0  # in which the jobs of a run that was killed have gone


class ClassroomError(CourseError):
    """Grading cannot be done as asked; the text says what to do."""


def run(
    submissions: Path | None,
    out: Path,
    only: Sequence[str],
    jobs: int,
    limit_s: float,
    device: str,
    unsafe: bool,
    language: Language,
    spawn: bool = False,
    assignment: str = "",
    students: str = "*",
) -> int:
    """Grade a class; 0 if every submission has its points."""
    warnings.filterwarnings("ignore")
    hold_device(device)
    course = courses.load()
    chosen = course.select(only)
    console = Console(highlight=False)
    started = time.monotonic()
    present = _protections(unsafe, spawn, device)
    with contextlib.ExitStack() as stack:
        folder = submissions
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sample-class-")))
            words = language("No folder was named: this is the bundled sample class.")
            console.print(words, style="dim", markup=False)
        hide = (folder.resolve(), out.resolve())
        sandbox = Sandbox(secret=hide, unsafe=unsafe, spawn=spawn, device=device)
        stack.callback(sandbox.close)
        sandbox.begin()  # it imports torch, and so do we meanwhile
        from grader.subject import kernel  # of Linux, and so not above

        with kernel.undisturbed():
            from grader import grade as grading
            from grader import sample

        if submissions is None:
            sample.write(folder)
        if out.resolve().is_relative_to(folder.resolve()):
            raise ClassroomError(
                say("Results would lie among the submissions: name another --out than {out}.",
                    out=str(out))
            )  # fmt: skip
        found = grading.read_class(folder, course, assignment)
        for name in intake.loose(folder):
            words = language("not graded: {name!r} is neither a folder nor a zip", name=name)
            console.print(words, style="yellow", markup=False)
        for one in found:
            if one.passed_by:
                words = language(
                    "{name!r} was taken for one student, and holds modules of the same names in"
                    " {count} folders more. If these are students, name the folder that they lie"
                    " in.",
                    name=one.id,
                    count=len(one.passed_by),
                )
                console.print(words, style="yellow", markup=False)
        stack.enter_context(_alone(out))
        options = grading.Options(course.closure(chosen), jobs, limit_s, device=device)
        ids = [one.id for one in found]
        if not any(fnmatchcase(id, students) for id in ids):
            raise ClassroomError(
                say("--students {pattern}: nobody here is called so.", pattern=students)
            )
        adjusted = adjustments.read(out / "adjustments.csv", course, chosen, ids)
        with _progress(console, language) as progress:
            all_graded = grading.grade(
                course, found, out, options, sandbox, present, progress, students
            )
            graded = stack.enter_context(contextlib.closing(all_graded))
            first = list(itertools.islice(graded, 1))
            from grader.report import classpage  # in half a second, while jobs are at work

            a_class = classpage.Class(course, language)
            rows = (
                (_row(course, chosen, one, adjusted, out, present, options, language), one.seconds)
                for one in itertools.chain(first, graded)
            )
            lines = gradebook.write(out, _with_pages(rows, out, a_class), chosen, language, ids)
    gradebook.replace(out / "class.html", a_class.page())
    gradebook.show(console, lines, language)
    written = {line.id for line in lines}
    left = [id for id in ids if id not in written]
    if left:
        words = language("as in an earlier run, if at all: {names}", names=", ".join(left))
        console.print(intake.printable(words), style="yellow", markup=False)
    words = language(
        "{count} submissions in {seconds} s: {files}",
        count=len(lines),
        seconds=f"{time.monotonic() - started:.1f}",
        files=f"{out / 'grades.csv'}, {out / 'class.html'}",
    )
    console.print(f"\n{words}", style="bold", markup=False)
    for line in lines:
        if line.status != "graded":
            words = language.render(STATUSES[line.status])
            words = language("{file}: {what}", file=intake.printable(line.id), what=words)
            console.print(words, style="yellow", markup=False)
    return OK if all(line.status == "graded" for line in lines) else UNGRADED


def _with_pages(
    rows: Iterable[tuple[Row, float | None]], out: Path, a_class: Class
) -> Iterator[Row]:
    """The rows, which come with seconds; of each, its page is written, and the class is told."""
    from grader.report import pages

    for row, seconds in rows:
        folder = out / row.submission.id
        folder.mkdir(parents=True, exist_ok=True)
        page = pages.student(row.result, a_class.course, a_class.language)
        gradebook.replace(folder / gradebook.REPORT, page)
        texts = {unit: module.text for unit, module in row.submission.modules.items()}
        a_class.add(row.result, texts, seconds)
        yield row


def _row(
    course: Course,
    chosen: Sequence[str],
    one: Graded,
    adjusted: Sequence[adjustments.Adjustment],
    out: Path,
    present: Sequence[str],
    options: Options,
    language: Language,
) -> Row:
    id, marked, problems = one.id, one.marked, one.problems
    submission = Submission(id, {})
    if marked:
        try:
            submission = one.submission(course)
        except IntakeError as error:
            problems = (what(error),)
    if marked is None or problems:
        if any(a.submission == id for a in adjusted):
            words = say("What adjustments.csv says of it has no effect: nothing of it was graded.")
            problems = (*problems, words)
        result = {"schema": 1, "submission": id, "status": "unreadable",
                  "notes": [language.render(problem) for problem in problems]}  # fmt: skip
        return Row(submission, None, problems, result)
    checks = {result.id for result in marked.results}
    adjustments.hold(adjusted, out / "adjustments.csv", checks)
    results = adjustments.void(marked.results, id, adjusted)
    points = score(course, chosen, results, marked.followed)
    points, notes = adjustments.adjust(points, id, adjusted)
    notes = [*_whole_units(marked.results), *notes]
    result = record.result(points, submission, "hidden", language, present, options.device, notes)
    return Row(submission, points, [*submission.notes, *notes], result)


def _whole_units(results: Iterable[CheckResult]) -> list[Message]:
    """What took all points of a unit, and may be set right by hand: a name, or one bracket."""
    found: dict[str, Message] = {}
    for result in results:
        unit = result.exercise.split(".")[0]
        for message in result.message if unit not in found else ():
            if message.text == endings.RENAME.text:
                words = say(
                    "{near} was not read: is it {unit}.py?", near=message.args["near"], unit=unit
                )
                found[unit] = words
            elif message.text == endings.NO_PYTHON.text:
                found[unit] = say("{unit}.py: Python cannot read it.", unit=unit)
    return list(found.values())


def hold_device(name: str) -> None:
    """See that there is such a device.

    Raises:
        ClassroomError: there is none.
    """
    if name not in ("cpu", "cuda"):
        raise ClassroomError(
            say("--device takes cpu or cuda; there is no device {name!r}.", name=name)
        )
    if name == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        without = say("this torch was built without CUDA")
        raise ClassroomError(
            say(
                "There is no GPU here that torch can use ({reason}): leave --device out, or say"
                " cpu.",
                reason=say("CUDA finds none") if torch.version.cuda else without,
            )
        )


def _protections(unsafe: bool, spawn: bool, device: str) -> list[str]:
    """The names of the protections that are present, each tried in a real worker.

    Raises:
        ClassroomError: an essential one is absent, and ``unsafe`` was not said.
    """
    found = protections.examine(unsafe=unsafe, spawn=spawn or device != "cpu", device=device)
    missing = [one for one in found if one.lacking]
    if missing and not unsafe:
        lines = {f"line_{number}": f.line for number, f in enumerate(missing)}
        raise ClassroomError(
            say(
                "Student code cannot be kept away from grades on this machine:\n{missing}\n"
                "`grader doctor --walls` tells more. --unsafe grades all the same, and each report"
                " says so.",
                missing=Message("\n".join(f"  {{{name}}}" for name in lines), lines),
            )
        )
    names = sorted(f.name for f in found if f.state == "present")
    return ["UNSAFE", *names] if unsafe else names


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold a folder for results; two runs on one would mix.

    Raises:
        ClassroomError: another run holds it, or it cannot be written.
    """
    import fcntl

    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        words = say(
            "Results cannot be written to {out}: {error}", out=str(out), error=what(error, out)
        )
        raise ClassroomError(words) from None
    with lock:
        deadline = time.monotonic() + _ENDING_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    words = say(
                        "Another run is writing to {out}. Wait, or name another --out.",
                        out=str(out),
                    )
                    raise ClassroomError(words) from None
                time.sleep(0.1)
        yield


@contextlib.contextmanager
def _progress(console: Console, language: Language) -> Iterator[Report]:
    """A bar on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield lambda id, done, all: print(f"{done} / {all}  {id!r}", file=sys.stderr)
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(language("grading"), total=None)
        yield lambda id, done, all: bar.update(task, completed=done, total=all)


def show_walls(language: Language) -> int:
    """Print what protects, as tried on this machine; 0 if all that is essential does."""
    found = protections.examine()
    table = Table(box=None)
    for head in (
        language("protection"),
        language("state"),
        language("essential"),
        language("what was seen"),
        language("what to do"),
    ):
        table.add_column(head, overflow="fold")
    styles = {"present": "green", "absent": "red"}
    for one in found:
        table.add_row(
            language(one.name),
            Text(language(one.state), styles.get(one.state, "dim")),
            language("yes") if one.essential else "",
            Text(language.render(one.detail)),
            Text(language.render(one.advice)),
        )
    Console(highlight=False).print(table)
    return TROUBLE if any(one.lacking for one in found) else OK
