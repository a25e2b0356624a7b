"""The numbers of aggregates."""

from __future__ import annotations

MEASURES_MAX = 100  # measures of one aggregate
DISTINCT_DEFAULT = 1_000  # distinct values a measure keeps, where the module does not say
DISTINCT_MAX = 10_000  # and the most it may say
DISTINCT_BYTES_MAX = 256  # bytes of one distinct value, encoded; longer ones are refused
WINDOWS_DEFAULT = 16  # windows of one namespace that are open at once, where the module does not say
WINDOWS_MAX = 1_000  # and the most it may say
BATCH_DEFAULT = 1_000  # items after which a batch is told, where the module does not say
BATCH_MAX = 1_000_000_000
STATE_BYTES_MAX = 500_000  # bytes of one namespace's state; an item that would exceed it is refused
ENDS_BYTES_MAX = 450_000  # bytes of what is told when all windows end together, beside their results
END_BYTES = 170  # of what is told of one window, beside its module and namespace; it is told twice
EXTREME_BYTES_MAX = 4_096  # bytes of a least or greatest value, encoded
WINDOW_NS_MAX = 10 * 366 * 86_400 * 1_000_000_000
AHEAD_NS_DEFAULT = 86_400 * 1_000_000_000  # event time ahead of world time, where the module does not say
DECIMAL_DIGITS = 900  # digits of a sum; one that needs more is refused
AVERAGE_DIGITS = 28  # significant digits of an average that does not end earlier
