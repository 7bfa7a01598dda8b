"""Files and processes, whatever is in them: the ground under storage, documents and exports.

descriptors.py   reading, writing and syncing at a place of an open file; syncing a folder
own_files.py     what of an index may be opened, written to and removed
mounts.py        file systems that other hosts may change, too
rights.py        owner, group, mode and access control list of a new file
whole_files.py   files for the user, each of which is there whole or not there
process.py       which process made something: connections and locks do not survive a fork
"""
