"""`event.publish`: messages to the streams of NATS JetStream, each stored once.

Reading order: `types` (asked and answered), `options` (where the servers are), `connection` (one for all
attempts), `adapter`. Only `connection` and `adapter` know the package `nats`.
"""
