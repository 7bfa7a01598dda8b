/* Rows of SQL as the pages of a table in SQLite's file format (https://sqlite.org/fileformat2.html): a B-tree
   by rowid, with a root and one level of leaves below it. */

#ifndef LSHDB_ROW_PAGES_H
#define LSHDB_ROW_PAGES_H

#include "pages.h"

#define MOST_COLUMNS 64
#define MOST_ROW_BYTES 8192 /* a longer row is worth a statement of its own */
#define MOST_LEAVES 4000    /* a root has room for 4,368 */

/* A value of a row. Its type is that of the record format: NULL 0, texts from 13 and bytes from 12 on in steps
   of two. `data` is not read for the others. */
typedef struct {
    uint64_t type;
    const uint8_t *data;
    int64_t number;
} RowValue;

RowValue null_value(void);
RowValue whole_value(int64_t number);
RowValue text_value(const uint8_t *data, size_t length);
RowValue bytes_value(const uint8_t *data, size_t length);

/* Pages from 1 on, of which the first is left to the caller and the second is the root. `last` is the largest
   rowid of each leaf. */
typedef struct {
    uint8_t *bytes;
    size_t n_pages, n_held;
    int64_t last[MOST_LEAVES];
    size_t low,
        n_cells; /* of the leaf that is being filled: where its cells begin, and how many it has */
} RowPages;

enum { ROW_PLACED, ROW_LEFT_OUT, ROW_NO_MEMORY };

/* Begin; the others may follow. Returns ROW_PLACED or ROW_NO_MEMORY. */
int begin_pages(RowPages *pages);

/* Put a row behind the others; its rowid is larger than theirs. ROW_LEFT_OUT: it is too long, or there are as
   many leaves as a root has room for. */
int place_row(RowPages *pages, int64_t rowid, const RowValue *values, size_t n_values);

/* Write the root. */
void end_pages(RowPages *pages);

void free_pages(RowPages *pages);

#endif
