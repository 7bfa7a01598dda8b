/* Declarations that the kernel's files share. The way of the data:

       normalise.c  text -> normalised text, by the table of code points and a memo of segments
       words.c      text -> words, one blank after each
       shingles.c   tokens -> distinct shingle hashes
       long_texts.c the same for texts of megabytes, in little memory, up to the signature row
       sketches.c   hashes -> signature row
       families.c   elements with weights -> signature row; the Walsh-Hadamard transform
       signing.c    the two together
       texts.c      code points -> UTF-8; unassigned characters
       blake2b.c    bodies and contents -> their hashes
       compare.c    rows -> bucket keys; two sets -> their common values
       orders.c     bucket keys -> frozen orders, and look-ups in them
       sharing.c    many sets -> a table of their values; which sets share values with another
       passages.c   two texts as words -> the passages that they share
       scan.c       all rows of a block against some queries; the best of their counts
       levels.c     the inner loops (lanes.h) for each width of vector, and the choice of one
       lines.c      lines of JSON -> where key and text are
       bind_lines.c its Python interface
       row_sums.c   rows of SQL -> their checksums
       bind_rows.c  the Python interface of row_sums.c
       bind_sets.c  the Python interface of many sets at a time
       bind_pairs.c the same of candidate pairs
       bind_texts.c the Python interface of whole texts: normalise, hash, sign
       bind_queries.c  the same of one query at a time
       bind_blocks.c  the same of many
       binding.h    what the files of the Python interface share
       bind_passages.c  the Python interface of passages.c
       bind_orders.c  the Python interface of orders.c
       bind_scan.c  the Python interface of scan.c
       bind_sharing.c  the Python interface of sharing.c
       module.c     the rest of the Python interface: checks every length, releases the interpreter's lock

   Everything has a reference in Python that gives the same bits. docs/format.md has the definitions;
   these files only compute them. */

#ifndef LSHDB_KERNEL_H
#define LSHDB_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "packing.h"

/* Bytes past the end of a text in a workspace that may be read and written. */
#define PADDING 64
/* Slots of WORD_BITS each, or bits that fill as many words. */
#define MAX_NUM_PERM 4096
#define MAX_BITS (32 * MAX_NUM_PERM)

/* A signature row is words of 16 bits; a slot is one of them, or a bit, the lowest of the first word first. */
enum { WORD_BITS = 16, WORD_BYTES = 2 };
/* Shingles of a long text hashed at a time, unless use_pieces() says otherwise. */
#define PIECE ((size_t)1 << 16)

enum { UNIT_WORD, UNIT_CHAR, UNIT_BYTE, UNIT_LINE, UNIT_TOKEN, N_UNITS };
enum { SCHEME_FSS, SCHEME_UNIVERSAL, N_SCHEMES };

/* Spreads consecutive numbers: 2^64 over the golden ratio. */
#define SPREAD UINT64_C(0x9E3779B97F4A7C15)

/* A level of instructions of a machine. Every level gives the same bits. */
typedef struct {
    const char *name;
    size_t lanes; /* 64-bit numbers in a vector */
    size_t (*split_words)(uint8_t *out, const uint8_t *text, size_t length);
    size_t (*mark_starts)(size_t *starts, const uint8_t *text, size_t length, uint8_t separator);
    size_t (*collapse)(uint8_t *out, const uint8_t *text, size_t length, int fold);
    int (*take_ascii)(Place *place, uint8_t *out, const void *points, int width, size_t length,
                      int fold);
    void (*hash_shingles)(uint64_t *hashes, const uint8_t *bytes, const size_t *starts,
                          size_t count, size_t width, size_t gap);
    int (*throw_rounds)(uint64_t *slots, const uint64_t *hashes, size_t n, const uint64_t *keys,
                        size_t first, size_t last, uint32_t num_perm, int small);
    void (*universal)(const uint64_t *hashes, size_t n, uint32_t num_perm, const uint64_t *pairs,
                      uint32_t *least);
    size_t (*count_tabled)(const uint64_t *cells, int shift, const uint64_t *values, size_t n);
    uint32_t (*count_equal)(const uint16_t *left, const uint16_t *right, size_t num_perm);
    uint32_t (*count_differing)(const uint16_t *left, const uint16_t *right, size_t words);
    void (*count_slots_of)(const uint16_t *query, const uint16_t *rows, size_t n, size_t words,
                           uint16_t *counts);
    void (*count_bits_of)(const uint16_t *query, const uint16_t *rows, size_t n, size_t words,
                          uint16_t *counts);
} Level;

const Level *find_level(const char *name);

/* Constant tables, filled once per process before anything reads them. */
void fill_classes(void);
void fill_shuffles(void);

