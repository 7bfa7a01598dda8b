"""What is on disk: files, schema, transactions. A signature row is bytes to it, a text a body."""
