/* Texts as words -> the passages that pairs of them share (search/alignment.py has what is decided). */

#include "passages.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_PLACES = 32,
    MOST_NEAR = 128,
    MOST_MATCHES = 1 << 23,
    STEPS_AT_ONCE = 1 << 20, /* between two checks for signals: some milliseconds */
    NOT_CHAINED = -1,
};
/* Scores are counted in quarters of a k-gram: a gap costs one a word. */
enum { GRAM_SCORE = 4 };

typedef struct {
    size_t first1, last1, first2, last2;
} Part;

typedef struct {
    uint32_t place1, place2, length;
    int32_t before; /* the run before it in its chain */
    int64_t score;  /* of the best chain that ends with it */
} Run;

/* Rows of four numbers: (first word, last, first in the second text, last), or areas in characters. */
typedef struct {
    int64_t *rows;
    size_t n, room;
} Rows;

typedef struct {
    const WordText *text1, *text2;
    int is_same;
    size_t window, k;
    const Listener *listener;
    size_t steps;
    Rows spans, grown, areas;
    /* The k-grams of a part of the second text: a table with open addressing. */
    size_t table_room;
    uint64_t *keys;
    uint32_t *heads, *counts;
    int shift;
    /* For each k-gram its place in that table, and the next place with the same one. */
    size_t room1, room2;
    uint32_t *slots1, *slots2, *next;
    Run *runs;
    uint8_t *is_used;
    uint32_t *order, *spare;
    size_t n_runs, runs_room, order_room;
} Aligning;

enum { NO_SLOT = UINT32_MAX };

static int take_steps(Aligning *work, size_t steps)
{
    work->steps += steps;
    if (work->steps < STEPS_AT_ONCE)
        return WORK_DONE;
    work->steps = 0;
    return is_stopped(work->listener) ? WORK_STOPPED : WORK_DONE;
}

/* Make room for n elements of `width` bytes; what was there may be lost. */
static int reserve(void *where, size_t n, size_t width)
{
    void **array = where;
    free(*array);
    size_t bytes;
    *array = __builtin_mul_overflow(n ? n : 1, width, &bytes) ? NULL : malloc(bytes);
    return *array ? WORK_DONE : WORK_MEMORY;
}

static int reserve_slots(Aligning *work, size_t n1, size_t n2)
{
    if (n1 > work->room1) {
        work->room1 = 0;
        if (reserve(&work->slots1, n1, sizeof *work->slots1))
            return WORK_MEMORY;
        work->room1 = n1;
    }
    if (n2 > work->room2) {
        work->room2 = 0;
        if (reserve(&work->slots2, n2, sizeof *work->slots2)
            || reserve(&work->next, n2, sizeof *work->next))
            return WORK_MEMORY;
        work->room2 = n2;
    }
    size_t room = 64;
    int bits = 6;
    for (; room < 2 * n2; room *= 2)
        bits++;
    work->shift = 64 - bits;
    if (room > work->table_room) {
        work->table_room = 0;
        if (reserve(&work->keys, room, sizeof *work->keys)
            || reserve(&work->heads, room, sizeof *work->heads)
            || reserve(&work->counts, room, sizeof *work->counts))
            return WORK_MEMORY;
        work->table_room = room;
    }
    memset(work->counts, 0, room * sizeof *work->counts);
    return WORK_DONE;
}

/* The place of a k-gram in the table, or an empty one. Nobody who does not know the secret can choose words
   that all go to one place. */
static uint32_t slot_of(const Aligning *work, uint64_t gram)
{
    uint32_t mask = (uint32_t)(((size_t)1 << (64 - work->shift)) - 1);
    uint64_t factor = (work->listener->secret ^ 0x9E3779B97F4A7C15) | 1;
    uint32_t slot = (uint32_t)((gram ^ gram >> 32) * factor >> work->shift);
    while (work->counts[slot] && work->keys[slot] != gram)
        slot = (slot + 1) & mask;
    return slot;
}

/* Fill the table, and find the slot of each k-gram; NO_SLOT where the second part has it in no place, or in
   too many. */
