/* What all pages of SQLite's file format share (https://sqlite.org/fileformat2.html). */

#ifndef LSHDB_PAGES_H
#define LSHDB_PAGES_H

#include <stddef.h>
#include <stdint.h>

#define PAGE_BYTES 65536u

enum { LEAF_HEADER = 8, POINTER = 2 }; /* bytes */

static inline uint8_t *big_endian(uint8_t *out, uint64_t number, size_t width)
{
    for (size_t place = 0; place < width; place++)
        out[place] = (uint8_t)(number >> 8 * (width - 1 - place));
    return out + width;
}

/* The header of a page whose cells begin at `low`; 0 stands for 65,536. */
static inline void head_page(uint8_t *page, uint8_t kind, size_t n_cells, size_t low)
{
    page[0] = kind;
    big_endian(page + 3, n_cells, 2);
    big_endian(page + 5, low & (PAGE_BYTES - 1), 2);
}

#endif
