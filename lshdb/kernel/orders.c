/* Sorting bucket keys into frozen orders, and searching those; see orders.h.

   A look-up reads a cell: some fifteen postings. It compares all of them with the cell's sum on the way, so
   what it answers is what was written: of this cell, of this order, of the file with this seed. The sum is a
   polynomial modulo 2^64 (Carter and Wegman, 1979), of which the upper 32 bits are kept. */

#define _XOPEN_SOURCE 700 /* pread */
#define _FILE_OFFSET_BITS 64

#include "orders.h"

#include "bucket_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUCKETS_AT_ONCE = 65536, FEW_AHEAD = 64, MANY_AHEAD = 8192 };

static uint32_t little_endian(uint32_t word)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap32(word);
#else
    return word;
#endif
}

static uint16_t little_endian_half(uint16_t word)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap16(word);
#else
    return word;
#endif
}

/* Powers of the factor of a sum, from the first on. */
enum { POWERS = 8 };
static const uint64_t powers[POWERS] = {
    UINT64_C(0x9E3779B97F4A7C15), UINT64_C(0xDF442D22CE4859B9), UINT64_C(0x604A5CE3ADDEF82D),
    UINT64_C(0xD94363FC538227B1), UINT64_C(0x2E2B795F2D10FD85), UINT64_C(0x4BE7956E30A337E9),
    UINT64_C(0x5ECB31E4CCD2721D), UINT64_C(0x06D4B2611BEB6861),
};

static unsigned rest_bits(unsigned bits) { return 32 - bits; }

/* How a posting is laid out: a short row and a long rest, both long, or a long row and a short rest. */
typedef enum { SHORT_ROW, BOTH_LONG, SHORT_REST } Layout;

static Layout layout_of(unsigned bits)
{
    if (bits <= 12)
        return SHORT_ROW;
    return rest_bits(bits) <= 16 ? SHORT_REST : BOTH_LONG;
}

static inline size_t layout_size(Layout layout) { return layout == BOTH_LONG ? 8 : 6; }

static size_t posting_size(unsigned bits) { return layout_size(layout_of(bits)); }

/* Two parts, each of n_orders rows of elements. */
enum { DIRECTORY, POSTINGS, N_PARTS };

static size_t element_size(const Order *order, int part)
{
    return part == DIRECTORY ? 8 : posting_size(order->cell_bits);
}

static size_t row_length(const Order *order, int part)
{
    return part == DIRECTORY ? (size_t)1 << order->cell_bits : order->n;
}

/* Where a part of an order lies, in bytes behind the header. */
static size_t part_offset(const Order *order, int part, size_t number)
{
    size_t offset = 0;
    for (int before = 0; before < part; before++)
        offset += element_size(order, before) * row_length(order, before) * order->n_orders;
    return offset + element_size(order, part) * row_length(order, part) * number;
}

size_t order_bytes(const Order *order) { return part_offset(order, POSTINGS, order->n_orders); }

/* A part of an order, and a window of it where it lies in a file. */
typedef struct {
    size_t offset, size, length;
    size_t begin, end, room;
    unsigned char *window;
} Row;

/* A cell of an order, and those beside it. */
typedef struct {
    const Order *order;
    size_t number;
    size_t ahead; /* elements that are read at once */
    Row rows[N_PARTS];
    size_t n;
    const unsigned char *postings;
} Cell;

static void open_order(Cell *cell, const Order *order, size_t number, size_t ahead)
{
    cell->order = order;
    cell->number = number;
    cell->ahead = ahead;
    for (int part = 0; part < N_PARTS; part++)
        cell->rows[part] = (Row){part_offset(order, part, number),
                                 element_size(order, part),
                                 row_length(order, part),
                                 0,
                                 0,
                                 0,
                                 NULL};
}

static void close_order(Cell *cell)
{
    for (int part = 0; part < N_PARTS; part++)
        free(cell->rows[part].window);
}