static int fill_slots(Aligning *work, size_t first1, size_t n1, size_t first2, size_t n2)
{
    int undone = reserve_slots(work, n1, n2);
    for (size_t j = n2; j-- > 0 && !undone; undone = take_steps(work, 1)) {
        uint64_t gram = ((const volatile uint64_t *)work->text2->grams)[first2 + j];
        uint32_t slot = slot_of(work, gram);
        work->keys[slot] = gram;
        work->next[j] = work->counts[slot]++ ? work->heads[slot] : NO_SLOT;
        work->heads[slot] = (uint32_t)j;
        work->slots2[j] = slot;
    }
    size_t matches[MOST_PLACES + 1] = {0}, total = 0;
    for (size_t i = 0; i < n1 && !undone; i++) {
        uint32_t slot = slot_of(work, ((const volatile uint64_t *)work->text1->grams)[first1 + i]),
                 count = work->counts[slot];
        work->slots1[i] = count && count <= MOST_PLACES ? slot : NO_SLOT;
        if (work->slots1[i] != NO_SLOT)
            matches[count] += count;
        undone = take_steps(work, 1);
    }
    for (size_t count = 1; count <= MOST_PLACES; count++)
        total += matches[count];
    size_t most = MOST_PLACES;
    while (total > MOST_MATCHES && most > 1)
        for (size_t half = most / 2; most > half; most--)
            total -= matches[most];
    for (size_t i = 0; i < n1 && most < MOST_PLACES && !undone; i++) {
        if (work->slots1[i] != NO_SLOT && work->counts[work->slots1[i]] > most)
            work->slots1[i] = NO_SLOT;
        undone = take_steps(work, 1);
    }
    return undone;
}

static int add_run(Aligning *work, size_t place1, size_t place2, size_t length)
{
    if (work->n_runs == work->runs_room) {
        size_t room = work->runs_room + work->runs_room / 2 + 256, bytes;
        Run *moved = NULL;
        if (!__builtin_mul_overflow(room, sizeof *moved, &bytes))
            moved = realloc(work->runs, bytes);
        if (!moved)
            return WORK_MEMORY;
        work->runs = moved;
        work->runs_room = room;
    }
    work->runs[work->n_runs++] =
        (Run){(uint32_t)place1, (uint32_t)place2, (uint32_t)length, NOT_CHAINED, 0};
    return WORK_DONE;
}

/* Find the runs of equal k-grams in a part of both texts, in order of their places. */
static int find_runs(Aligning *work, const Part *around)
{
    size_t lead = work->k - 1;
    size_t n1 = around->last1 > around->first1 + lead ? around->last1 - lead - around->first1 : 0,
           n2 = around->last2 > around->first2 + lead ? around->last2 - lead - around->first2 : 0;
    work->n_runs = 0;
    int undone = fill_slots(work, around->first1, n1, around->first2, n2);
    const uint32_t *slots1 = work->slots1, *slots2 = work->slots2;
    for (size_t i = 0; i < n1 && !undone; i++) {
        uint32_t slot = slots1[i];
        undone = take_steps(work, 1);
        if (slot == NO_SLOT)
            continue;
        for (size_t j = work->heads[slot]; j != NO_SLOT && !undone; j = work->next[j]) {
            if (work->is_same && around->first2 + j <= around->first1 + i)
                continue;
            if (i && j && slots1[i - 1] != NO_SLOT && slots1[i - 1] == slots2[j - 1])
                continue; /* in the run that began before */
            size_t length = 1;
            while (i + length < n1 && j + length < n2 && slots1[i + length] != NO_SLOT
                   && slots1[i + length] == slots2[j + length])
                length++;
            undone = add_run(work, around->first1 + i, around->first2 + j, length);
            if (!undone)
                undone = take_steps(work, length);
        }
    }
    return undone;
}

/* Keep the best half of the runs that may be continued, of equal ones the later, in order. */
static size_t keep_best(const Run *runs, uint32_t *near, size_t n)
{
    size_t most = MOST_NEAR / 2, kept = 0;
    uint8_t is_best[MOST_NEAR + 1];
    for (size_t i = 0; i < n; i++) {
        size_t better = 0;
        for (size_t other = 0; other < n; other++)
            better += runs[near[other]].score > runs[near[i]].score
                      || (runs[near[other]].score == runs[near[i]].score && other > i);
        is_best[i] = better < most;
    }
    for (size_t i = 0; i < n; i++)
        if (is_best[i])
            near[kept++] = near[i];
    return kept;
}