/* A shingle of a bag: its last place, and its count. */
typedef struct {
    uint32_t last, times;
} Seen;

/* Long work asks its listener whether to stop, between slices of some 10 ms. The secret only decides in
   which part of a long text's work a hash falls. */
typedef struct {
    int (*hear)(void *context);
    void *context;
    uint64_t secret;
    size_t piece; /* shingles of a long text hashed at a time */
} Listener;

enum { WORK_DONE = 0, WORK_MEMORY = -1, WORK_STOPPED = -2 };

/* Whether work must stop; there may be no listener. */
static inline int is_stopped(const Listener *listener)
{
    return listener && listener->hear(listener->context);
}

typedef struct {
    const Level *level; /* chosen once per call; use_level() does not change it meanwhile */
    const Listener *listener;
    uint8_t *text;  /* tokens, each followed by its separator, and PADDING */
    size_t *starts; /* the start of each token; one more for the end of the last one's separator */
    uint64_t *hashes; /* distinct elements, with room for 8 more */
    uint64_t *table;  /* open addressing; a power of two of places, 0 is empty */
    Seen *seen;       /* for a bag, parallel to the table */
    uint64_t *slots;  /* round and value of each slot while sketching */
    size_t text_size, starts_size, hashes_size, table_size, seen_size;
} Workspace;

void release(Workspace *work);

/* Put the distinct elements of a text's set or bag into work->hashes. Returns their number, or WORK_MEMORY
   or WORK_STOPPED, which are below 0. */
ptrdiff_t shingle(Workspace *work, const uint8_t *text, size_t length, int unit, size_t k, int bag);

/* The same for ready tokens: reserve room for tokens and bytes; once the caller has filled work->text
   (a blank after each token) and work->starts, shingle them. */
int reserve_tokens(Workspace *work, size_t tokens, size_t bytes);
int reserve_hashes(Workspace *work, size_t count);
ptrdiff_t shingle_tokens(Workspace *work, size_t tokens, size_t gap, size_t k, int bag);

/* Hash the first `count` shingles into work->hashes. */
int hash_slices(Workspace *work, size_t count, size_t width, size_t gap);

/* Sort the first n of work->hashes. Returns WORK_DONE, WORK_MEMORY or WORK_STOPPED. */
int sort_hashes(Workspace *work, size_t n);

/* Count the hashes that two workspaces share, perhaps reordering them; below 0 as in shingle(). */
ptrdiff_t count_shared(Workspace *left, size_t n_left, Workspace *right, size_t n_right);

/* Sketch n >= 1 hashes, which are changed; the 8 places after them may be written. Returns WORK_DONE,
   WORK_MEMORY or WORK_STOPPED. */
int sketch(Workspace *work, int scheme, uint64_t *hashes, size_t n, uint32_t num_perm,
           const uint64_t *constants, uint16_t *row);

/* The minimum of each slot of scheme universal, over n hashes and the values in `least`. */
int take_universal(const Level *level, const Listener *listener, const uint64_t *hashes, size_t n,
                   uint32_t num_perm, const uint64_t *constants, uint32_t *least);

/* Whether some slots differ. Without a branch for each, as near-duplicates differ here and there. */
static inline int slots_differ(const uint16_t *one, const uint16_t *other, size_t n)
{
    uint64_t differing = 0, a, b;
    if (n < 4) {
        for (size_t i = 0; i < n; i++)
            differing |= (uint64_t)(one[i] ^ other[i]);
        return differing != 0;
    }
    for (size_t i = 0; i < n; i += 4) {
        size_t place = i < n - 4 ? i : n - 4;
        memcpy(&a, one + place, sizeof a);
        memcpy(&b, other + place, sizeof b);
        differing |= a ^ b;
    }
    return differing != 0;
}

/* Whether some of n bits from one place on differ. */
int bits_differ(const uint16_t *one, const uint16_t *other, size_t begin, size_t n);

uint64_t bucket_key(const uint16_t *row, int slot_bits, size_t band, size_t height);
void bucket_keys(const uint16_t *rows, size_t n, size_t words, int slot_bits, size_t bands,
                 size_t height, uint64_t *keys);
void compare_rows(const Level *level, const uint16_t *left, const uint16_t *right, size_t num_perm,
                  size_t bands, size_t height, int32_t *equal, int32_t *matched, int32_t *first);
void compare_bits(const Level *level, const uint16_t *left, const uint16_t *right, size_t words,
                  size_t bands, size_t height, int32_t *equal, int32_t *matched, int32_t *first);

/* Equal slots of each query with each row: line i of `counts`, of `width` numbers, is query i's. The words
   have 65,535 slots at most. Returns WORK_DONE or WORK_STOPPED. */
