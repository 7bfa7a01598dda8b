/* Frozen orders: sorted bucket keys with the signatures in them, as they lie in a file (orders.c). */

#ifndef LSHDB_ORDERS_H
#define LSHDB_ORDERS_H

#include "kernel.h"

/* Two planes, each of n_orders rows of n numbers: a bucket, and the signature's place among those of the
   file. Each row is in order of bucket, then of place. */
enum { BUCKET, PLACE, N_PLANES };
#define ORDER_HEADER 128

/* Behind the planes of a file there is a check sum for each SUMMED entries of its last order, that of
   contents: whoever finds no such content there writes it anew, so the entries beside it must be true. */
enum { SUMMED = 64 };

/* The numbers are in memory, or else at ORDER_HEADER of an open file, which has sums. */
typedef struct {
    const uint32_t *words;
    const uint32_t *sums; /* of numbers in memory; NULL if there are none */
    int descriptor;
    size_t n, n_orders;
    int64_t first; /* the signature of place 0 */
} Order;

typedef struct {
    int64_t *ids;
    size_t n, room;
} Found;

/* What a search ends with, besides the WORK_ values: errno says why a file cannot be read; a file that
   ends too early or names a place that it does not have is damaged. */
enum { ORDER_UNREADABLE = -3, ORDER_DAMAGED = -4 };

/* Put a place near each of up to KEYS_AT_ONCE keys into `places`. Guesses for all of them go on together, so
   that one does not wait for the memory of another. Reads no file. */
enum { KEYS_AT_ONCE = 16 };
void approach_keys(const Order *order, const int64_t *keys, size_t n, size_t *places);

/* Append the signatures below `limit` that are in a bucket of a file; `place` is of approach_keys(). */
int find_key(const Order *order, int64_t key, size_t place, int64_t limit, Found *found);

/* Buckets with their signatures: the keys and the sizes of some, and their members one after the other. */
typedef struct {
    Found keys, sizes, members;
} Groups;

/* Append the buckets of a band from `low` to `high` (inclusive) that have more than `above` signatures below
   `limit` in all files together. They come in order; so do the members of each if files do. */
int group_keys(const Order *orders, size_t n, size_t band, uint32_t low, uint32_t high,
               int64_t limit, size_t above, Groups *groups, const Listener *listener);

/* Sort each of n_orders columns of n rows of bucket keys into the planes of an order. */
int sort_orders(const int64_t *keys, size_t n, size_t n_orders, uint32_t *planes,
                const Listener *listener);

#endif