static int score_runs(Aligning *work)
{
    uint32_t near[MOST_NEAR + 1];
    size_t n_near = 0;
    Run *runs = work->runs;
    int64_t window = (int64_t)work->window;
    for (size_t number = 0; number < work->n_runs; number++) {
        Run *run = runs + number;
        size_t kept = 0;
        for (size_t i = 0; i < n_near; i++) {
            const Run *earlier = runs + near[i];
            if ((int64_t)run->place1 - earlier->place1 - earlier->length <= window)
                near[kept++] = near[i];
        }
        n_near = kept > MOST_NEAR ? keep_best(runs, near, kept) : kept;
        int64_t best = 0;
        for (size_t i = 0; i < n_near; i++) {
            const Run *earlier = runs + near[i];
            int64_t gap1 = (int64_t)run->place1 - earlier->place1 - earlier->length,
                    gap2 = (int64_t)run->place2 - earlier->place2 - earlier->length,
                    gap = gap1 > gap2 ? gap1 : gap2;
            if (gap1 < 0 || gap2 < 0 || gap > window)
                continue;
            if (earlier->score - gap > best) {
                best = earlier->score - gap;
                run->before = (int32_t)near[i];
            }
        }
        run->score = best + GRAM_SCORE * (int64_t)run->length;
        near[n_near++] = (uint32_t)number;
        if (take_steps(work, 1 + 2 * n_near))
            return WORK_STOPPED;
    }
    return WORK_DONE;
}

/* Put the numbers of the runs into work->order, the highest score first and equal ones in order: a sort by
   counting, a byte of the score at a time. */
static int order_runs(Aligning *work)
{
    size_t n = work->n_runs;
    if (n > work->order_room) {
        work->order_room = 0;
        if (reserve(&work->order, n, sizeof *work->order)
            || reserve(&work->spare, n, sizeof *work->spare)
            || reserve(&work->is_used, n, sizeof *work->is_used))
            return WORK_MEMORY;
        work->order_room = n;
    }
    int64_t highest = 0;
    for (size_t i = 0; i < n; i++) {
        work->order[i] = (uint32_t)i;
        if (work->runs[i].score > highest)
            highest = work->runs[i].score;
    }
    for (int shift = 0; highest >> shift; shift += 8) {
        size_t places[257] = {0};
        for (size_t i = 0; i < n; i++)
            places[((highest - work->runs[i].score) >> shift & 255) + 1]++;
        for (size_t digit = 0; digit < 256; digit++)
            places[digit + 1] += places[digit];
        for (size_t i = 0; i < n; i++) {
            uint32_t run = work->order[i];
            work->spare[places[(highest - work->runs[run].score) >> shift & 255]++] = run;
        }
        uint32_t *sorted = work->spare;
        work->spare = work->order;
        work->order = sorted;
        if (take_steps(work, 4 * n))
            return WORK_STOPPED;
    }
    if (n)
        memset(work->is_used, 0, n);
    return WORK_DONE;
}

static int is_long_span(const Aligning *work, const Part *span)
{
    size_t least = work->window / 4 > work->k ? work->window / 4 : work->k;
    return span->last1 - span->first1 >= least && span->last2 - span->first2 >= least;
}

/* Whether a passage may go on beyond the words that were compared. */
static int may_go_on(const Aligning *work, const Part *span, const Part *around)
{
    size_t room = work->window / 2;
    return (span->first1 - around->first1 < room && around->first1 > 0)
           || (span->first2 - around->first2 < room && around->first2 > 0)
           || (around->last1 - span->last1 < room && around->last1 < work->text1->n)
           || (around->last2 - span->last2 < room && around->last2 < work->text2->n);
}

/* Make room for one more row of `width` numbers. */
static int grow(int64_t **rows, size_t n, size_t *room, size_t width)
{
    if (n < *room)
        return WORK_DONE;
    size_t larger = *room + *room / 2 + 16, bytes;
    int64_t *moved = NULL;
    if (!__builtin_mul_overflow(larger, width * sizeof *moved, &bytes))
        moved = realloc(*rows, bytes);
    if (!moved)
        return WORK_MEMORY;
    *rows = moved;
    *room = larger;
    return WORK_DONE;
}

static int add_row(Rows *rows, const int64_t *row)
{
    if (grow(&rows->rows, rows->n, &rows->room, 4))
        return WORK_MEMORY;
    memcpy(rows->rows + 4 * rows->n++, row, 4 * sizeof *row);
    return WORK_DONE;
}

static int add_span(Rows *spans, const Part *span)
{
    return add_row(spans, (int64_t[]){(int64_t)span->first1, (int64_t)span->last1,
                                      (int64_t)span->first2, (int64_t)span->last2});
}

