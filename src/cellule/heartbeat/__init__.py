"""What is built on signals and the tree, and what the kernel does not need: mailboxes."""
