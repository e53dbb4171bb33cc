"""One finder: however a student imports a unit, it is the same object, and nothing else sees it."""

from __future__ import annotations

import importlib
import sys
import traceback
import types
from collections.abc import Iterator

import pytest

from grader.subject.modules import Namespace

UNITS = ["attention", "masks", "multihead"]


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Whatever a test does, the process's own modules and finders are the same afterwards."""
    modules, finders = dict(sys.modules), list(sys.meta_path)
    yield
    assert {name: sys.modules.get(name) for name in modules} == modules
    names = {f"{prefix}{unit}" for prefix in ("", "exercises.") for unit in UNITS}
    assert not (sys.modules.keys() - modules.keys()) & {"exercises", *names}
    assert sys.meta_path == finders


def load(space: Namespace, unit: str) -> types.ModuleType:
    with space.active():
        return space.module(unit)


def test_all_ways_to_import_a_unit_give_one_object(submit) -> None:
    ways = """
        import attention as a
        import exercises.attention as b
        from exercises import attention as c
        from . import attention as d
        from .attention import f as e
        from attention import f as g
        import exercises
        same = a is b is c is d is exercises.attention and e is g is a.f
    """
    text = "\n".join(line.strip() for line in ways.splitlines())
    space = Namespace(submit(attention="def f(): pass", multihead=text), UNITS)
    multihead = load(space, "multihead")
    assert multihead.same
    assert load(space, "attention") is multihead.a


def test_a_unit_runs_once(submit) -> None:
    once = "import sys\nsys.ran = getattr(sys, 'ran', 0) + 1"
    users = "import attention\nfrom exercises.attention import sys\nfrom .attention import sys"
    space = Namespace(submit(attention=once, masks=users, multihead=users), UNITS)
    try:
        for unit in ("masks", "multihead", "attention"):
            load(space, unit)
        assert sys.ran == 1  # type: ignore[attr-defined]
    finally:
        del sys.ran  # type: ignore[attr-defined]


def test_two_submissions_do_not_mix(submit) -> None:
    def space(name: str) -> Namespace:
        reads = "def who():\n    import attention\n    return attention.NAME"
        return Namespace(submit(attention=f"NAME = {name!r}", masks=reads), UNITS)

    ada, bob = space("ada"), space("bob")
    assert load(ada, "attention") is not load(bob, "attention")
    for one, name in ((ada, "ada"), (bob, "bob"), (ada, "ada")):
        masks = load(one, "masks")
        with one.active():
            assert masks.who() == name
    with ada.active():  # whose code calls back, and the answer runs the other's
        with bob.active():
            assert load(bob, "masks").who() == "bob"
        assert load(ada, "masks").who() == "ada"


def test_a_module_of_the_process_comes_back(submit, monkeypatch: pytest.MonkeyPatch) -> None:
    own = types.ModuleType("attention")
    monkeypatch.setitem(sys.modules, "attention", own)
    space = Namespace(submit(attention="x = 1"), UNITS)
    with space.active():
        assert importlib.import_module("attention").x == 1
    assert sys.modules["attention"] is own


def test_an_exception_leaves_nothing_behind(submit) -> None:
    space = Namespace(submit(attention="import masks\ndef f(): 1 / 0", masks=""), UNITS)
    attention = load(space, "attention")
    with pytest.raises(ZeroDivisionError), space.active():
        attention.f()


def test_what_failed_to_import_can_be_tried_again(submit) -> None:
    fails_once = """
import sys
if not hasattr(sys, "tried"):
    sys.tried = True
    raise ValueError("first")
x = 1
"""
    uses = "from attention import x"
    space = Namespace(submit(attention=fails_once, masks=uses), UNITS)
    try:
        with pytest.raises(ValueError, match="first"):
            load(space, "masks")
        assert load(space, "masks").x == 1
        assert load(space, "attention").x == 1
    finally:
        del sys.tried  # type: ignore[attr-defined]


def test_a_fault_is_raised_each_time(submit) -> None:
    space = Namespace(submit(attention="def f(:", masks="import attention"), UNITS)
    for unit in ("attention", "masks", "attention", "masks"):
        with pytest.raises(SyntaxError):
            load(space, unit)


def test_units_may_import_each_other_in_a_circle(submit) -> None:
    space = Namespace(
        submit(
            attention="import masks\ndef f(): return masks.g()",
            masks="from . import attention\nimport exercises.attention\n"
            "def g(): return attention.f is exercises.attention.f",
        ),
        UNITS,
    )
    attention = load(space, "attention")
    with space.active():
        assert attention.f()


def test_a_circle_that_cannot_close_is_an_import_error(submit) -> None:
    space = Namespace(
        submit(attention="from masks import g\nf = 1", masks="from attention import f\ng = 1"),
        UNITS,
    )
    for _ in range(2):
        with pytest.raises(ImportError, match="cannot import name"):
            load(space, "attention")


@pytest.mark.parametrize("name", ["masks", "exercises.masks", "helpers", "exercises.helpers"])
def test_what_is_not_there_is_not_found(submit, name: str) -> None:
    space = Namespace(submit(attention="x = 1"), UNITS)
    with space.active(), pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


def test_a_traceback_shows_the_students_line(submit) -> None:
    space = Namespace(submit(attention="def f():\n    return 1 / 0  # here"), UNITS)
    with pytest.raises(ZeroDivisionError) as caught:
        load(space, "attention").f()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == ("student/attention.py", 2)
    assert last.line == "return 1 / 0  # here"


def test_a_unit_knows_its_name_and_file(submit) -> None:
    space = Namespace(submit(attention="name, file = __name__, __file__"), UNITS)
    attention = load(space, "attention")
    assert (attention.name, attention.file) == ("exercises.attention", "student/attention.py")


def test_finish_sees_a_module_first_even_where_it_is_broken_or_missing(submit) -> None:
    def finish(module: types.ModuleType) -> None:
        module.f = lambda: "sound"  # type: ignore[attr-defined]

    uses = "from attention import f\nfrom masks import f as g"
    space = Namespace(
        submit(attention="1 / 0", multihead=uses), UNITS, {"attention": finish, "masks": finish}
    )
    multihead = load(space, "multihead")
    assert (multihead.f(), multihead.g()) == ("sound", "sound")
