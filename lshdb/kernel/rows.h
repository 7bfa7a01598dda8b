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

enum { ROW_UNREADABLE = -3, ROW_MISSING = -4, ROW_OUTSIDE = -5 };

/* Find rows in a buffer, or take the descriptor of their file; 0 with an exception set. */
int take_source(PyObject *source, Rows *rows, Py_buffer *held);

/* Where a row is: in memory, or read to `held`. Sets `failure`, with errno if it is ROW_UNREADABLE. */
const uint16_t *row_at(const Rows *rows, int64_t id, uint16_t *held, int *failure);

/* How queries are compared with rows. */
typedef struct {
    Rows rows;
    const Level *level;
    int64_t least; /* equal slots */
    size_t bands, height;
    int is_bits;
} Comparing;

/* A row that agrees with a query in a band. */
typedef struct {
    int64_t query, id, equal, matched;
} AgreeingRow;

/* In memory that the caller frees. */
typedef struct {
    AgreeingRow *rows;
    size_t n, room;
} AgreeingRows;

/* Append those of n rows that agree with a query in a band and have enough equal slots, in order of number.
   `ids` are their numbers, repeated or not, and are sorted. Returns WORK_DONE, or why not. */
int compare_candidates(const Comparing *job, int64_t query, const uint16_t *row, int64_t *ids,
                       size_t n, AgreeingRows *found, const Listener *listener);

/* Set the exception of a failure; `reason` was errno. Returns NULL. */
PyObject *say_row(int failure, int reason);

#endif
