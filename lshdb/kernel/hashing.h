/* The basic hashes: MurmurHash3 x64-128 (its low 64 bits), and mix64.

   Both have a reference in Python: mmh3 for the first, random_numbers.py for the second. */

#ifndef LSHDB_HASHING_H
#define LSHDB_HASHING_H

#include <stdint.h>
#include <string.h>

#define MIX_FIRST UINT64_C(0xBF58476D1CE4E5B9)
#define MIX_SECOND UINT64_C(0x94D049BB133111EB)

/* The first step of mix64. It commutes with exclusive or: fold(x ^ y) is fold(x) ^ fold(y). */
static inline uint64_t fold(uint64_t z) { return z ^ (z >> 30); }

static inline uint64_t mix_folded(uint64_t z)
{
    z *= MIX_FIRST;
    z = (z ^ (z >> 27)) * MIX_SECOND;
    return z ^ (z >> 31);
}

static inline uint64_t mix64(uint64_t z) { return mix_folded(fold(z)); }

static inline uint64_t load64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline void store64(uint8_t *bytes, uint64_t word)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(bytes, &word, 8);
}

static inline uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static inline uint64_t final_mix(uint64_t z)
{
    z = (z ^ (z >> 33)) * UINT64_C(0xFF51AFD7ED558CCD);
    z = (z ^ (z >> 33)) * UINT64_C(0xC4CEB9FE1A85EC53);
    return z ^ (z >> 33);
}

/* The low `count` bytes of a word, for any count; without a branch, as shingle lengths are random. */
static inline uint64_t low_bytes(uint64_t word, size_t count)
{
    uint64_t mask = ((uint64_t)(count < 8) << (8 * (count & 7))) - 1;
    return word & mask;
}

/* Reads up to 15 bytes past the end: callers keep PADDING bytes there. */
static inline uint64_t murmur3(const uint8_t *bytes, size_t length, uint32_t seed)
{
    const uint64_t c1 = UINT64_C(0x87C37B91114253D5), c2 = UINT64_C(0x4CF5AD432745937F);
    uint64_t h1 = seed, h2 = seed;
    const uint8_t *end = bytes + (length & ~(size_t)15);
    for (; bytes != end; bytes += 16) {
        h1 ^= rotate(load64(bytes) * c1, 31) * c2;
        h1 = (rotate(h1, 27) + h2) * 5 + 0x52DCE729;
        h2 ^= rotate(load64(bytes + 8) * c2, 33) * c1;
        h2 = (rotate(h2, 31) + h1) * 5 + 0x38495AB5;
    }
    /* An empty rest adds nothing, so it needs no test. */
    size_t rest = length & 15, second = rest & (0 - (rest >> 3)) & 7;
    h2 ^= rotate(low_bytes(load64(bytes + 8), second) * c2, 33) * c1;
    h1 ^= rotate(low_bytes(load64(bytes), rest) * c1, 31) * c2;
    h1 ^= length;
    h2 ^= length;
    h1 += h2;
    h2 += h1;
    return final_mix(h1) + final_mix(h2);
}

#endif
