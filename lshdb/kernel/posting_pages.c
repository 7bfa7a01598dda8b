/* See posting_pages.h. */

#include "posting_pages.h"

#include <string.h>

enum { KEY_LEAF = 10, RECORD_HEAD = 4, KEY_BYTES = 8, KEY_TYPE = 6 };

uint8_t type_of_width(size_t width)
{
    static const uint8_t types[] = {0, 1, 2, 3, 4, 0, 5, 0, 6};
    return width < sizeof types ? types[width] : 0;
}

static size_t record_bytes(size_t width) { return RECORD_HEAD + KEY_BYTES + width; }

size_t postings_a_leaf(size_t width)
{
    return (PAGE_BYTES - LEAF_HEADER) / (record_bytes(width) + POINTER);
}

static void lay_leaf(uint8_t *page, const int64_t *keys, const int64_t *signatures, size_t n,
                     size_t width)
{
    size_t size = record_bytes(width), start = PAGE_BYTES - n * size;
    const uint8_t head[RECORD_HEAD] = {(uint8_t)(size - 1), 3, KEY_TYPE, type_of_width(width)};
    memset(page, 0, start);
    head_page(page, KEY_LEAF, n, start);
    uint8_t *pointer = page + LEAF_HEADER, *record = page + start;
    for (size_t at = 0; at < n; at++) {
        pointer = big_endian(pointer, start + at * size, POINTER);
        memcpy(record, head, RECORD_HEAD);
        record = big_endian(record + RECORD_HEAD, (uint64_t)keys[at], KEY_BYTES);
        record = big_endian(record, (uint64_t)signatures[at], width);
    }
}

void lay_postings(const int64_t *keys, const int64_t *signatures, size_t n, size_t per_leaf,
                  size_t width, uint8_t *pages, size_t n_leaves)
{
    for (size_t leaf = 0; leaf < n_leaves; leaf++) {
        size_t begin = leaf * (per_leaf + 1), left = n - begin;
        lay_leaf(pages + leaf * PAGE_BYTES, keys + begin, signatures + begin,
                 left < per_leaf ? left : per_leaf, width);
    }
}
