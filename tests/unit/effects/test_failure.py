"""What is kept of an exception can be written anywhere, whatever its author put into it."""

from __future__ import annotations

import pytest

from cellule.effects.failure import TRACE_CHARS_MAX, error_text, trace_text


def raised(text: str) -> ValueError:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_a_traceback_with_half_a_character_can_be_written_to_a_file():
    """A lone surrogate in an adapter's text broke every handler that writes UTF-8."""
    text = trace_text(raised("half \ud800"))
    assert text.encode("utf-8").endswith(rb"ValueError: half \ud800")


def test_the_end_of_a_long_traceback_is_kept():
    text = trace_text(raised("x" * 10 * TRACE_CHARS_MAX + " the end"))
    assert len(text) == TRACE_CHARS_MAX
    assert text.endswith(" the end")


async def test_a_stop_iteration_names_its_place_although_python_renames_it():
    """`next()` of something empty is a mistake of many, and its reason named a file of ours."""

    async def adapter():
        return next(iter(()))

    with pytest.raises(RuntimeError) as renamed:
        await adapter()
    said = error_text(renamed.value)
    assert said.startswith("RuntimeError: coroutine raised StopIteration: StopIteration: ")
    assert "test_failure.py:" in said


def test_a_group_of_errors_that_nobody_raised_names_its_own_place():
    with pytest.raises(ExceptionGroup) as both:
        raise ExceptionGroup("both", [ValueError("a"), ValueError("b")])
    assert "ValueError: a (" in error_text(both.value)
    assert "test_failure.py:" in error_text(both.value)
