"""Every text that a student sees is in the template for translators."""

from __future__ import annotations

import pytest

pytest.importorskip("babel")

from tools import catalogue


@pytest.mark.filterwarnings("ignore")
def test_the_template_is_up_to_date() -> None:
    found, kept = catalogue.texts(catalogue.template()), catalogue.texts(catalogue.committed())
    assert not found - kept, "run: python -m tools.catalogue"
    assert not kept - found, "run: python -m tools.catalogue"


@pytest.mark.filterwarnings("ignore")
def test_every_brace_has_a_name() -> None:
    for text in catalogue.texts(catalogue.template()):
        assert "{}" not in text
