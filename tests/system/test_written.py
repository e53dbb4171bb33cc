"""What a source names of the library: disguises are seen through, and nothing honest is refused."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from grader.course import Course
from grader.judge import bank
from grader.subject import written
from grader.subject.host import Watch

EXERCISE = "attention.stable_softmax"
HEAD = "import torch\nfrom torch import Tensor, nn\n\n"
DEF = "def stable_softmax(scores, dim=-1):\n"

DISGUISED = {
    "by its name": DEF + "    return torch.softmax(scores, dim)",
    "a method": DEF + "    return scores.softmax(dim)",
    "a method of what was computed": DEF + "    return (scores - 1).double().softmax(dim)",
    "a method of a variable": DEF + "    y = torch.exp(scores)\n    z = y\n"
    "    return z.softmax(dim)",
    "functional": "import torch.nn.functional as F\n" + DEF + "    return F.softmax(scores, dim)",
    "imported": "from torch.nn.functional import log_softmax\n" + DEF
    + "    return log_softmax(scores, dim).exp()",
    "imported as": "from torch import softmax as sm\n" + DEF + "    return sm(scores, dim)",
    "imported inside": DEF + "    from torch import softmax as sm\n    return sm(scores, dim)",
    "all imported": "from torch.nn.functional import *\n" + DEF + "    return softmax(scores, dim)",
    "a module": DEF + "    return nn.Softmax(dim)(scores)",
    "an alias of torch": "T = torch\n" + DEF + "    return T.softmax(scores, dim)",
    "an alias": "sm = torch.softmax\n" + DEF + "    return sm(scores, dim)",
    "itself": "stable_softmax = torch.softmax",
    "a helper": "def help(x, d):\n    return torch.softmax(x, d)\n\n" + DEF
    + "    return help(scores, dim)",
    "a helper's helper": "def b(x, d):\n    return torch.softmax(x, d)\n\ndef a(x, d):\n"
    "    return b(x, d)\n\n" + DEF + "    return a(scores, dim)",
    "a class": "class Help:\n    def __call__(self, x, d):\n        return torch.softmax(x, d)\n\n"
    + DEF + "    return Help()(scores, dim)",
    "in a try": "try:\n    sm = torch.softmax\nexcept AttributeError:\n    sm = None\n\n" + DEF
    + "    return sm(scores, dim)",
    "getattr": DEF + "    return getattr(torch, 'softmax')(scores, dim)",
    "getattr of two halves": DEF + "    return getattr(torch, 'soft' + 'max')(scores, dim)",
    "getattr of an f-string": DEF + "    return getattr(torch, f\"soft{'max'}\")(scores, dim)",
    "getattr of a tensor": DEF + "    return getattr(scores, 'softmax')(dim)",
    "attrgetter": "import operator\n" + DEF
    + "    return operator.attrgetter('nn.functional.softmax')(torch)(scores, dim)",
    "methodcaller": "import operator\n" + DEF
    + "    return operator.methodcaller('softmax', dim)(scores)",
    "__dict__": DEF + "    return torch.__dict__['softmax'](scores, dim)",
    "vars": DEF + "    return vars(torch)['softmax'](scores, dim)",
    "vars().get": DEF + "    return vars(torch).get('softmax')(scores, dim)",
    "importlib": "import importlib\n" + DEF
    + "    return importlib.import_module('torch').softmax(scores, dim)",
    "__import__": DEF + "    return __import__('torch').softmax(scores, dim)",
    "eval": DEF + "    return eval('torch.softmax(scores, dim)')",
    "exec": DEF + "    exec('global out; out = torch.softmax(scores, dim)')\n    return out",
    "torch.ops": DEF + "    return torch.ops.aten._softmax.default(scores, dim, False)",
    "attention": DEF + "    return nn.functional.scaled_dot_product_attention(*[scores] * 3)",
    "in a thread": "import threading\n" + DEF + "    out = []\n    t = threading.Thread(target="
    "lambda: out.append(torch.softmax(scores, dim)))\n    t.start()\n    t.join()\n"
    "    return out[0]",
}  # fmt: skip

RIGHT = DEF + "    e = (scores - scores.amax(dim, True)).exp()\n    return e / e.sum(dim, True)\n"
HONEST = {
    "the formula": RIGHT,
    "a comment": RIGHT + "    # like torch.softmax(scores, dim)",
    "a docstring": DEF + '    """As torch.softmax(scores, dim)."""\n    return scores.exp()',
    "a text": DEF + "    print('torch.softmax', 'softmax')\n    return scores.exp()",
    "a line behind the return": RIGHT + "    return torch.softmax(scores, dim)",
    "a line that is switched off": DEF + "    if False:\n        return torch.softmax(scores, 0)\n"
    "    return scores.exp()",
    "another exercise": RIGHT + "\ndef attention(x):\n    return torch.softmax(x, -1)",
    "an import for another exercise": "from torch.nn.functional import relu, softmax\n" + RIGHT
    + "\ndef attention(x):\n    return softmax(x, -1)",
    "the other half of an import": "from torch.nn.functional import relu, softmax\n" + DEF
    + "    return relu(scores).exp()",
    "a helper of that name": "def softmax(x, d):\n    return x.exp()\n\n" + DEF
    + "    return softmax(scores, dim)",
    "a local helper of that name": DEF + "    def softmax(x):\n        return x.exp()\n"
    "    return softmax(scores)",
    "a helper that hides the import": "from torch import softmax\n\ndef softmax(x, d):\n"
    "    return x.exp()\n\n" + DEF + "    return softmax(scores, dim)",
    "a variable of that name": "from torch import softmax\n" + DEF + "    softmax = scores.exp()\n"
    "    return softmax / softmax.sum(dim, True)",
    "an argument of that name": "from torch import softmax\n"
    "def help(softmax):\n    return softmax\n\n" + DEF + "    return help(scores.exp())",
    "a method of a class of one's own": "class Stable:\n    def __init__(self, x):\n"
    "        self.x = x\n    def softmax(self, d):\n        return self.x.exp()\n\n" + DEF
    + "    return Stable(scores).softmax(dim)",
    "a name that contains it": "def stable_softmax_of(x):\n    return x.exp()\n\n" + DEF
    + "    return stable_softmax_of(scores)",
    "a key": DEF + "    parts = {'softmax': scores.exp()}\n    return parts['softmax']",
    "logsumexp": DEF + "    return (scores - torch.logsumexp(scores, dim, True)).exp()",
    "what is no Python": "def stable_softmax(:",
    "nothing": "",
}  # fmt: skip


def find(course: Course, text: str) -> written.Named | None:
    return written.find(text, "stable_softmax", course.exercises[EXERCISE].forbidden)


@pytest.mark.parametrize("name", DISGUISED)
def test_a_disguise_is_seen_through(course: Course, name: str) -> None:
    text = HEAD + DISGUISED[name]
    compile(text, name, "exec")
    found = find(course, text)
    assert found is not None
    assert found.line > 3


@pytest.mark.parametrize("name", HONEST)
def test_what_is_honest_is_not_refused(course: Course, name: str) -> None:
    assert find(course, HEAD + HONEST[name]) is None


def test_no_right_answer_is_refused(course: Course) -> None:
    right = [bank.solution(course), *bank.variants(course)]
    forbidding = [exercise for exercise in course.exercises.values() if exercise.forbidden]
    assert EXERCISE in {exercise.id for exercise in forbidding}
    for exercise in forbidding:
        texts = {s.modules[exercise.unit].text for s in right if exercise.unit in s.modules}
        assert len(texts) > 1
        for text in texts:
            assert written.find(text, exercise.name, exercise.forbidden) is None


def test_operators_are_seen_in_the_threads_that_are_begun() -> None:
    x = torch.ones(2)
    with Watch() as watch:
        thread = threading.Thread(target=x.softmax, args=(0,))
        thread.start()
        thread.join()
    assert "_softmax" in watch.seen
    with Watch() as watch, ThreadPoolExecutor(2) as pool:
        list(pool.map(torch.exp, [x, x]))
    assert "exp" in watch.seen


def test_what_runs_when_nobody_watches_is_not_seen() -> None:
    x = torch.ones(2)
    with Watch() as watch:
        x.exp()
    thread = threading.Thread(target=x.softmax, args=(0,))
    thread.start()
    thread.join()
    x.log()
    assert watch.seen == {"exp"}


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\n" * 100_000,
        "\n".join(f"a{n} = a{n + 1}" for n in range(30_000)) + "\na30000 = torch",
        DEF + "    return scores" + ".a" * 900,
        DEF + "    return scores" + " + 1" * 900,
        DEF + "    return " + "+".join(["'a'"] * 900),
        "a" + ".b" * 200_000,
        "x = " + "(" * 1000,
        "\0",
    ],
    ids=["many", "a chain", "attributes", "a sum", "a sum of texts", "too deep", "open", "null"],
)
def test_no_text_holds_it_up(course: Course, text: str) -> None:
    began = time.monotonic()
    assert find(course, HEAD + text + "\nstable_softmax = a0\n") is None
    assert time.monotonic() - began < 20
