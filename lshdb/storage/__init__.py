"""What is on disk: files, schema, transactions. Here a signature row is bytes, a text a body."""
