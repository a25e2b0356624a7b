"""Intents: requests for effects, from the step that makes one to the receipt that settles it.

    identity   what an intent is called
    book       all intents that are open, and what else the world remembers of them
    gate       whether a request is allowed: grants, then the policy
    opening    a step's requests become records; a deleted cell's intents are abandoned
    settling   receipts: from adapters, timers, people and the kernel itself
    operating  what people do with intents: approve, deny, cancel, retry
    schedules  events that the calendar sends

Dispatching, attempts and adapters are the host's. Nothing here is run by a restore except `book`.
"""
