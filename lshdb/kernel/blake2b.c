/* BLAKE2b (RFC 7693), with digests of 16 bytes and a personalisation (section 2.5 of the BLAKE2
   specification: the last 16 bytes of the parameter block).

   storage/tables/bodies.py has the same by hashlib. Here a message is hashed whole, without the
   interpreter's lock. */

#include "blake2b.h"

#include <string.h>

#include "hashing.h"

#define BLOCK_BYTES 128

static const uint64_t START[8] = {
    UINT64_C(0x6A09E667F3BCC908), UINT64_C(0xBB67AE8584CAA73B), UINT64_C(0x3C6EF372FE94F82B),
    UINT64_C(0xA54FF53A5F1D36F1), UINT64_C(0x510E527FADE682D1), UINT64_C(0x9B05688C2B3E6C1F),
    UINT64_C(0x1F83D9ABFB41BD6B), UINT64_C(0x5BE0CD19137E2179),
};

static inline uint64_t rotate_right(uint64_t x, int by) { return (x >> by) | (x << (64 - by)); }

/* Rounds are written out, so that the words of a message stay in registers. */
#define MIX(a, b, c, d, x, y)                                                                      \
    do {                                                                                           \
        a += b + (x);                                                                              \
        d = rotate_right(d ^ a, 32);                                                               \
        c += d;                                                                                    \
        b = rotate_right(b ^ c, 24);                                                               \
        a += b + (y);                                                                              \
        d = rotate_right(d ^ a, 16);                                                               \
        c += d;                                                                                    \
        b = rotate_right(b ^ c, 63);                                                               \
    } while (0)

#define ROUND(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15)                \
    do {                                                                                           \
        MIX(v[0], v[4], v[8], v[12], m[s0], m[s1]);                                                \
        MIX(v[1], v[5], v[9], v[13], m[s2], m[s3]);                                                \
        MIX(v[2], v[6], v[10], v[14], m[s4], m[s5]);                                               \
        MIX(v[3], v[7], v[11], v[15], m[s6], m[s7]);                                               \
        MIX(v[0], v[5], v[10], v[15], m[s8], m[s9]);                                               \
        MIX(v[1], v[6], v[11], v[12], m[s10], m[s11]);                                             \
        MIX(v[2], v[7], v[8], v[13], m[s12], m[s13]);                                              \
        MIX(v[3], v[4], v[9], v[14], m[s14], m[s15]);                                              \
    } while (0)

/* Compress one block; `count` is the number of bytes up to its end. */
static void compress(uint64_t h[8], const uint8_t *block, uint64_t count, int is_last)
{
    uint64_t v[16], m[16];
    for (int i = 0; i < 16; i++)
        m[i] = load64(block + 8 * i);
    memcpy(v, h, 64);
    memcpy(v + 8, START, 64);
    v[12] ^= count; /* no message has 2^64 bytes */
    if (is_last)
        v[14] = ~v[14];
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4);
    ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8);
    ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13);
    ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9);
    ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11);
    ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10);
    ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5);
    ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0);
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

Blake2b blake2b_begin(const uint8_t *person, size_t length)
{
    uint8_t parameters[64] = {DIGEST_BYTES, 0, 1, 1}; /* no key; fanout and depth 1 */
    memcpy(parameters + 48, person, length < PERSON_BYTES ? length : PERSON_BYTES);
    Blake2b begun;
    for (int i = 0; i < 8; i++)
        begun.words[i] = START[i] ^ load64(parameters + 8 * i);
    return begun;
}

void blake2b_digest(const Blake2b *begun, const uint8_t *message, size_t length, uint8_t *digest)
{
    uint64_t h[8];
    uint8_t last[BLOCK_BYTES] = {0};
    size_t done = 0;
    memcpy(h, begun->words, sizeof h);
    for (; length - done > BLOCK_BYTES; done += BLOCK_BYTES)
        compress(h, message + done, done + BLOCK_BYTES, 0);
    if (length > done)
        memcpy(last, message + done, length - done);
    compress(h, last, length, 1);
    store64(digest, h[0]);
    store64(digest + 8, h[1]);
}
