"""Sorted sets on disk, larger than memory.

    sorted_rows.py      pairs of texts, of any length: by SQLite, in a temporary database
    sorted_numbers.py   numbers in columns, each once: a column at a time is read back and sorted;
                        pairs of numbers, each many times: sorted runs of distinct pairs, merged

There are three kinds because the data differ. A column of keys needs no runs and no merge, two
passes over 8 bytes a key. Pairs of numbers come up to once a band, so they are counted before they
go to disk. Texts of any length take the comparison and the pages of a database.
"""
