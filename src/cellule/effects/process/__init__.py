"""`process.run`: allowed commands, without a shell, within limits, and nothing left behind.

Reading order: `types` (asked and answered), `adapter` (which program, and its end), `child` (the node's
side of a running command), `supervisor` (the program between node and command).
"""
