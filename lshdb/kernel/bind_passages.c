/* The Python interface of passages.c: texts as words, and the passages that they share. */

#include "binding.h"

#include "hashing.h"
#include "passages.h"
#include "words.h"

#include <stdlib.h>

/* Then a place in a table of twice as many has 32 bits. */
enum { MOST_WORDS = 1 << 30 };

/* How words of ASCII are normalised; others, and all where this is not so, are hashed by Python. */
enum { HASH_BY_PYTHON = -1, HASH_AS_IT_IS, HASH_FOLDED };
/* Bytes of the longest word that is hashed here. */
enum { LONGEST_WORD = 256 };
#define GRAM_STEP UINT64_C(0x9E3779B97F4A7C15)

typedef struct {
    int64_t start, end;
    uint64_t hash;
} HashedWord;

typedef struct {
    HashedWord *words;
    size_t n, room;
} HashedWords;

static HashedWord *new_word(HashedWords *words)
{
    if (words->n == words->room) {
        size_t room = words->room + words->room / 2 + 256;
        HashedWord *moved = PyMem_RawRealloc(words->words, room * sizeof *moved);
        if (!moved)
            return NULL;
        words->words = moved;
        words->room = room;
    }
    return words->words + words->n++;
}

static int hash_by_python(PyObject *text, PyObject *hash_word, HashedWord *word)
{
    PyObject *part = PyUnicode_Substring(text, word->start, word->end),
             *hash = part ? PyObject_CallOneArg(hash_word, part) : NULL;
    Py_XDECREF(part);
    if (!hash)
        return 0;
    word->hash = PyLong_AsUnsignedLongLong(hash);
    Py_DECREF(hash);
    return !PyErr_Occurred();
}

/* Hash a word of ASCII; 0 if it is none, or is long. */
static int hash_ascii(const Text *text, int way, HashedWord *word)
{
    uint8_t bytes[LONGEST_WORD + PADDING];
    size_t length = (size_t)(word->end - word->start);
    if (way == HASH_BY_PYTHON || length > LONGEST_WORD)
        return 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t point = PyUnicode_READ(text->width, text->points, (size_t)word->start + i);
        if (point >= 0x80)
            return 0;
        bytes[i] =
            (uint8_t)(way == HASH_FOLDED && point >= 'A' && point <= 'Z' ? point | 0x20 : point);
    }
    word->hash = murmur3(bytes, length, 0);
    return 1;
}

/* Words -> starts, ends, and the hashes of k words each. */
static PyObject *grams_of(const HashedWords *words, size_t k)
{
    size_t n = words->n;
    PyObject *result = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(24 * n));
    if (!result)
        return NULL;
    int64_t *starts = (int64_t *)(void *)PyByteArray_AS_STRING(result), *ends = starts + n;
    uint64_t *grams = (uint64_t *)(void *)(ends + n);
    for (size_t i = 0; i < n; i++) {
        starts[i] = words->words[i].start;
        ends[i] = words->words[i].end;
        grams[i] = 0;
        for (size_t j = i; j < i + k && i + k <= n; j++)
            grams[i] = grams[i] * GRAM_STEP + words->words[j].hash;
    }
    return result;
}

PyDoc_STRVAR(cut_grams_doc,
"cut_grams(text, way, k, hash_word)\n--\n\n"
"Cut a text that is not normalised into words. Returns a bytearray of 3 n numbers of 64 bits: the first and\n"
"the last character (left out) of each word, and a hash of the k words from each on, 0 for the last k - 1.\n"
"hash_word(word) hashes a word; with way 1, those of ASCII are folded and hashed here, with 0 as they are,\n"
"with -1 none.");

static PyObject *py_cut_grams(PyObject *module, PyObject *args)
{
    PyObject *text, *hash_word;
    int way;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "UinO", &text, &way, &k, &hash_word))
        return NULL;
    if (way < HASH_BY_PYTHON || way > HASH_FOLDED || k < 1 || k > MOST_WORDS) {
        PyErr_SetString(PyExc_ValueError, "way or k is out of range");
        return NULL;
    }
    Text points = {PyUnicode_DATA(text), (size_t)PyUnicode_GET_LENGTH(text), PyUnicode_KIND(text),
                   PyUnicode_IS_ASCII(text)};
    HashedWords words = {0};
    Hearing hearing;
    listen_with(&hearing, module);
    PyObject *result = NULL;
    size_t start, at = 0;
    while (find_word(&points, &start, &at)) {
        HashedWord *word = new_word(&words);
        if (!word) {
            PyErr_NoMemory();
            goto done;
        }
        *word = (HashedWord){(int64_t)start, (int64_t)at, 0};
        if (!hash_ascii(&points, way, word) && !hash_by_python(text, hash_word, word))
            goto done;
        if (!(words.n & 0xFFFF) && hear_with_lock(&hearing))
            goto done;
    }
    result = grams_of(&words, (size_t)k);
done:
    PyMem_RawFree(words.words);
    return result;
}

