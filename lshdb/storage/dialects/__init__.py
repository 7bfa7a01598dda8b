"""One module a database; nothing outside this folder knows which database it talks to."""