/* Put the long chains of a part into `found`, or the best one if none is long; the best first. */
static int find_chains(Aligning *work, const Part *around, Rows *found, int *goes_on)
{
    int undone = find_runs(work, around);
    if (!undone)
        undone = score_runs(work);
    if (!undone)
        undone = order_runs(work);
    size_t n_before = found->n;
    int has_best = 0;
    Part best = {0};
    *goes_on = 0;
    for (size_t i = 0; i < work->n_runs && !undone; i++) {
        uint32_t last = work->order[i], first = last;
        if (work->is_used[last])
            continue;
        work->is_used[last] = 1;
        while (work->runs[first].before >= 0 && !work->is_used[work->runs[first].before]) {
            first = (uint32_t)work->runs[first].before;
            work->is_used[first] = 1;
        }
        const Run *left = work->runs + first, *right = work->runs + last;
        size_t more = right->length + work->k - 1;
        Part span = {left->place1, right->place1 + more, left->place2, right->place2 + more};
        if (work->is_same && span.last1 > span.first2)
            continue;
        if (!has_best) {
            has_best = 1;
            best = span;
        }
        if (!is_long_span(work, &span))
            continue;
        undone = add_span(found, &span);
        *goes_on = *goes_on || may_go_on(work, &span, around);
    }
    if (!undone && found->n == n_before && has_best) {
        undone = add_span(found, &best);
        *goes_on = may_go_on(work, &best, around);
    }
    return undone;
}

static int is_shared(int64_t first, int64_t last, int64_t first_known, int64_t last_known)
{
    int64_t end = last < last_known ? last : last_known,
            start = first > first_known ? first : first_known;
    return 2 * (end - start) > last - first;
}

/* Leave out those spans from `from` on that lie mostly in one of the earlier spans, in both texts. */
static int drop_covered(Aligning *work, Rows *spans, size_t from)
{
    size_t kept = from;
    for (size_t i = from; i < spans->n; i++) {
        const int64_t *span = spans->rows + 4 * i;
        int is_covered = 0;
        for (size_t j = 0; j < from && !is_covered; j++) {
            const int64_t *known = spans->rows + 4 * j;
            is_covered = is_shared(span[0], span[1], known[0], known[1])
                         && is_shared(span[2], span[3], known[2], known[3]);
        }
        if (!is_covered)
            memmove(spans->rows + 4 * kept++, span, 4 * sizeof *span);
        if (take_steps(work, 1 + from))
            return WORK_STOPPED;
    }
    spans->n = kept;
    return WORK_DONE;
}

/* How many of n rising numbers are below a limit, or also equal to it. */
static size_t count_below(const int64_t *numbers, size_t n, int64_t limit, int or_equal)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (numbers[middle] < limit || (or_equal && numbers[middle] == limit))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Part reach_out(const Aligning *work, const Part *near, size_t reach)
{
    size_t n1 = work->text1->n, n2 = work->text2->n;
    return (Part){
        near->first1 > reach ? near->first1 - reach : 0,
        reach < n1 && near->last1 < n1 - reach ? near->last1 + reach : n1,
        near->first2 > reach ? near->first2 - reach : 0,
        reach < n2 && near->last2 < n2 - reach ? near->last2 + reach : n2,
    };
}

/* Find the passages around an area, and farther where one may go on. */
static int align_area(Aligning *work, const int64_t *area, Rows *spans, int *is_all_known)
{
    const WordText *text1 = work->text1, *text2 = work->text2;
    Part near = {
        count_below(text1->ends, text1->n, area[0], 1),
        count_below(text1->starts, text1->n, area[1], 0),
        count_below(text2->ends, text2->n, area[2], 1),
        count_below(text2->starts, text2->n, area[3], 0),
    };
    size_t from = spans->n;
    for (size_t reach = work->window;; reach *= 2) {
        Part around = reach_out(work, &near, reach);
        int is_whole = !around.first1 && around.last1 == text1->n && !around.first2
                       && around.last2 == text2->n,
            goes_on;
        /* All passages of the whole texts are covered by themselves. */
        if (is_whole && *is_all_known)
            return WORK_DONE;
        int undone = find_chains(work, &around, spans, &goes_on);
        if (undone)
            return undone;
        if (is_whole)
            *is_all_known = 1;
        if (is_whole || !goes_on)
            return drop_covered(work, spans, from);
        spans->n = from;
    }
}

