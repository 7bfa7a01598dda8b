/* See row_pages.h. Cells are written from the end of a leaf towards its pointers, as SQLite does. */

#include "row_pages.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE_LEAF = 13, TABLE_ROOT = 5, ROOT_HEADER = 12, CHILD = 4 };
enum { FIRST_LEAF = 2, VARINT_BYTES = 9 };

/* SQLite's variable-length integer: seven bits a byte, the highest first; a ninth byte has eight. */
static size_t varint_bytes(uint64_t number)
{
    size_t length = 1;
    while (length < VARINT_BYTES && number >> 7 * length)
        length++;
    return length;
}

static uint8_t *varint(uint8_t *out, uint64_t number)
{
    size_t length = varint_bytes(number);
    uint8_t *end = out + length;
    if (length == VARINT_BYTES) {
        out[--length] = (uint8_t)number;
        number >>= 8;
        while (length--) {
            out[length] = (uint8_t)((number & 127) | 128);
            number >>= 7;
        }
        return end;
    }
    while (length--) {
        out[length] = (uint8_t)((number & 127) | (out + length + 1 < end ? 128 : 0));
        number >>= 7;
    }
    return end;
}

RowValue null_value(void) { return (RowValue){0, NULL, 0}; }

RowValue whole_value(int64_t number)
{
    uint64_t type;
    if (number == 0 || number == 1)
        type = 8 + (uint64_t)number;
    else if (number >= -128 && number < 128)
        type = 1;
    else if (number >= -32768 && number < 32768)
        type = 2;
    else if (number >= -8388608 && number < 8388608)
        type = 3;
    else if (number >= INT32_MIN && number <= INT32_MAX)
        type = 4;
    else if (number >= -((int64_t)1 << 47) && number < (int64_t)1 << 47)
        type = 5;
    else
        type = 6;
    return (RowValue){type, NULL, number};
}

RowValue text_value(const uint8_t *data, size_t length)
{
    return (RowValue){13 + 2 * (uint64_t)length, data, 0};
}

RowValue bytes_value(const uint8_t *data, size_t length)
{
    return (RowValue){12 + 2 * (uint64_t)length, data, 0};
}

/* The bytes of a value behind the header of its record. */
static size_t value_bytes(uint64_t type)
{
    static const uint8_t widths[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
    return type < 12 ? widths[type] : (size_t)((type - 12) / 2);
}

static uint8_t *page_of(const RowPages *pages, size_t number)
{
    return pages->bytes + number * PAGE_BYTES;
}

/* Add an empty page: 0 if there is no memory. */
static int add_page(RowPages *pages)
{
    if (pages->n_pages == pages->n_held) {
        size_t held = pages->n_held ? 2 * pages->n_held : 8;
        uint8_t *moved = realloc(pages->bytes, held * PAGE_BYTES);
        if (!moved)
            return 0;
        pages->bytes = moved;
        pages->n_held = held;
    }
    memset(page_of(pages, pages->n_pages++), 0, PAGE_BYTES);
    return 1;
}

int begin_pages(RowPages *pages)
{
    memset(pages, 0, sizeof *pages);
    for (int page = 0; page <= FIRST_LEAF; page++)
        if (!add_page(pages))
            return ROW_NO_MEMORY;
    pages->low = PAGE_BYTES;
    return ROW_PLACED;
}

static void end_leaf(RowPages *pages)
{
    head_page(page_of(pages, pages->n_pages - 1), TABLE_LEAF, pages->n_cells, pages->low);
}

int place_row(RowPages *pages, int64_t rowid, const RowValue *values, size_t n_values)
{
    size_t header = 0, body = 0;
    for (size_t at = 0; at < n_values; at++) {
        header += varint_bytes(values[at].type);
        size_t more = value_bytes(values[at].type);
        if (more > MOST_ROW_BYTES)
            return ROW_LEFT_OUT;
        body += more;
    }
    header += header < 127 ? 1 : 2; /* with its own length; at most 64 columns of nine bytes */
    size_t payload = header + body;
    if (payload > MOST_ROW_BYTES)
        return ROW_LEFT_OUT;
    size_t size = varint_bytes(payload) + varint_bytes((uint64_t)rowid) + payload;
    if (LEAF_HEADER + POINTER * (pages->n_cells + 1) + size > pages->low) {
        if (pages->n_pages - FIRST_LEAF == MOST_LEAVES)
            return ROW_LEFT_OUT;
        end_leaf(pages);
        if (!add_page(pages))
            return ROW_NO_MEMORY;
        pages->low = PAGE_BYTES;
        pages->n_cells = 0;
    }
    uint8_t *page = page_of(pages, pages->n_pages - 1);
    pages->low -= size;
    big_endian(page + LEAF_HEADER + POINTER * pages->n_cells++, pages->low, POINTER);
    pages->last[pages->n_pages - 1 - FIRST_LEAF] = rowid;
    uint8_t *out = varint(varint(page + pages->low, payload), (uint64_t)rowid);
    out = varint(out, header);
    for (size_t at = 0; at < n_values; at++)
        out = varint(out, values[at].type);
    for (size_t at = 0; at < n_values; at++) {
        size_t width = value_bytes(values[at].type);
        if (values[at].type < 12)
            out = big_endian(out, (uint64_t)values[at].number, width);
        else if (width)
            out = (uint8_t *)memcpy(out, values[at].data, width) + width;
    }
    return ROW_PLACED;
}

void end_pages(RowPages *pages)
{
    end_leaf(pages);
    uint8_t *root = page_of(pages, FIRST_LEAF - 1);
    size_t n_leaves = pages->n_pages - FIRST_LEAF;
    if (n_leaves == 1) { /* a root without cells is none: the leaf is the root */
        memcpy(root, page_of(pages, FIRST_LEAF), PAGE_BYTES);
        pages->n_pages--;
        return;
    }
    size_t low = PAGE_BYTES;
    for (size_t leaf = 0; leaf + 1 < n_leaves; leaf++) {
        low -= CHILD + varint_bytes((uint64_t)pages->last[leaf]);
        varint(big_endian(root + low, FIRST_LEAF + 1 + leaf, CHILD), (uint64_t)pages->last[leaf]);
        big_endian(root + ROOT_HEADER + POINTER * leaf, low, POINTER);
    }
    head_page(root, TABLE_ROOT, n_leaves - 1, low);
    big_endian(root + LEAF_HEADER, FIRST_LEAF + n_leaves, CHILD);
}

void free_pages(RowPages *pages)
{
    free(pages->bytes);
    pages->bytes = NULL;
}