/* Texts of a list, each a buffer, and what the kernel takes them for. */
typedef struct {
    Py_ssize_t n;
    Py_buffer *buffers;
    WordText *texts;
} WordTexts;

static void release_texts(WordTexts *texts)
{
    for (Py_ssize_t i = 0; i < texts->n; i++)
        PyBuffer_Release(texts->buffers + i);
    PyMem_Free(texts->buffers);
    PyMem_Free(texts->texts);
}

static int take_texts(PyObject *list, WordTexts *texts)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    texts->buffers = PyMem_Calloc((size_t)n, sizeof *texts->buffers);
    texts->texts = PyMem_Calloc((size_t)n, sizeof *texts->texts);
    if (!texts->buffers || !texts->texts) {
        PyErr_NoMemory();
        return 0;
    }
    for (; texts->n < n; texts->n++) {
        if (texts->n >= PyList_GET_SIZE(list)) {
            PyErr_SetString(PyExc_ValueError, "the list of texts changed");
            return 0;
        }
        PyObject *item = Py_NewRef(PyList_GET_ITEM(list, texts->n));
        Py_buffer *buffer = texts->buffers + texts->n;
        int has_buffer = !PyObject_GetBuffer(item, buffer, PyBUF_SIMPLE);
        Py_DECREF(item); /* the buffer keeps it */
        if (!has_buffer)
            return 0;
        Py_ssize_t n_words = buffer->len / 24;
        if (n_words > MOST_WORDS || !is_length(buffer, multiply(n_words, 3), 8, "a text")) {
            if (n_words > MOST_WORDS)
                PyErr_SetString(PyExc_ValueError, "a text has at most 1,073,741,824 words");
            texts->n++;
            return 0;
        }
        const int64_t *starts = buffer->buf;
        texts->texts[texts->n] = (WordText){
            starts, starts + n_words, (const uint64_t *)(starts + 2 * n_words), (size_t)n_words};
    }
    return 1;
}

static int are_pairs(const int64_t *pairs, Py_ssize_t n_pairs, Py_ssize_t n_texts,
                     Py_ssize_t n_areas)
{
    for (Py_ssize_t i = 0; i < n_pairs; i++) {
        const int64_t *pair = pairs + 4 * i;
        if (pair[0] < 0 || pair[0] >= n_texts || pair[1] < 0 || pair[1] >= n_texts || pair[2] < 0
            || pair[2] > n_areas || pair[3] < 0 || pair[3] > n_areas - pair[2]) {
            PyErr_Format(PyExc_ValueError, "pair %zd names a text or an area that is not there", i);
            return 0;
        }
    }
    return 1;
}

PyDoc_STRVAR(align_words_doc,
"align_words(texts, pairs, areas, window, k)\n--\n\n"
"Return the passages that pairs of texts share: a bytearray of 9 int64 each, the number of the pair, its first\n"
"word, last, first in the second text, last, and the same in characters; each last one is left out. A text is\n"
"what cut_grams() returns. A pair (int64) is two numbers of texts, its first area and how many areas it has;\n"
"passages of one text twice are apart. An area (int64) is the characters (start, end, start in the second text,\n"
"end) between which, and as far as a window of words around them, passages are looked for.");

static PyObject *py_align_words(PyObject *module, PyObject *args)
{
    HELD Py_buffer pairs = {0}, areas = {0};
    PyObject *list, *result = NULL;
    Py_ssize_t window, k;
    if (!PyArg_ParseTuple(args, "O!y*y*nn", &PyList_Type, &list, &pairs, &areas, &window, &k))
        return NULL;
    if (window < 1 || window > MOST_WORDS || k < 1 || k > MOST_WORDS) {
        PyErr_SetString(PyExc_ValueError, "window or k is out of range");
        return NULL;
    }
    Py_ssize_t n_pairs = pairs.len / 32, n_areas = areas.len / 32;
    WordTexts texts = {0};
    if (is_length(&pairs, multiply(n_pairs, 4), 8, "pairs")
        && is_length(&areas, multiply(n_areas, 4), 8, "areas") && take_texts(list, &texts)
        && are_pairs(pairs.buf, n_pairs, texts.n, n_areas)) {
        Passages passages = {0};
        Hearing hearing;
        Listener listener = listen_with(&hearing, module);
        hearing.released = PyEval_SaveThread();
        int undone = align_words(texts.texts, pairs.buf, (size_t)n_pairs, areas.buf, (size_t)window,
                                 (size_t)k, &passages, &listener);
        PyEval_RestoreThread(hearing.released);
        size_t bytes = PASSAGE_NUMBERS * sizeof *passages.numbers * passages.n;
        result = undone ? say_why(undone)
                        : PyByteArray_FromStringAndSize((const char *)passages.numbers,
                                                        (Py_ssize_t)bytes);
        free(passages.numbers);
    }
    release_texts(&texts);
    return result;
}

PyMethodDef passage_methods[] = {
    {"cut_grams", py_cut_grams, METH_VARARGS, cut_grams_doc},
    {"align_words", py_align_words, METH_VARARGS, align_words_doc},
    {NULL, NULL, 0, NULL},
};
