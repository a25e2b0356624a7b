"""The shortest way of plain events from item to step.

`track` is where the events of one schema go, `columns` and `lane` lay them out, `walk` takes their steps.
"""
