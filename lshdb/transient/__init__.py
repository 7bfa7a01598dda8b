"""An index that lasts for one question: rows, orders and texts in temporary files, without SQL."""
