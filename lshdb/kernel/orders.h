/* Frozen orders: sorted bucket keys with the signatures in them, as they lie in a file (orders.c). */

#ifndef LSHDB_ORDERS_H
#define LSHDB_ORDERS_H

#include "kernel.h"

/* An order is divided into 2^k cells by the upper k bits of a bucket. Behind the header lie the
   directories of all orders (for each cell the first place and a sum of what is in it, 32 bits each), and
   then their postings: the row (the signature among those of the file; 16 bits if k is at most 12, else 32), and
   the rest of the bucket, its lower 32 - k bits (16 bits if k is at least 16, else 32). They are in order of
   bucket, then of row.
   params/order_layout.py has this in Python. */
#define ORDER_HEADER 128

enum { LARGEST_CELL = 16 };

static inline unsigned cell_bits(size_t n)
{
    unsigned bits = 0;
    for (n /= LARGEST_CELL; n; n >>= 1)
        bits++;
    return bits;
}

/* The numbers are in memory, or else at ORDER_HEADER of an open file. */
typedef struct {
    const unsigned char *bytes;
    int descriptor;
    unsigned cell_bits;
    size_t n, n_orders;
    int64_t first; /* the signature of row 0 */
    uint64_t seed; /* of the sums */
} Order;

size_t order_bytes(const Order *order);

typedef struct {
    int64_t *ids;
    size_t n, room;
} Found;

/* What a search ends with, besides the WORK_ values: errno says why a file cannot be read; a file that
   ends too early, or has other numbers than were written, is damaged. */
enum { ORDER_UNREADABLE = -3, ORDER_DAMAGED = -4 };

/* Bring what up to KEYS_AT_ONCE look-ups will read nearer, so that one does not wait for the memory of
   another. Reads no file. */
enum { KEYS_AT_ONCE = 16 };
void approach_keys(const Order *order, const int64_t *keys, size_t n);

/* Append the signatures below `limit` that are in a bucket of a file. */
int find_key(const Order *order, int64_t key, int64_t limit, Found *found);

/* Buckets with their signatures: the keys and the sizes of some, and their members one after the other. */
typedef struct {
    Found keys, sizes, members;
} Groups;

/* Append the buckets of a band from `low` to `high` (inclusive) that have more than `above` signatures below
   `limit` in all files together. They come in order; so do the members of each if files do. */
int group_keys(const Order *orders, size_t n, size_t band, uint32_t low, uint32_t high,
               int64_t limit, size_t above, Groups *groups, const Listener *listener);

/* Sort each of n_orders columns of n rows of bucket keys: planes of the buckets, and of the rows. */
int sort_orders(const int64_t *keys, size_t n, size_t n_orders, uint32_t *planes,
                const Listener *listener);

/* Sorted postings of cells `first` to `end` (left out) of an order as they lie in a file, with their entries of
   the directory. `place` is that of the first posting. Returns 0 if a bucket is not of these cells. */
int pack_cells(const uint32_t *buckets, const uint32_t *rows, size_t n, unsigned bits, size_t first,
               size_t end, size_t place, uint64_t seed, uint32_t *directory, void *postings);

/* The seed of the sums of one order of a file. */
static inline uint64_t order_seed(uint64_t seed, size_t order)
{
    return seed ^ (uint64_t)order << 55;
}

#endif
