"""How requests for effects are opened, judged, settled and operated."""
