/* Texts as code points and as UTF-8; see texts.c. */

#ifndef LSHDB_TEXTS_H
#define LSHDB_TEXTS_H

#include <stddef.h>
#include <stdint.h>

/* Characters of `width` bytes each: 1, 2 or 4. ASCII is its own UTF-8. */
typedef struct {
    const void *points;
    size_t length;
    int width, is_ascii;
} Text;

#define CODE_POINTS 0x110000
#define NOT_ENCODED SIZE_MAX

/* Bytes of a text in UTF-8; NOT_ENCODED if it holds a lone surrogate. */
size_t utf8_size(const Text *text);

/* Write them; `out` has room for utf8_size() bytes. */
void write_utf8(uint8_t *out, const Text *text);

/* What a table knows of a code point. */
enum { POINT_UNKNOWN, POINT_ASSIGNED, POINT_UNASSIGNED };

/* Count unassigned characters of valid UTF-8 from *at on. Returns -1 at its end, or a code point that the
   table (CODE_POINTS bytes) does not know yet, with *at there. */
int32_t count_unassigned(const uint8_t *text, size_t length, const uint8_t *kinds, size_t *at,
                         int64_t *count);

#endif
