/* Signature rows in memory or in an open file, read one by one (bind_queries.c). */

#ifndef LSHDB_ROWS_H
#define LSHDB_ROWS_H

#include "binding.h"

/* Rows in memory, or in an open file from `offset` on. */
typedef struct {
    const uint16_t *words;
    int descriptor;
    int64_t offset, n;
    size_t row_words;
} Rows;

enum { ROW_UNREADABLE = -3, ROW_MISSING = -4 };

/* Find rows in a buffer, or take the descriptor of their file; 0 with an exception set. */
int take_source(PyObject *source, Rows *rows, Py_buffer *held);

/* Where a row is: in memory, or read to `held`. Sets `failure`, with errno if it is ROW_UNREADABLE. */
const uint16_t *row_at(const Rows *rows, int64_t id, uint16_t *held, int *failure);

/* Set the exception of a failure; `reason` was errno. Returns NULL. */
PyObject *say_row(int failure, int reason);

#endif