static int read_window(const Order *order, Row *row, size_t begin, size_t length)
{
    size_t done = 0, size = length * row->size;
    if (size > row->room) {
        unsigned char *more = realloc(row->window, size);
        if (!more)
            return WORK_MEMORY;
        row->window = more;
        row->room = size;
    }
    off_t offset = (off_t)(ORDER_HEADER + row->offset + begin * row->size);
    while (done < size) {
        ssize_t got =
            pread(order->descriptor, row->window + done, size - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? ORDER_UNREADABLE : ORDER_DAMAGED;
        done += (size_t)got;
    }
    row->begin = begin;
    row->end = begin + length;
    return 0;
}

/* Some elements of a part, which are there. */
static int take(Cell *cell, int part, size_t begin, size_t length, const unsigned char **elements)
{
    Row *row = &cell->rows[part];
    if (cell->order->bytes) {
        *elements = cell->order->bytes + row->offset + begin * row->size;
        return 0;
    }
    if (begin < row->begin || begin + length > row->end) {
        size_t most = row->length - begin, wanted = length > cell->ahead ? length : cell->ahead;
        int failure = read_window(cell->order, row, begin, wanted < most ? wanted : most);
        if (failure)
            return failure;
    }
    *elements = row->window + (begin - row->begin) * row->size;
    return 0;
}

static inline uint32_t word_at(const unsigned char *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return little_endian(word);
}

static inline uint32_t half_at(const unsigned char *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return little_endian_half(half);
}

static inline uint32_t row_at(const unsigned char *posting, Layout layout)
{
    return layout == SHORT_ROW ? half_at(posting) : word_at(posting);
}

static inline uint32_t rest_at(const unsigned char *posting, Layout layout)
{
    if (layout == SHORT_REST)
        return half_at(posting + 4);
    return word_at(posting + (layout == SHORT_ROW ? 2 : 4));
}

/* The sum of a cell from the sum of its postings. */
static uint32_t whole_sum(uint64_t sum, uint64_t seed, size_t cell, size_t place, size_t n)
{
    const uint64_t factor = powers[0];
    uint64_t head = ((seed * factor + cell) * factor + place) * factor + n;
    return (uint32_t)(((sum + head) * factor) >> 32);
}

/* Sum of postings, and how many rests are below one and equal to it. */
typedef struct {
    uint64_t sum;
    size_t below, equal;
} Counted;

static inline Counted count_rests(const unsigned char *postings, size_t n, Layout layout,
                                  uint32_t rest)
{
    Counted counted = {0, 0, 0};
    uint64_t base = 1;
    for (size_t begin = 0; begin < n; begin += POWERS) {
        size_t length = n - begin < POWERS ? n - begin : POWERS;
        uint64_t sum = 0;
        for (size_t i = 0; i < length; i++, postings += layout_size(layout)) {
            uint32_t there = rest_at(postings, layout);
            sum += ((uint64_t)there << 32 | row_at(postings, layout)) * powers[i];
            counted.below += there < rest;
            counted.equal += there == rest;
        }
        counted.sum += base * sum;
        base *= powers[POWERS - 1];
    }
    return counted;
}

static Counted count_postings(const unsigned char *postings, size_t n, unsigned bits, uint32_t rest)
{
    switch (layout_of(bits)) {
    case SHORT_ROW:
        return count_rests(postings, n, SHORT_ROW, rest);
    case SHORT_REST:
        return count_rests(postings, n, SHORT_REST, rest);
    default:
        return count_rests(postings, n, BOTH_LONG, rest);
    }
}

/* Go to a cell, and compare what is in it with its sum. */
static int open_cell(Cell *cell, size_t number, uint32_t rest, Counted *counted)
{
    const Order *order = cell->order;
    size_t n_cells = (size_t)1 << order->cell_bits, entries = number + 1 < n_cells ? 2 : 1;
    const unsigned char *directory;
    int failure = take(cell, DIRECTORY, number, entries, &directory);
    if (failure)
        return failure;
    size_t begin = word_at(directory), end = entries == 2 ? word_at(directory + 8) : order->n;
    if (begin > end || end > order->n)
        return ORDER_DAMAGED;
    uint32_t sum = word_at(directory + 4);
    cell->n = end - begin;
    failure = take(cell, POSTINGS, begin, cell->n, &cell->postings);
    if (failure)
        return failure;
    *counted = count_postings(cell->postings, cell->n, order->cell_bits, rest);
    uint64_t seed = order_seed(order->seed, cell->number);
    return sum == whole_sum(counted->sum, seed, number, begin, cell->n) ? 0 : ORDER_DAMAGED;
}

static int append(Found *found, int64_t id)
{
    if (found->n == found->room) {
        size_t room = found->room ? 2 * found->room : 64;
        int64_t *more = realloc(found->ids, room * sizeof *more);
        if (!more)
            return WORK_MEMORY;
        found->ids = more;
        found->room = room;
    }
    found->ids[found->n++] = id;
    return 0;
}

/* Append the signature of a posting of a cell if it is below the limit. */
static int append_posting(const Cell *cell, size_t place, int64_t limit, Found *found)
{
    const Order *order = cell->order;
    Layout layout = layout_of(order->cell_bits);
    uint32_t local = row_at(cell->postings + place * layout_size(layout), layout);
    if (local >= order->n)
        return ORDER_DAMAGED;
    int64_t id = order->first + (int64_t)local;
    return id < limit ? append(found, id) : 0;
}

/* The band of a key among the orders; 0 if there is no such order. */
static int find_order(const Order *order, int64_t key, size_t *band)
{
    *band = band_of(key);
    if (*band == CONTENT_BAND)
        *band = order->n_orders - 1;
    else if (*band >= order->n_orders - 1)
        return 0;
    return order->n > 0;
}

static size_t cell_of(const Order *order, uint32_t bucket)
{
    return (size_t)((uint64_t)bucket >> rest_bits(order->cell_bits));
}

static uint32_t rest_of(const Order *order, uint32_t bucket)
{
    return order->cell_bits ? bucket & ((UINT32_C(1) << rest_bits(order->cell_bits)) - 1) : bucket;
}

void approach_keys(const Order *order, const int64_t *keys, size_t n)
{
    const unsigned char *directories[KEYS_AT_ONCE];
    size_t bands[KEYS_AT_ONCE], size = posting_size(order->cell_bits);
    if (!order->bytes)
        return;
    for (size_t i = 0; i < n; i++) {
        directories[i] = NULL;
        if (!find_order(order, keys[i], &bands[i]))
            continue;
        directories[i] = order->bytes + part_offset(order, DIRECTORY, bands[i])
                         + 8 * cell_of(order, bucket_of(keys[i]));
        __builtin_prefetch(directories[i]);
    }
    for (size_t i = 0; i < n; i++) {
        size_t place = directories[i] ? word_at(directories[i]) : order->n;
        if (place >= order->n)
            continue;
        const unsigned char *postings =
            order->bytes + part_offset(order, POSTINGS, bands[i]) + size * place;
        __builtin_prefetch(postings);
        __builtin_prefetch(postings + 64);
    }
}

int find_key(const Order *order, int64_t key, int64_t limit, Found *found)
{
    size_t band;
    if (!find_order(order, key, &band))
        return 0;
    Cell cell;
    Counted counted;
    open_order(&cell, order, band, FEW_AHEAD);
    int failure =
        open_cell(&cell, cell_of(order, bucket_of(key)), rest_of(order, bucket_of(key)), &counted);
    for (size_t i = 0; !failure && i < counted.equal; i++)
        failure = append_posting(&cell, counted.below + i, limit, found);
    close_order(&cell);
    return failure;
}

/* A posting of one band of a file, and the bucket there; past the end, the last number that there is. */
typedef struct {
    Cell cell;
    size_t number, place;
    uint64_t bucket;
} Cursor;

/* Look at the posting of the cursor, or at the first one behind it. */
static int look(Cursor *cursor)
{
    const Order *order = cursor->cell.order;
    Layout layout = layout_of(order->cell_bits);
    Counted counted;
    while (cursor->place == cursor->cell.n) {
        if (++cursor->number >> order->cell_bits) {
            cursor->bucket = UINT64_MAX;
            return 0;
        }
        int failure = open_cell(&cursor->cell, cursor->number, 0, &counted);
        if (failure)
            return failure;
        cursor->place = 0;
    }
    cursor->bucket = (uint64_t)cursor->number << rest_bits(order->cell_bits)
                     | rest_at(cursor->cell.postings + cursor->place * layout_size(layout), layout);
    return 0;
}

static int open_cursor(Cursor *cursor, const Order *order, size_t band, uint32_t low)
{
    Counted counted;
    open_order(&cursor->cell, order, band, MANY_AHEAD);
    cursor->number = cell_of(order, low);
    int failure = open_cell(&cursor->cell, cursor->number, rest_of(order, low), &counted);
    if (failure)
        return failure;
    cursor->place = counted.below;
    return look(cursor);
}

/* Append the members of a bucket in one file that are below the limit, and pass over the others. */
static int take_members(Cursor *cursor, uint64_t bucket, int64_t limit, Found *members)
{
    int failure = 0;
    while (cursor->bucket == bucket && !failure) {
        failure = append_posting(&cursor->cell, cursor->place++, limit, members);
        if (!failure)
            failure = look(cursor);
    }
    return failure;
}

static int merge_cursors(Cursor *cursors, size_t n, size_t band, uint32_t high, int64_t limit,
                         size_t above, Groups *groups, const Listener *listener)
{
    for (size_t taken = 1;; taken++) {
        uint64_t bucket = UINT64_MAX;
        for (size_t i = 0; i < n; i++)
            bucket = cursors[i].bucket < bucket ? cursors[i].bucket : bucket;
        if (bucket > high)
            return WORK_DONE;
        size_t before = groups->members.n;
        for (size_t i = 0; i < n; i++) {
            int failure = cursors[i].bucket == bucket
                              ? take_members(&cursors[i], bucket, limit, &groups->members)
                              : 0;
            if (failure)
                return failure;
        }
        size_t size = groups->members.n - before;
        if (size <= above)
            groups->members.n = before;
        else if (append(&groups->keys, key_from(band, (uint32_t)bucket))
                 || append(&groups->sizes, (int64_t)size))
            return WORK_MEMORY;
        if (taken % BUCKETS_AT_ONCE == 0 && is_stopped(listener))
            return WORK_STOPPED;
    }
}

int group_keys(const Order *orders, size_t n, size_t band, uint32_t low, uint32_t high,
               int64_t limit, size_t above, Groups *groups, const Listener *listener)
{
    Cursor *cursors = malloc((n + 1) * sizeof *cursors);
    if (!cursors)
        return WORK_MEMORY;
    int failure = 0;
    size_t opened = 0;
    for (size_t i = 0; i < n && !failure; i++)
        if (band < orders[i].n_orders - 1 && orders[i].n)
            failure = open_cursor(&cursors[opened++], &orders[i], band, low);
    if (!failure)
        failure = merge_cursors(cursors, opened, band, high, limit, above, groups, listener);
    while (opened)
        close_order(&cursors[--opened].cell);
    free(cursors);
    return failure;
}

int pack_cells(const uint32_t *buckets, const uint32_t *rows, size_t n, unsigned bits, size_t first,
               size_t end, size_t place, uint64_t seed, uint32_t *directory, void *postings)
{
    const Layout layout = layout_of(bits);
    const size_t size = layout_size(layout), row_size = layout == SHORT_ROW ? 2 : 4;
    size_t at = 0;
    const Order order = {.cell_bits = bits};
    unsigned char *packed = postings;
    for (size_t cell = first; cell < end; cell++) {
        size_t begin = at;
        for (; at < n && cell_of(&order, little_endian(buckets[at])) == cell; at++) {
            uint32_t rest = rest_of(&order, little_endian(buckets[at])), word = little_endian(rest);
            /* the lower half of a little-endian number is its first bytes */
            memcpy(packed + at * size, &rows[at], row_size);
            memcpy(packed + at * size + row_size, &word, size - row_size);
        }
        Counted counted = count_postings(packed + begin * size, at - begin, bits, 0);
        *directory++ = little_endian((uint32_t)(place + begin));
        *directory++ = little_endian(whole_sum(counted.sum, seed, cell, place + begin, at - begin));
    }
    return at == n;
}

enum { DIGIT_BITS = 11, DIGIT = 1 << DIGIT_BITS, DIGITS = 3 };

/* A bucket in the upper half, a place in the lower. */
typedef uint64_t Entry;

/* One pass of a radix sort, which keeps equal digits as they are; 0 if all are equal. */
static int sort_digit(const Entry *entries, Entry *sorted, size_t n, unsigned shift)
{
    size_t starts[DIGIT] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++)
        starts[entries[i] >> shift & (DIGIT - 1)]++;
    if (starts[entries[0] >> shift & (DIGIT - 1)] == n)
        return 0;
    for (size_t i = 0; i < DIGIT; i++) {
        size_t count = starts[i];
        starts[i] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        sorted[starts[entries[i] >> shift & (DIGIT - 1)]++] = entries[i];
    return 1;
}

/* Sort by the upper half, digit by digit from the lowest; where they are afterwards. */
static Entry *sort_entries(Entry *entries, Entry *other, size_t n)
{
    for (unsigned digit = 0; digit < DIGITS; digit++)
        if (sort_digit(entries, other, n, 32 + digit * DIGIT_BITS)) {
            Entry *swapped = entries;
            entries = other;
            other = swapped;
        }
    return entries;
}

int sort_orders(const int64_t *keys, size_t n, size_t n_orders, uint32_t *planes,
                const Listener *listener)
{
    if (!n)
        return WORK_DONE;
    Entry *entries = malloc(2 * n * sizeof *entries);
    int result = entries ? WORK_DONE : WORK_MEMORY;
    for (size_t number = 0; number < n_orders && result == WORK_DONE; number++) {
        for (size_t i = 0; i < n; i++)
            entries[i] = (Entry)bucket_of(keys[i * n_orders + number]) << 32 | i;
        const Entry *sorted = sort_entries(entries, entries + n, n);
        uint32_t *bucket = planes + number * n, *place = bucket + n_orders * n;
        for (size_t i = 0; i < n; i++) {
            bucket[i] = little_endian((uint32_t)(sorted[i] >> 32));
            place[i] = little_endian((uint32_t)sorted[i]);
        }
        if (is_stopped(listener))
            result = WORK_STOPPED;
    }
    free(entries);
    return result;
}
