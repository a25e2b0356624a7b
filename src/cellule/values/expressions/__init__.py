"""Expressions: CEL over plain values, for guards, policies and filters.

`compile_expression` accepts the part of CEL that gives the same answer in every process, and refuses the
rest when it is written, not when it runs. `Expression.evaluate` answers or raises `ExpressionFault`.
Reading order: `syntax`, `tokens`, `parser`, `compiler`, `macros`, `operators`, `functions`, `expression`.
"""

from __future__ import annotations

from cellule.values.expressions.expression import Expression, compile_expression
from cellule.values.expressions.fault import ExpressionFault

__all__ = ["Expression", "ExpressionFault", "compile_expression"]
