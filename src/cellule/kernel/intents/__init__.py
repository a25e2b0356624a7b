"""Intents: requests for effects, from the step that makes one to the receipt that settles it.

    identity   what an intent is called
    book       all intents that are open, and what else the world remembers of them
    gate       whether a request is allowed: grants, then the policy
    desk       what one beat works with, and what all of the following ask
    opening    a step's requests become records; a deleted cell's intents are abandoned
    settling   receipts: from adapters, timers, people and the kernel itself
    operating  what people do with intents: approve, deny, cancel, retry
    schedules  events that the calendar sends
    applying   what the records about intents do to the world
    replaying  the same records read back, and the proof that they fit each other
    proving    whether the parts of a snapshot that tell of intents fit each other

Dispatching, attempts and adapters are the host's. A restore runs `book`, `applying` and `replaying` only.
"""
