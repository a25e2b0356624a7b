"""What is on its way into a world: sends, rows of the inbox, requests to the owner."""
