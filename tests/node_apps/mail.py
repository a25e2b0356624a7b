"""An app with mailboxes, and nothing else."""

from cellule import App

app = App("mail")
app.mailboxes()
