"""`grader watch`: the verdict of the exercise being worked on, again at every save.

One thread decides; the others (file events, keys, the run) put into its inbox what it shall do. A
warm process keeps torch and the suite, and every run is a fork of it: see `children`. What is known
and rests on nothing that has changed is not run again.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from grader import children, definitions, hints, intake, keys
from grader.check import Check, SessionError, Stopped
from grader.course import Course
from grader.desk import Desk
from grader.model import CheckResult, Message, say, what
from grader.report.teller import Teller
from grader.report.terminal import Terminal
from grader.saves import Saves
from grader.score import Score, score

LIMIT_S = 5.0  # for one check: whoever waits for it has saved, and would know
_HINT, _COMPARE = ("h", say("hint")), ("c", say("compare"))  # before it has passed, and after
_NEXT, _ALL, _QUIT = ("n", say("next")), ("a", say("all")), ("q", say("quit"))


class Watch:
    """Watches one folder.

    Args:
        course: the table.
        path: the student's folder.
        chosen: the exercises among which `next` and `all` go.
        limit_s: seconds that one check may take.
        tell: prints, in the student's language.
    """

    def __init__(
        self,
        course: Course,
        path: Path,
        chosen: Sequence[str],
        limit_s: float,
        tell: Teller,
    ):
        self._course = course
        self._desk = Desk(course, path)
        self._chosen = list(chosen)
        self._limit_s = limit_s
        self._tell = tell
        self._console = tell.console
        self._terminal = Terminal(tell.console, tell.language, True, str(path))
        self._units = [unit.name for unit in course.units]
        self._inbox: queue.Queue[Callable[[], None]] = queue.Queue()
        self._over = False
        self._listens = False  # to keys
        self._results: dict[str, tuple[str, list[CheckResult]]] = {}  # exercise -> digest, checks
        self._current = self._chosen[0]
        self._run: tuple[Check, threading.Thread] | None = None

    def run(self) -> None:
        """Watch until somebody quits."""
        with _undisturbed(), contextlib.ExitStack() as stack:
            self._warm = children.Warm(path=self._desk.path)
            stack.callback(self._warm.close)
            stack.callback(self._stop)
            top = self._top()
            paths = [top / name for unit in self._units for name in intake.file_names(unit)]
            stack.callback(Saves(paths, partial(self._inbox.put, self._saved)).close)
            if keys.available():
                stack.enter_context(keys.Keys(self._pressed))
                self._listens = True
            self._tell(say("Getting ready: this takes some seconds, once."), "dim")
            self._begin()
            while not self._over:
                with contextlib.suppress(
                    queue.Empty
                ):  # a wait without end hears no Ctrl-C on Windows
                    self._inbox.get(timeout=0.5)()

    def _top(self) -> Path:
        """The folder in which the modules lie."""
        modules = self._desk.submission.modules.values()
        return next((Path(one.path).parent for one in modules), self._desk.path.resolve())

    # What happens.

    def _begin(self) -> None:
        """See how everything stands, as far as that is not known, and take the first open one."""
        unknown = [id for id in self._chosen if self._desk.fresh(id) is None]
        first = self._desk.first_open(self._chosen) or self._chosen[0]
        self._check(unknown or [first], self._show_first)

    def _saved(self) -> None:
        before = self._desk.texts
        try:
            self._desk.read()
        except intake.IntakeError as error:
            self._stop()
            self._clear()
            words = error.args[0]
            self._tell(words if isinstance(words, Message) else Message(str(words)), "yellow")
            return
        now = self._desk.texts
        touched = definitions.changed(self._course, before, now)
        if self._current not in touched:
            units = {unit for unit in self._units if before.get(unit) != now.get(unit)}
            first = self._desk.first_open
            if touched:
                self._current = first(touched) or touched[0]
            elif self._course.exercises[self._current].unit not in units:  # a helper, an import
                beside = [id for id in self._chosen if self._course.exercises[id].unit in units]
                self._current = first(beside) or first(self._chosen) or self._current
        self._go(self._current)

    def _pressed(self, key: str) -> None:
        """In another thread."""
        does = {
            "n": self._next,
            "h": self._hint,
            "c": self._compare,
            "a": self._all,
            "q": self._quit,
            "\x03": self._quit,
        }
        if key.lower() in does:
            self._inbox.put(does[key.lower()])

    def _next(self) -> None:
        place = self._chosen.index(self._current) + 1 if self._current in self._chosen else 0
        found = self._desk.first_open([*self._chosen[place:], *self._chosen[:place]])
        if found is None:
            self._tell(say("All that you watch has passed."), "green")
            self._prompt()
        else:
            self._go(found)

    def _hint(self) -> None:
        ladder = hints.climb(self._desk, self._current)
        for message in hints.told(ladder, self._current):
            self._tell(message)
        self._prompt()

    def _compare(self) -> None:
        if self._desk.has_passed(self._current):
            advice = hints.load(self._course, self._course.exercises[self._current].unit)
            if self._current in advice:
                self._tell(say(advice[self._current].compare))
            self._prompt()

    def _all(self) -> None:
        self._results.clear()
        self._check(self._chosen, self._show_all, anew=True)

    def _quit(self) -> None:
        self._over = True

    # Running checks.

    def _go(self, id: str) -> None:
        self._current = id
        self._check([id], self._show_one)

    def _check(self, ids: Sequence[str], then: Callable[[], None], anew: bool = False) -> None:
        """Find out how these stand; what they stand on is run too, where it is not known."""
        self._stop()
        asked = [
            id
            for id in self._course.closure(ids)
            if id in ids or anew or not (self._known(id) or self._desk.has_passed(id))
        ]
        check = Check(self._course, self._desk.path, asked, self._limit_s, self._warm.start, 1)
        digests = {id: self._digest(id) for id in asked}
        work = partial(self._work, check, digests, then)
        self._run = check, threading.Thread(target=work, daemon=True)
        self._run[1].start()

    def _work(self, check: Check, digests: dict[str, str], then: Callable[[], None]) -> None:
        """In another thread: wait for the results."""
        told: set[str] = set()

        def waiting(exercise: str) -> None:
            if exercise not in told:
                words = say("{exercise} is still running ...", exercise=exercise)
                self._inbox.put(partial(self._if_of, check, partial(self._tell, words, "dim")))
            told.add(exercise)

        try:
            results = check.results(waiting)
        except Stopped:
            return
        except SessionError as error:
            self._inbox.put(partial(self._if_of, check, partial(self._could_not, error)))
            return

        def arrive() -> None:
            for id, digest in digests.items():
                self._results[id] = digest, [r for r in results if r.exercise == id]
            scores = self._scores(list(digests))
            self._desk.state.note(self._course, self._desk.texts, scores.exercises)
            then()
            self._desk.state.write(self._desk.path)

        self._inbox.put(partial(self._if_of, check, arrive))

    def _could_not(self, error: SessionError) -> None:
        self._tell(say("It could not be checked: {error}", error=what(error)), "red")
        self._tell(say("Is it this machine? Then `make doctor` finds it."), "yellow")

    def _if_of(self, check: Check, do: Callable[[], None]) -> None:
        """What comes from a run that was stopped meanwhile is of no interest."""
        if self._run and self._run[0] is check:
            do()

    def _stop(self) -> None:
        if self._run:
            check, thread = self._run
            self._run = None
            check.stop()
            thread.join()

    # What is known.

    def _digest(self, id: str) -> str:
        return definitions.digest(self._course, id, self._desk.texts)

    def _known(self, id: str) -> bool:
        return id in self._results and self._results[id][0] == self._digest(id)

    def _scores(self, ids: Sequence[str]) -> Score:
        known = [id for id in self._results if self._known(id)]
        results = [result for id in known for result in self._results[id][1]]
        return score(self._course, ids, results)

    # What is printed.

    def _show_first(self) -> None:
        self._current = self._desk.first_open(self._chosen) or self._chosen[0]
        if self._known(self._current):
            self._show_one()
        else:
            self._go(self._current)

    def _show_one(self) -> None:
        (one,) = self._scores([self._current]).exercises
        self._clear()
        for note in self._desk.submission.notes:
            self._tell(note, "yellow")
        self._terminal.tell(one)
        names = {"name": one.exercise.name, "file": self._desk.file(self._current)}
        if one.passed:
            words = say("`{name}` has passed.", name=one.exercise.name)
        elif one.untouched and one.exercise.stub:
            words = say("Find the fault of `{name}` in {file}, mend it, and save.", **names)
        elif one.untouched:
            words = say("Write `{name}` in {file}, and save.", **names)
        else:
            words = say("Mend `{name}` in {file}, and save.", **names)
        self._console.print()
        self._tell.line(words, "bold green" if one.passed else "bold cyan")
        self._prompt()

    def _show_all(self) -> None:
        self._clear()
        terminal = Terminal(self._console, self._tell.language, False, str(self._desk.path))
        terminal.show(self._scores(self._chosen), self._desk.submission, self._desk.upcoming())
        self._prompt()

    def _prompt(self) -> None:
        """The last line: which keys there are."""
        if self._listens:
            line = Text()
            passed = self._desk.has_passed(self._current)
            for key, does in (_NEXT, _COMPARE if passed else _HINT, _ALL, _QUIT):
                line.append(f" {key} ", "reverse").append(f" {self._tell.language.render(does)}   ")
            self._console.print(line)

    def _clear(self) -> None:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._console.clear()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Whatever ends this, what is inside is put in order first; a second Ctrl-C changes nothing."""
    found: dict[int, Any] = {}

    def leave(number: int, _frame: object) -> None:
        for each in found:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(0 if number == signal.SIGINT else 128 + number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            number = getattr(signal, name)
            found[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in found.items():
            signal.signal(number, handler)
