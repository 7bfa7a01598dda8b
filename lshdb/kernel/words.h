/* Cut texts into words, at each level of instructions; see words.c. */

#ifndef LSHDB_WORDS_H
#define LSHDB_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "machine.h"
#include "texts.h"

/* Find the first word from *at on in a text that is not normalised; *at is its end then. 0 if there is none. */
int find_word(const Text *text, size_t *start, size_t *at);

int is_blank(const uint8_t *text, size_t length);

size_t split_words_plain(uint8_t *out, const uint8_t *text, size_t length);
size_t mark_starts_plain(size_t *starts, const uint8_t *text, size_t length, uint8_t separator);

#ifdef LSHDB_X86
size_t split_words_avx2(uint8_t *out, const uint8_t *text, size_t length);
size_t mark_starts_avx2(size_t *starts, const uint8_t *text, size_t length, uint8_t separator);
#endif

#endif
