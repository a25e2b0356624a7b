"""What happens in a beat: pure decisions, carried out by `state`."""
