/* Postings as leaves of an index B-tree in SQLite's file format (https://sqlite.org/fileformat2.html).

   A leaf is a page of PAGE_BYTES. All records are of one size: a length; a header of three bytes, its own length
   and the types of both columns; the key in eight bytes; and the signature in `width`. */

#ifndef LSHDB_POSTING_PAGES_H
#define LSHDB_POSTING_PAGES_H

#include "pages.h"

/* The type by which a record names a whole number of `width` bytes; 0 if there is none. */
uint8_t type_of_width(size_t width);

/* The most postings of one leaf. */
size_t postings_a_leaf(size_t width);

/* Fill leaves with `per_leaf` postings each. The one behind those of a leaf is left out, because it stands between
   this leaf and the next; the last leaf may have fewer. `n` is above (n_leaves - 1) (per_leaf + 1) and at most
   n_leaves (per_leaf + 1). Of each signature the lowest `width` bytes are written. */
void lay_postings(const int64_t *keys, const int64_t *signatures, size_t n, size_t per_leaf,
                  size_t width, uint8_t *pages, size_t n_leaves);

#endif
