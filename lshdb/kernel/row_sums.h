/* Checksums of rows of SQL: the CRC-32 (of zlib and PNG) of a row as a JSON array without white space.
   docs/format.md says what the array holds. */

#ifndef LSHDB_ROW_SUMS_H
#define LSHDB_ROW_SUMS_H

#include <stddef.h>
#include <stdint.h>

void fill_sums(void);
uint32_t crc32_of(const uint8_t *data, size_t length);

/* The most bytes that each of these writes; each returns the end of what it has written. */
#define JSON_TEXT_BYTES(length) (6 * (length) + 2)
#define JSON_HEX_BYTES(length) (2 * (length) + 2)
#define JSON_WHOLE_BYTES 20
uint8_t *json_text(uint8_t *out, const uint8_t *text, size_t length);
uint8_t *json_hex(uint8_t *out, const uint8_t *bytes, size_t length);
uint8_t *json_whole(uint8_t *out, int64_t number);

#endif
