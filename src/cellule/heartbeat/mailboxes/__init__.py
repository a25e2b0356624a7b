"""Mailboxes: messages with ids and an end, in the tree.

`message_ids` names a message, `ttl` says until when it is kept, `expiry` finds what is due; all are pure.
"""
