/* Sorting bucket keys into frozen orders, and searching those; see orders.h.

   Buckets are hashes and so spread evenly: the place of one follows from its value up to some square root
   of n. Two steps of interpolation come within a few places of it; doubling steps and halving find it from
   there, whatever the numbers are. */

#define _XOPEN_SOURCE 700 /* pread */
#define _FILE_OFFSET_BITS 64

#include "orders.h"

#include "bucket_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1024, BUCKETS_AT_ONCE = 65536 };

/* A row of a plane, and a window of it where it lies in a file. */
typedef struct {
    const Order *order;
    size_t row;
    size_t begin, end;
    int failure;
    uint32_t held[WINDOW];
} Row;

static uint32_t little_endian(uint32_t word)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap32(word);
#else
    return word;
#endif
}

static void open_row(Row *row, const Order *order, int plane, size_t number)
{
    row->order = order;
    row->row = (size_t)plane * order->n_orders + number;
    row->begin = row->end = 0;
    row->failure = 0;
}

static int read_window(Row *row, size_t place)
{
    size_t n = row->order->n, length = n < WINDOW ? n : WINDOW;
    size_t begin = place < length / 2 ? 0 : place - length / 2;
    begin = begin < n - length ? begin : n - length;
    size_t done = 0, size = length * sizeof(uint32_t);
    off_t offset = (off_t)(ORDER_HEADER + (row->row * n + begin) * sizeof(uint32_t));
    while (done < size) {
        ssize_t got = pread(row->order->descriptor, (char *)row->held + done, size - done,
                            offset + (off_t)done);
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

/* The number at a place; 0 once the file cannot be read. */
static inline uint32_t at(Row *row, size_t place)
{
    if (row->order->words)
        return little_endian(row->order->words[row->row * row->order->n + place]);
    if ((place < row->begin || place >= row->end) && !row->failure)
        row->failure = read_window(row, place);
    return row->failure ? 0 : little_endian(row->held[place - row->begin]);
}

/* Guesses after the first one. */
enum { GUESSES = 2 };

/* Where a number would be, if numbers were spread evenly. */
static size_t first_guess(const Order *order, uint32_t value)
{
    return (size_t)(((unsigned __int128)value * order->n) >> 32);
}

/* Where it would be, judged by the number at a place. */
static size_t next_guess(const Order *order, uint32_t value, size_t place, uint32_t there)
{
    __int128 n = (__int128)order->n;
    __int128 moved = (__int128)place + ((((__int128)value - there) * n) >> 32);
    return moved < 0 ? 0 : moved >= n ? order->n - 1 : (size_t)moved;
}

/* The first place whose number is not below `value`, from one near it. */
static size_t lower_bound(Row *row, uint32_t value, size_t place)
{
    size_t n = row->order->n;
    uint32_t there = at(row, place);
    size_t low, high; /* numbers below low are smaller; the one at high is not, or there is none */
    if (there < value) {
        size_t step = 1;
        low = place + 1;
        while (n - low >= step && at(row, low + step - 1) < value) {
            low += step;
            step *= 2;
        }
        high = n - low >= step ? low + step - 1 : n;
    } else {
        size_t step = 1;
        high = place;
        while (high >= step && at(row, high - step) >= value) {
            high -= step;
            step *= 2;
        }
        low = high >= step ? high - step + 1 : 0;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (at(row, middle) < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The same, in a row that is read as it is searched. */
static size_t search_row(Row *row, uint32_t value)
{
    size_t place = first_guess(row->order, value);
    for (int guess = 0; guess < GUESSES; guess++)
        place = next_guess(row->order, value, place, at(row, place));
    return lower_bound(row, value, place);
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

void approach_keys(const Order *order, const int64_t *keys, size_t n, size_t *places)
{
    const uint32_t *rows[KEYS_AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        size_t band;
        int is_there = find_order(order, keys[i], &band);
        rows[i] = is_there && order->words
                      ? order->words + ((size_t)BUCKET * order->n_orders + band) * order->n
                      : NULL;
        places[i] = is_there ? first_guess(order, bucket_of(keys[i])) : 0;
        if (rows[i])
            __builtin_prefetch(rows[i] + places[i]);
    }
    for (int guess = 0; guess < GUESSES; guess++)
        for (size_t i = 0; i < n; i++)
            if (rows[i]) {
                uint32_t there = little_endian(rows[i][places[i]]);
                places[i] = next_guess(order, bucket_of(keys[i]), places[i], there);
                __builtin_prefetch(rows[i] + places[i]);
            }
}

static int read_sum(const Order *order, size_t block, uint32_t *sum)
{
    size_t done = 0, n_words = N_PLANES * order->n_orders * order->n;
    off_t offset = (off_t)(ORDER_HEADER + (n_words + block) * sizeof *sum);
    while (done < sizeof *sum) {
        ssize_t got =
            pread(order->descriptor, (char *)sum + done, sizeof *sum - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? ORDER_UNREADABLE : ORDER_DAMAGED;
        done += (size_t)got;
    }
    return 0;
}

/* Compare entries, from the block of one to the block of another, with their sums. */
static int check_entries(Row *buckets, Row *places, size_t first, size_t last)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    const Order *order = buckets->order;
    for (size_t block = first / SUMMED; block <= last / SUMMED; block++) {
        size_t begin = block * SUMMED;
        size_t end = order->n - begin < SUMMED ? order->n : begin + SUMMED;
        uint64_t bucket = 1, place = 1;
        for (size_t i = begin; i < end; i++) {
            bucket = bucket * factor + at(buckets, i);
            place = place * factor + at(places, i);
        }
        uint32_t sum = 0;
        int failure = 0;
        if (order->words)
            sum = order->sums[block];
        else
            failure = read_sum(order, block, &sum);
        if (failure)
            return failure;
        if (little_endian(sum) != (uint32_t)(((bucket * factor + place) * factor) >> 32))
            return ORDER_DAMAGED;
    }
    return 0;
}

int find_key(const Order *order, int64_t key, size_t place, int64_t limit, Found *found)
{
    size_t band;
    uint32_t bucket = bucket_of(key);
    if (!find_order(order, key, &band))
        return 0;
    Row buckets;
    open_row(&buckets, order, BUCKET, band);
    place = order->words ? lower_bound(&buckets, bucket, place) : search_row(&buckets, bucket);
    if (buckets.failure)
        return buckets.failure;
    int is_checked = band == order->n_orders - 1 && (order->sums || !order->words);
    if (!is_checked && (place == order->n || at(&buckets, place) != bucket))
        return buckets.failure;
    Row places;
    open_row(&places, order, PLACE, band);
    size_t before = place ? place - 1 : 0;
    for (; place < order->n && at(&buckets, place) == bucket; place++) {
        uint32_t local = at(&places, place);
        if (buckets.failure || places.failure)
            break;
        if (local >= order->n)
            return ORDER_DAMAGED;
        if (order->first + (int64_t)local < limit && append(found, order->first + (int64_t)local))
            return WORK_MEMORY;
    }
    int failure = buckets.failure ? buckets.failure : places.failure;
    if (failure || !is_checked)
        return failure;
    size_t last = place < order->n ? place : order->n - 1;
    failure = check_entries(&buckets, &places, before, last);
    return buckets.failure ? buckets.failure : failure;
}

/* A place in one band of a file, and the bucket there; past the end, the last number that there is. */
typedef struct {
    Row buckets, places;
    size_t n, place;
    uint64_t bucket;
} Cursor;

static void look(Cursor *cursor)
{
    if (cursor->place < cursor->n)
        cursor->bucket = at(&cursor->buckets, cursor->place);
    else
        cursor->bucket = UINT64_MAX;
}

static int failure_of(const Cursor *cursor)
{
    return cursor->buckets.failure ? cursor->buckets.failure : cursor->places.failure;
}

static void open_cursor(Cursor *cursor, const Order *order, size_t band, uint32_t low)
{
    open_row(&cursor->buckets, order, BUCKET, band);
    open_row(&cursor->places, order, PLACE, band);
    cursor->n = order->n;
    cursor->place = low && order->n ? search_row(&cursor->buckets, low) : 0;
    look(cursor);
}

/* Append the members of a bucket in one file that are below the limit, and pass over the others. */
static int take_members(Cursor *cursor, uint64_t bucket, int64_t limit, Found *members)
{
    const Order *order = cursor->buckets.order;
    while (cursor->bucket == bucket) {
        int64_t local = at(&cursor->places, cursor->place);
        if ((size_t)local >= cursor->n)
            return ORDER_DAMAGED;
        if (order->first + local < limit && append(members, order->first + local))
            return WORK_MEMORY;
        cursor->place++;
        look(cursor);
    }
    return failure_of(cursor);
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
    for (size_t i = 0; i < n && !failure; i++) {
        if (band >= orders[i].n_orders - 1)
            continue;
        open_cursor(&cursors[opened], &orders[i], band, low);
        failure = failure_of(&cursors[opened++]);
    }
    if (!failure)
        failure = merge_cursors(cursors, opened, band, high, limit, above, groups, listener);
    free(cursors);
    return failure;
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
