/* The Python interface of many queries at a time: their look-ups and comparisons in one call. */

#include "bind_orders.h"
#include "rows.h"

#include <errno.h>
#include <stdlib.h>

PyDoc_STRVAR(find_agreeing_doc,
"find_agreeing(orders, limit, keys, rows, most, least, source, offset, n_rows, words, bands, height,\n"
"    is_bits)\n--\n\n"
"Look up the buckets of queries, and compare each query with the signatures in them. keys (int64, shape (n,\n"
"bands)) are the bucket keys of the queries, and rows (uint16, shape (n, words)) theirs. Returns how many queries\n"
"are done, and bytes of (query, signature, equal slots, bands that agree), int64 each, of the signatures that agree\n"
"in a band and have `least` equal slots, in order of query and signature. After a query with which these are `most`\n"
"or more, it ends. orders and limit are as for find_keys(), source to is_bits as for compare_found(), and so are the\n"
"errors. Memory is that of the result and of the buckets of one query.");

static int find_of_queries(const Given *given, int64_t limit, const int64_t *keys,
                           const uint16_t *rows, Py_ssize_t *n, const Comparing *job, size_t most,
                           AgreeingRows *agreeing, int *is_order, const Listener *listener)
{
    Found ids = {0};
    int failure = WORK_DONE;
    Py_ssize_t query = 0;
    for (; query < *n && !failure && (!query || agreeing->n < most); query++) {
        const int64_t *own = keys + (size_t)query * job->bands;
        ids.n = 0;
        *is_order = 1;
        for (size_t band = 0; band < job->bands && !failure; band++) {
            size_t left = job->bands - band, group = left < KEYS_AT_ONCE ? left : KEYS_AT_ONCE;
            for (Py_ssize_t j = 0; j < given->n && band % KEYS_AT_ONCE == 0; j++)
                approach_keys(&given->orders[j], own + band, group);
            for (Py_ssize_t j = 0; j < given->n && !failure; j++)
                failure = find_key(&given->orders[j], own[band], limit, &ids);
        }
        if (failure)
            break;
        *is_order = 0;
        failure = compare_candidates(job, query, rows + (size_t)query * job->rows.row_words,
                                     ids.ids, ids.n, agreeing, listener);
        if (!failure && is_stopped(listener))
            failure = WORK_STOPPED;
    }
    *n = query;
    free(ids.ids);
    return failure;
}

static PyObject *py_find_agreeing(PyObject *module, PyObject *args)
{
    PyObject *list, *source;
    long long limit, least, offset, n_rows;
    Py_ssize_t most, words, bands, height;
    int is_bits;
    HELD Py_buffer keys = {0}, rows = {0}, held = {0};
    if (!PyArg_ParseTuple(args, "OLy*y*nLOLLnnnp", &list, &limit, &keys, &rows, &most, &least,
                          &source, &offset, &n_rows, &words, &bands, &height, &is_bits)
        || !is_banding(words, is_bits ? 1 : WORD_BITS, bands, height))
        return NULL;
    if (most < 1) {
        PyErr_SetString(PyExc_ValueError, "most is below 1");
        return NULL;
    }
    Py_ssize_t n = rows.len / (words * WORD_BYTES);
    if (!is_length(&rows, multiply(n, words), WORD_BYTES, "rows")
        || !is_length(&keys, multiply(n, bands), 8, "keys"))
        return NULL;
    Comparing job = {{NULL, -1, offset, n_rows, (size_t)words},
                     level_of(module),
                     least,
                     (size_t)bands,
                     (size_t)height,
                     is_bits};
    if (!take_source(source, &job.rows, &held))
        return NULL;
    Given given = {0};
    if (!take_orders(list, &given))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    AgreeingRows agreeing = {0};
    int is_order = 0;
    hearing.released = PyEval_SaveThread();
    int failure = find_of_queries(&given, limit, keys.buf, rows.buf, &n, &job, (size_t)most,
                                  &agreeing, &is_order, &listener),
        reason = errno;
    PyEval_RestoreThread(hearing.released);
    let_go(&given);
    errno = reason;
    PyObject *result = NULL;
    if (failure)
        result = is_order ? say_failure(failure) : say_row(failure, reason);
    else
        result = Py_BuildValue("ny#", n, agreeing.n ? (const char *)agreeing.rows : "",
                               (Py_ssize_t)(agreeing.n * sizeof *agreeing.rows));
    free(agreeing.rows);
    return result;
}

PyMethodDef block_methods[] = {
    {"find_agreeing", py_find_agreeing, METH_VARARGS, find_agreeing_doc},
    {NULL, NULL, 0, NULL},
};
