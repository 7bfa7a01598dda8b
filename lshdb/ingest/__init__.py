"""Documents -> committed batches: add, remove, merge and reindex."""