static int compare_rows_of_four(const void *left, const void *right)
{
    const int64_t *numbers1 = left, *numbers2 = right;
    for (int i = 0; i < 4; i++)
        if (numbers1[i] != numbers2[i])
            return numbers1[i] < numbers2[i] ? -1 : 1;
    return 0;
}

static void sort_rows(Rows *rows)
{
    if (rows->n > 1)
        qsort(rows->rows, rows->n, 4 * sizeof *rows->rows, compare_rows_of_four);
}

/* Put the areas into work->areas, in order; those that overlap or touch in both texts are one. */
static int merge_areas(Aligning *work, const int64_t *areas, size_t n_areas)
{
    Rows *sorted = &work->spans, *grown = &work->grown, *merged = &work->areas;
    sorted->n = grown->n = merged->n = 0;
    int undone = WORK_DONE;
    for (size_t i = 0; i < n_areas && !undone; i++)
        undone = add_row(sorted, areas + 4 * i);
    sort_rows(sorted);
    for (size_t i = 0; i < sorted->n && !undone; i++) {
        int64_t *area = sorted->rows + 4 * i;
        size_t kept = 0;
        for (size_t j = 0; j < grown->n && !undone; j++) {
            int64_t *other = grown->rows + 4 * j;
            if (other[1] < area[0]) {
                undone = add_row(merged, other);
            } else if (other[2] <= area[3] && area[2] <= other[3]) {
                area[0] = area[0] < other[0] ? area[0] : other[0];
                area[1] = area[1] > other[1] ? area[1] : other[1];
                area[2] = area[2] < other[2] ? area[2] : other[2];
                area[3] = area[3] > other[3] ? area[3] : other[3];
            } else {
                memmove(grown->rows + 4 * kept++, other, 4 * sizeof *other);
            }
        }
        size_t steps = 1 + grown->n;
        grown->n = kept;
        if (!undone)
            undone = take_steps(work, steps);
        if (!undone)
            undone = add_row(grown, area);
    }
    for (size_t j = 0; j < grown->n && !undone; j++)
        undone = add_row(merged, grown->rows + 4 * j);
    sort_rows(merged);
    return undone;
}

/* Find the passages of two texts in all areas; they are in work->spans then, in order. */
static int align_pair(Aligning *work, const int64_t *areas, size_t n_areas)
{
    int undone = merge_areas(work, areas, n_areas), is_all_known = 0;
    work->spans.n = 0;
    for (size_t i = 0; i < work->areas.n && !undone; i++) {
        undone = align_area(work, work->areas.rows + 4 * i, &work->spans, &is_all_known);
        if (!undone)
            undone = take_steps(work, 1);
    }
    sort_rows(&work->spans);
    return undone;
}

static int add_passage(Passages *passages, int64_t pair, const WordText *text1,
                       const WordText *text2, const int64_t *span)
{
    if (grow(&passages->numbers, passages->n, &passages->room, PASSAGE_NUMBERS))
        return WORK_MEMORY;
    int64_t *numbers = passages->numbers + PASSAGE_NUMBERS * passages->n++;
    numbers[0] = pair;
    memcpy(numbers + 1, span, 4 * sizeof *span);
    numbers[5] = text1->starts[span[0]];
    numbers[6] = text1->ends[span[1] - 1];
    numbers[7] = text2->starts[span[2]];
    numbers[8] = text2->ends[span[3] - 1];
    return WORK_DONE;
}

int align_words(const WordText *texts, const int64_t *pairs, size_t n_pairs, const int64_t *areas,
                size_t window, size_t k, Passages *passages, const Listener *listener)
{
    Aligning work = {.window = window, .k = k, .listener = listener};
    int undone = WORK_DONE;
    for (size_t i = 0; i < n_pairs && !undone; i++) {
        const int64_t *pair = pairs + 4 * i;
        work.text1 = texts + pair[0];
        work.text2 = texts + pair[1];
        work.is_same = pair[0] == pair[1];
        undone = align_pair(&work, areas + 4 * pair[2], (size_t)pair[3]);
        for (size_t j = 0; j < work.spans.n && !undone; j++)
            undone =
                add_passage(passages, (int64_t)i, work.text1, work.text2, work.spans.rows + 4 * j);
    }
    free(work.spans.rows);
    free(work.grown.rows);
    free(work.areas.rows);
    free(work.keys);
    free(work.heads);
    free(work.counts);
    free(work.slots1);
    free(work.slots2);
    free(work.next);
    free(work.runs);
    free(work.is_used);
    free(work.order);
    free(work.spare);
    return undone;
}
