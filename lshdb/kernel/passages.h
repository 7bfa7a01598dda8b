/* Two texts as words, and the passages that they share. */

#ifndef LSHDB_PASSAGES_H
#define LSHDB_PASSAGES_H

#include "kernel.h"

/* A text of n words: the first and last character (left out) of each, and a hash of the k words from each
   word on, as far as there are k. */
typedef struct {
    const int64_t *starts, *ends;
    const uint64_t *grams;
    size_t n;
} WordText;

/* (first word, last, first in the second text, last; each last one is left out), in memory that the caller
   frees. */
typedef struct {
    int64_t *words;
    size_t n, room;
} Spans;

/* Find the passages that two texts of at most 2^30 words share in or around some areas: characters
   (start, end, start in the second text, end). Returns WORK_DONE, WORK_MEMORY or WORK_STOPPED. */
int align_words(const WordText *text1, const WordText *text2, int is_same, const int64_t *areas,
                size_t n_areas, size_t window, size_t k, Spans *spans, const Listener *listener);

#endif
