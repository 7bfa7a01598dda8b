/* The Python interface of passages.c. */

#include "binding.h"
#include "passages.h"

#include <stdlib.h>

/* Then a place in a table of twice as many has 32 bits. */
enum { MOST_WORDS = 1 << 30 };

/* Whether the buffers of a text fit together; fills `text`. */
static int is_text(const Py_buffer *starts, const Py_buffer *ends, const Py_buffer *grams,
                   Py_ssize_t k, WordText *text)
{
    Py_ssize_t n = starts->len / 8, n_grams = n < k ? 0 : n - k + 1;
    if (!is_length(starts, n, 8, "starts") || !is_length(ends, n, 8, "ends")
        || !is_length(grams, n_grams, 8, "grams"))
        return 0;
    if (n > MOST_WORDS) {
        PyErr_SetString(PyExc_ValueError, "a text has at most 1,073,741,824 words");
        return 0;
    }
    *text = (WordText){starts->buf, ends->buf, grams->buf, (size_t)n};
    return 1;
}

PyDoc_STRVAR(align_words_doc,
"align_words(starts1, ends1, grams1, starts2, ends2, grams2, is_same, areas, window, k)\n--\n\n"
"Return the passages that two texts share: a bytearray of (first word, last, first word in the second\n"
"text, last), native int64, in order; each last one is left out. starts and ends (int64) have the first\n"
"and last character of each word, grams (uint64) a hash of the k words from each word on. areas (int64)\n"
"has the characters (start, end, start in the second text, end) between which, and as far as a window of\n"
"words around them, passages are looked for. With is_same the texts are one, and passages of it are apart.");

static PyObject *py_align_words(PyObject *module, PyObject *args)
{
    HELD Py_buffer starts1 = {0}, ends1 = {0}, grams1 = {0}, starts2 = {0}, ends2 = {0},
                   grams2 = {0}, areas = {0};
    int is_same;
    Py_ssize_t window, k;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*py*nn", &starts1, &ends1, &grams1, &starts2, &ends2,
                          &grams2, &is_same, &areas, &window, &k))
        return NULL;
    if (window < 1 || window > MOST_WORDS || k < 1 || k > MOST_WORDS) {
        PyErr_SetString(PyExc_ValueError, "window or k is out of range");
        return NULL;
    }
    WordText text1, text2;
    Py_ssize_t n_areas = areas.len / 32;
    if (!is_text(&starts1, &ends1, &grams1, k, &text1)
        || !is_text(&starts2, &ends2, &grams2, k, &text2)
        || !is_length(&areas, multiply(n_areas, 4), 8, "areas"))
        return NULL;
    Spans spans = {0};
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    hearing.released = PyEval_SaveThread();
    int undone = align_words(&text1, &text2, is_same, areas.buf, (size_t)n_areas, (size_t)window,
                             (size_t)k, &spans, &listener);
    PyEval_RestoreThread(hearing.released);
    PyObject *result = undone ? say_why(undone)
                              : PyByteArray_FromStringAndSize((const char *)spans.words,
                                                              (Py_ssize_t)(32 * spans.n));
    free(spans.words);
    return result;
}

PyMethodDef passage_methods[] = {
    {"align_words", py_align_words, METH_VARARGS, align_words_doc},
    {NULL, NULL, 0, NULL},
};
