"""Worlds and cells as one file that other tools can read: CAR files of IPLD blocks, out and in."""
