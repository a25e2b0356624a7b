"""Cases of the heartbeat's rules in a file, run against the real implementation.

    python -m cellule.testing.vectors FILE

`document` reads the file, `report` compares what a case expects with what came out, `real` is what is tested.
"""
