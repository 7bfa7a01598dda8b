/* BLAKE2b with digests of 16 bytes, no key, and a personalisation (blake2b.c). */

#ifndef LSHDB_BLAKE2B_H
#define LSHDB_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_BYTES 16
#define PERSON_BYTES 16

/* The state before the first byte, for one personalisation. */
typedef struct {
    uint64_t words[8];
} Blake2b;

/* `person` has up to PERSON_BYTES bytes; zeros follow. */
Blake2b blake2b_begin(const uint8_t *person, size_t length);

/* The digest of one message. */
void blake2b_digest(const Blake2b *begun, const uint8_t *message, size_t length, uint8_t *digest);

#endif
