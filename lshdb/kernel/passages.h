/* Texts as words, and the passages that they share. */

#ifndef LSHDB_PASSAGES_H
#define LSHDB_PASSAGES_H

#include "kernel.h"

/* A text of n words: the first and last character (left out) of each, and a hash of the k words from each
   word on; the last k - 1 hashes mean nothing. */
typedef struct {
    const int64_t *starts, *ends;
    const uint64_t *grams;
    size_t n;
} WordText;

/* Passages, in memory that the caller frees: the number of the pair; its first word, the last, and the same
   in the second text; its first character, the last, and the same in the second text. Last ones are left
   out. */
enum { PASSAGE_NUMBERS = 9 };
typedef struct {
    int64_t *numbers;
    size_t n, room;
} Passages;

/* Find the passages that pairs of texts of at most 2^30 words share in or around some areas. A pair is
   (text, second text, its first area, number of its areas); two of the same text look for what it repeats. An
   area is characters (start, end, start in the second text, end). Returns WORK_DONE, WORK_MEMORY or
   WORK_STOPPED. */
int align_words(const WordText *texts, const int64_t *pairs, size_t n_pairs, const int64_t *areas,
                size_t window, size_t k, Passages *passages, const Listener *listener);

#endif
