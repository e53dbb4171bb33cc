"""Marks submissions: the hidden suite, each check answered by a worker behind walls.

What is the same for a whole class (the collected suite, the reference's answers, what known
mistakes give) is made once. The journal's unit of work is `Marked`: results, not points.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import os
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader.course import Course
from grader.files import write_whole
from grader.judge import bank, prove, scribe, standin
from grader.judge.diagnose import Known, Signature
from grader.judge.reference import Live, Recording, Remembered
from grader.judge.suite import Check, Suite, ended
from grader.judge.untouched import untouched
from grader.model import CheckResult, Message, Outcome, Submission, say
from grader.score import score
from grader.subject import endings
from grader.subject.faults import Failure, Fault
from grader.subject.host import Host
from grader.subject.proxy import Perform, Subject, forbidden_in
from grader.subject.remote import RemoteHost, StandIn
from grader.subject.sandbox import Sandbox
from grader.subject.script import Replay, Script

CHECK_LIMIT_S = 10.0
SUBMISSION_LIMIT_S = 120.0
_PASSING_MOST = 100_000  # answers that are kept: some MB
_ENDS_MOST = 2  # hangs or crashes of one exercise, before the rest of it is left

Verdict = tuple[CheckResult, Signature | None]


@dataclass(frozen=True)
class Marked:
    """What became of one submission's checks, and which exercises were followed through."""

    results: tuple[CheckResult, ...]
    followed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        results = [result.to_json() for result in self.results]
        return {"results": results, "followed": list(self.followed)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Marked:
        results = tuple(CheckResult.from_json(result) for result in data["results"])
        return cls(results, tuple(data["followed"]))


class _Passing:
    """Digests of answers that have passed a check, known to all jobs that are forked from here.

    They lie in a file without a name, and each job reads what others have appended.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("ab+", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._known: set[bytes] = set()
        self._heard = 0

    def __contains__(self, answer: bytes) -> bool:
        return answer in self._known

    def add(self, answer: bytes) -> None:
        if len(self._known) < _PASSING_MOST and answer not in self._known:
            self._known.add(answer)
            with contextlib.suppress(OSError):  # a full disk: then each job knows its own
                self._file.write(answer)  # appended in one piece, whoever else writes

    def hear(self) -> None:
        """Learn what others have added."""
        length = hashlib.sha256().digest_size
        size = os.fstat(self._file.fileno()).st_size // length * length
        whole = os.pread(self._file.fileno(), size - self._heard, self._heard)
        self._heard = size
        self._known |= {whole[start : start + length] for start in range(0, len(whole), length)}


class _Doubt(Exception):
    """A submission lost a point in a worker that another has used; see `RemoteHost.hand_back`."""


class Marker:
    """Marks one submission after another.

    Args:
        course: the table.
        suite: the collected checks, with the course's secret.
        sandbox: where workers come from. It may start, and be shared, after this.
        exercises: the ids to grade, what they stand on included.
        check_limit_s: seconds that one check may take.
        submission_limit_s: seconds that one submission may take.
        cache: a folder that keeps what known mistakes give, for this suite and course alone.

    Attributes:
        course: the table.
        sandbox: where workers come from.
        for_all_s: seconds of `mark` for what the whole class has in common.
    """

    def __init__(
        self,
        course: Course,
        suite: Suite,
        sandbox: Sandbox,
        exercises: Sequence[str],
        check_limit_s: float = CHECK_LIMIT_S,
        submission_limit_s: float = SUBMISSION_LIMIT_S,
        cache: Path | None = None,
    ):
        self.course = course
        self._suite = suite
        self.sandbox = sandbox
        self._exercises = list(exercises)
        self._check_limit_s = check_limit_s
        self._submission_limit_s = submission_limit_s
        self._cache = cache
        self._units = [unit.name for unit in course.units]
        self._answers = Remembered(Live(Host(bank.solution(course), self._units)))
        repairs = {id for id in exercises if course.exercises[id].stub}
        given = bank.given(course, self._mistakes) if repairs else {}
        self._given = {id: given[id] for id in repairs}
        self._known: dict[str, Known] = {}
        self.for_all_s = 0.0
        self._passing = _Passing()
        order = list(course.exercises)
        checks = [check for check in suite.checks if check.exercise in set(exercises)]
        self._checks = sorted(checks, key=lambda c: (order.index(c.exercise), c.clause))
        host = Host(bank.solution(course), self._units)
        self._scripts = scribe.write(course, suite, self._checks, host.perform, self._answers)

    def mark(self, submission: Submission) -> Marked:
        """Run every check, and what stands on an open exercise once more on a sound one."""
        try:
            return self._mark(submission)
        except _Doubt:
            return self._mark(submission)  # that worker was ended: now it is a fresh one

    def failed(self, error: Exception) -> Marked:
        """What a submission gets where marking it was our fault: no points, and no zero either."""
        words = say("The grader failed here, not you: {error}", error=f"{type(error).__name__}")
        return Marked(tuple(_unrun(c, Outcome.GRADER_ERROR, words) for c in self._checks))

    def _mark(self, submission: Submission) -> Marked:
        deadline = self._now() + self._submission_limit_s
        self._passing.hear()
        self._broken: set[str] = set()
        self._found: dict[str, Signature | None] = {}
        results = {r.id: r for r in self._run(submission, self._checks, deadline)}
        broken = frozenset(self._broken)
        followed = []
        lost = {r.exercise for r in results.values() if r.outcome is not Outcome.PASSED}
        for exercise in filter(lost.__contains__, self._exercises):
            first = dict(self._found)
            second = self._follow(submission, exercise, list(results.values()), broken, deadline)
            if second is None:
                self._found = first
            else:
                results |= {result.id: result for result in second}
                followed.append(exercise)
        return Marked(tuple(map(self._diagnosed, results.values())), tuple(followed))

    def _follow(
        self,
        submission: Submission,
        exercise: str,
        results: Sequence[CheckResult],
        broken: Set[str],
        deadline: float,
    ) -> list[CheckResult] | None:
        """The results of an exercise on sound needs, if it has lost points on open ones and the
        second run is no worse.

        A unit that cannot be imported may be so because another cannot (``broken`` names all).
        """
        scores = {s.exercise.id: s for s in score(self.course, self._exercises, results).exercises}
        mine = scores[exercise]
        unit = mine.exercise.unit
        stands_on = set(self.course.closure([exercise])) - {exercise}
        if unit in broken:
            # Which imports failed, the worker says: it must not get what leads to its own answers.
            absent = set(self._units) - submission.modules.keys()  # another assignment's, say
            imported = (broken | absent) & _imports(submission, unit)
            culprits = {other for other in imported if unit not in self._units_under(other)}
            stands_on |= {id for id in scores if scores[id].exercise.unit in culprits}
        open_needs = [id for id in scores if id in stands_on and not scores[id].passed]
        untouched = mine.untouched is Outcome.NOT_ATTEMPTED and unit not in broken
        if mine.passed or not open_needs or untouched:
            return None
        stand_ins = standin.needed(self.course, exercise, open_needs)
        if stand_ins is None:
            return None
        checks = [check for check in self._checks if check.exercise == exercise]
        second = [_discreet(r) for r in self._run(submission, checks, deadline, stand_ins)]
        if all(r.outcome in (Outcome.NOT_ATTEMPTED, Outcome.BLOCKED) for r in second):
            return None
        first = [result for result in results if result.exercise == exercise]
        before = score(self.course, [exercise], first).score
        after = score(self.course, [exercise], second).score
        return second if after >= before else None

    def _units_under(self, unit: str) -> set[str]:
        """A unit, and those on which an exercise of it stands."""
        exercises = self.course.exercises
        own = [id for id in exercises if exercises[id].unit == unit]
        return {exercises[id].unit for id in self.course.closure(own)}

    def _run(
        self,
        submission: Submission,
        checks: Iterable[Check],
        deadline: float,
        stand_ins: Sequence[StandIn] = (),
    ) -> list[CheckResult]:
        host = RemoteHost(
            self.sandbox, submission, self._units, stand_ins, standin.answer, self._check_limit_s
        )
        as_given = untouched(submission, self._given)
        results: list[CheckResult] = []
        ends: Counter[tuple[str, Outcome]] = Counter()
        left: dict[str, Outcome] = {}  # exercises that are not tried any further
        try:
            for check in checks:
                if self._now() > deadline:
                    results.append(_unrun(check, Outcome.TIMEOUT, endings.TIME_USED_UP))
                elif check.exercise in left:
                    outcome = left[check.exercise]
                    words = endings.not_tried(outcome, _ENDS_MOST)
                    results.append(_unrun(check, outcome, words))
                elif check.exercise in as_given:
                    results.append(ended(check, Failure(Outcome.NOT_ATTEMPTED)))
                else:
                    result = self._one(check, host)
                    results.append(result)
                    end = (check.exercise, result.outcome)
                    ends[end] += result.outcome in (Outcome.TIMEOUT, Outcome.CRASHED)
                    if ends[end] >= _ENDS_MOST:
                        left |= dict.fromkeys(self._standing_on(check.exercise), result.outcome)
                if host.shared and results[-1].outcome is not Outcome.PASSED:
                    raise _Doubt
            if not stand_ins and all(result.outcome is Outcome.PASSED for result in results):
                host.hand_back()
        finally:
            self._broken |= host.broken
            host.close()
        return results

    def _now(self) -> float:
        """Seconds, without those that workers took to be born."""
        return time.monotonic() - self.sandbox.births_s

    def _standing_on(self, exercise: str) -> list[str]:
        """An exercise, and all that would meet what it has met."""
        return [id for id in self.course.standing_on([exercise]) if id in self._exercises]

    def _one(self, check: Check, host: RemoteHost) -> CheckResult:
        script = self._scripts.get(check.id)
        judged = self._played(check, script, host) if script else None
        result, signature = judged or self._judged(check, host, host.perform)
        self._found[check.id] = signature.kept() if signature else None
        return result

    def _judged(self, check: Check, host: RemoteHost, perform: Perform) -> Verdict:
        subject = Subject(self.course, perform, host.submission)
        return self._suite.run(check, subject, self._answers)

    def _played(self, check: Check, script: Script, host: RemoteHost) -> Verdict | None:
        """The verdict on a check that is asked for at once; None where it must be asked in turn."""
        try:
            raw = host.play(script)
            answer = hashlib.sha256(check.id.encode() + raw.digest).digest()
            exercise = self.course.exercises[check.exercise]
            if answer in self._passing and not forbidden_in(host.submission, exercise):
                return ended(check, None), None
            answers = host.read(script, raw)
        except Failure as error:
            return ended(check, error), None
        except Fault:  # the answers could not cross together
            return None
        replay = Replay(script, answers)
        verdict = self._judged(check, host, replay.perform)
        if replay.left:
            return None
        if verdict[0].outcome is Outcome.PASSED:
            self._passing.add(answer)
        return verdict

    def _diagnosed(self, result: CheckResult) -> CheckResult:
        signature = self._found.get(result.id)
        if signature is None or result.outcome in (Outcome.NOT_ATTEMPTED, Outcome.BLOCKED):
            return result  # no mistake is like that, and to know what they give takes seconds
        return self._known_of(result.exercise).compared(result, signature)

    @functools.cached_property
    def _mistakes(self) -> list[bank.Mistake]:
        return bank.mistakes(self.course)

    def _known_of(self, exercise: str) -> Known:
        """What the known mistakes of an exercise give."""
        if exercise not in self._known:
            mistakes = [m for m in self._mistakes if m.exercise == exercise]
            path = self._cache / f"{exercise}.safetensors" if self._cache else None
            if path and path.exists():
                signatures = Recording.read(path).signatures
            else:
                started = time.monotonic()
                bench = prove.Bench(self.course, self._suite)
                signatures = prove.signatures(prove.tried(bench, mistakes))
                self.for_all_s += time.monotonic() - started
                if path:
                    with contextlib.suppress(OSError):  # a full disk: then they are made again
                        path.parent.mkdir(parents=True, exist_ok=True)
                        write_whole(path, Recording({}, signatures, {}, {}).to_bytes())
            self._known[exercise] = Known(signatures, bank.titles(mistakes))
        return self._known[exercise]


def _unrun(check: Check, outcome: Outcome, words: Message) -> CheckResult:
    return CheckResult(check.id, check.exercise, check.clause, check.title, outcome, (words,))


def _imports(submission: Submission, unit: str) -> set[str]:
    """The last names of the modules that a unit imports, whichever way it does."""
    if unit not in submission.modules:
        return set()
    try:
        tree = ast.parse(submission.modules[unit].text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.name.rpartition(".")[2] for alias in node.names}
            names.add((getattr(node, "module", None) or "").rpartition(".")[2])
    return names


def _discreet(result: CheckResult) -> CheckResult:
    """A result of the second run without what the student's code said there: it has met the
    reference's values.
    """
    if result.outcome is not Outcome.RAISED:
        return replace(result, printed="", picture=None)
    words = say("On a sound version of what it stands on, your code raised an exception.")
    return replace(result, message=(words,), frames=(), printed="", picture=None)
