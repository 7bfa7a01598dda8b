/* The layout of a bucket key, in C; params/bucket_layout.py has it in Python. */

#ifndef LSHDB_BUCKET_LAYOUT_H
#define LSHDB_BUCKET_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* The band of content hashes, the last one. */
enum { CONTENT_BAND = 255 };

static inline int64_t key_from(size_t band, uint32_t bucket)
{
    return (int64_t)((uint64_t)band << 32 | bucket);
}

/* A number that is no key gives one above CONTENT_BAND. */
static inline size_t band_of(int64_t key) { return (size_t)((uint64_t)key >> 32); }

static inline uint32_t bucket_of(int64_t key) { return (uint32_t)key; }

#endif