enum { SCANNED_AT_ONCE = 1 << 22 };
int count_in_rows(const Level *level, const uint16_t *queries, size_t n_queries,
                  const uint16_t *rows, size_t n_rows, size_t words, int slot_bits,
                  uint16_t *counts, size_t width, const Listener *listener);

/* The places of the highest counts of at least `least`, equal ones in order, while there is room; `found`
   is their number without that limit. Returns WORK_DONE or WORK_MEMORY. */
int rank_counts(const uint16_t *counts, size_t n, uint16_t least, int64_t *best, size_t room,
                size_t *found);

/* The values of sets, sorted by their highest bits: bucket b is from starts[b] to starts[b + 1]. */
typedef struct {
    int bits;
    const uint32_t *starts;
    const uint64_t *values;
    const uint32_t *owners; /* the set that has the value */
    size_t n, n_sets;
    const int64_t *sizes;
} SetTable;

/* Which sets are wanted: at a level of `least` or more and below `below`, and of those none worse than the
   `most`-th best. The level is the share of the probe's values (is_part), or of the values of both. */
typedef struct {
    int is_part;
    size_t most;
    double least, below;
} Wish;

/* (probe, set, shared values), in memory that the caller frees. */
typedef struct {
    int64_t *triples;
    size_t n, room;
} Sharing;

/* Returns WORK_DONE, WORK_MEMORY or WORK_STOPPED, or SHARING_CHANGED if numbers do not fit together. */
enum { SHARING_CHANGED = 1 };
int table_sets(const uint64_t *hashes, size_t n, const int64_t *counts, size_t n_sets, int bits,
               uint32_t *starts, uint64_t *values, uint32_t *owners, const Listener *listener);
int find_sharing(const SetTable *table, const uint64_t *hashes, size_t n, const int64_t *counts,
                 size_t n_probes, const Wish *wish, Sharing *found, const Listener *listener);

/* The values of a set, each in the cell that its hash gives it, to be looked up by many others
   (count_tabled). The rest of a cell is filled with a value of another one. */
enum { CELL_VALUES = 8, MOST_CELLS = 512 };
typedef struct {
    uint64_t cells[MOST_CELLS * CELL_VALUES];
    int shift;
} ValueTable;

static inline size_t cell_of_value(uint64_t value, int shift)
{
    return (size_t)(value * SPREAD >> shift);
}

/* Fill a table; 0 if the values do not fit into it. */
int table_values(ValueTable *table, const uint64_t *values, size_t n);

/* Count the values that two sorted arrays share; NOT_COUNTED if the work was stopped. */
#define NOT_COUNTED SIZE_MAX
size_t count_common(const uint64_t *left, size_t n_left, const uint64_t *right, size_t n_right,
                    const Listener *listener);

/* The Walsh-Hadamard transform of a row of `size` numbers, a power of two, in place. */
void walsh_hadamard(double *row, size_t size);

/* Sample n >= 1 elements by their weights and the logarithms of these, with 3 num_perm keys. Returns 0 or
   WORK_STOPPED. */
int sample_weights(const uint64_t *hashes, const double *weights, const double *logs, size_t n,
                   uint32_t num_perm, const uint64_t *keys, uint16_t *row,
                   const Listener *listener);

/* How contents are signed, and where the results go: for content number i a row of num_perm words, and the
   number of its distinct shingles. A row without shingles stays unchanged. */
typedef struct {
    int unit, bag, scheme;
    ptrdiff_t k, num_perm;
    const uint64_t *constants;
    uint16_t *rows;
    int64_t *counts;
} Signing;

/* Sign the hashes in the workspace, or a text, as content number i (signing.c). */
int sign_found(Workspace *work, const Signing *job, size_t i, ptrdiff_t found);
int sign_text(Workspace *work, const Signing *job, size_t i, const uint8_t *text, size_t length,
              const Listener *listener);

/* Texts of more than a megabyte (long_texts.c). */
int is_long(size_t length, const Listener *listener);

/* The set of a long text: its signature row, unchanged if there is no shingle, and its size. */
int sign_long(Workspace *work, const uint8_t *text, size_t length, int unit, size_t k, int scheme,
              uint32_t num_perm, const uint64_t *constants, uint16_t *row, int64_t *found,
              const Listener *listener);

/* The distinct hashes of the same set, in no order, in memory that the caller frees. */
int shingle_long(Workspace *work, const uint8_t *text, size_t length, int unit, size_t k,
                 uint64_t **hashes, size_t *found, const Listener *listener);

/* Write the non-empty pieces between separators, each with one separator after it. */
size_t split_pieces(uint8_t *out, const uint8_t *text, size_t length, uint8_t separator);

#endif
