"""The manifest: a world's code and wiring as typed, validated data. Routing is a function of it."""
