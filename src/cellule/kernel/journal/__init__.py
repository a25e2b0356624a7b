"""What a journal says: record kinds, frames, and the bytes of both."""
