/* The Python interface of orders.c. */

#include "binding.h"
#include "bucket_layout.h"
#include "orders.h"

enum { HEARD_EACH = 256 };

PyDoc_STRVAR(sort_orders_doc,
"sort_orders(keys, n_orders, planes)\n--\n\n"
"Sort each column of bucket keys (int64, shape (n, n_orders)) into planes (uint32, shape\n"
"(2, n_orders, n)): the buckets, and the rows that they are of.");

static PyObject *py_sort_orders(PyObject *module, PyObject *args)
{
    Py_ssize_t n_orders;
    HELD Py_buffer keys = {0}, planes = {0};
    if (!PyArg_ParseTuple(args, "y*nw*", &keys, &n_orders, &planes))
        return NULL;
    if (n_orders < 1 || n_orders > 256) {
        PyErr_SetString(PyExc_ValueError, "n_orders is out of range");
        return NULL;
    }
    Py_ssize_t n = keys.len / 8 / n_orders;
    if (n > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "there are too many keys");
        return NULL;
    }
    if (!is_length(&keys, multiply(n, n_orders), 8, "keys")
        || !is_length(&planes, multiply(multiply(n, n_orders), N_PLANES), 4, "planes"))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    hearing.released = PyEval_SaveThread();
    int undone = sort_orders(keys.buf, (size_t)n, (size_t)n_orders, planes.buf, &listener);
    PyEval_RestoreThread(hearing.released);
    return undone ? say_why(undone) : Py_NewRef(Py_None);
}

/* Orders as a caller gives them: tuples (source, n, n_orders, first), a source being a buffer or the
   descriptor of a file. */
typedef struct {
    Order *orders;
    Py_buffer *buffers;
    Py_ssize_t n;
} Given;

static void let_go(Given *given)
{
    for (Py_ssize_t i = 0; i < given->n && given->buffers; i++)
        PyBuffer_Release(&given->buffers[i]);
    PyMem_Free(given->buffers);
    PyMem_Free(given->orders);
}

static int is_order(PyObject *item, Order *order, Py_buffer *buffer)
{
    PyObject *source;
    Py_ssize_t n, n_orders;
    long long first;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "an order is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(item, "OnnL", &source, &n, &n_orders, &first))
        return 0;
    if (n < 0 || n > UINT32_MAX || n_orders < 1 || n_orders > 256 || first < 0
        || first > INT64_MAX - n) {
        PyErr_SetString(PyExc_ValueError, "the shape of an order is out of range");
        return 0;
    }
    *order = (Order){NULL, NULL, -1, (size_t)n, (size_t)n_orders, first};
    if (PyLong_Check(source)) {
        long descriptor = PyLong_AsLong(source);
        if (descriptor < 0 || descriptor > INT_MAX) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "the descriptor is out of range");
            return 0;
        }
        order->descriptor = (int)descriptor;
        return 1;
    }
    if (PyObject_GetBuffer(source, buffer, PyBUF_SIMPLE))
        return 0;
    order->words = buffer->buf;
    Py_ssize_t n_words = multiply(multiply(n, n_orders), N_PLANES),
               n_sums = (n + SUMMED - 1) / SUMMED;
    if (n_words >= 0 && n_sums && buffer->len / 4 - n_words == n_sums) {
        order->sums = order->words + n_words;
        n_words += n_sums;
    }
    return is_length(buffer, n_words, 4, "an order");
}

static int take_orders(PyObject *list, Given *given)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "orders is not a list");
        return 0;
    }
    Py_ssize_t n = PyList_GET_SIZE(list);
    given->orders = PyMem_Calloc((size_t)n + 1, sizeof *given->orders);
    given->buffers = PyMem_Calloc((size_t)n + 1, sizeof *given->buffers);
    if (!given->orders || !given->buffers) {
        PyErr_NoMemory();
        return 0;
    }
    /* Taking a buffer may run code of its owner, which may change the list. */
    for (; given->n < n && given->n < PyList_GET_SIZE(list); given->n++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(list, given->n));
        int taken = is_order(item, &given->orders[given->n], &given->buffers[given->n]);
        Py_DECREF(item);
        if (!taken) {
            given->n++;
            return 0;
        }
    }
    return 1;
}

static PyObject *say_failure(int failure)
{
    if (failure == ORDER_UNREADABLE)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (failure == ORDER_DAMAGED) {
        PyErr_SetString(PyExc_ValueError,
                        "an order ends too early, names a row it does not have, or is damaged");
        return NULL;
    }
    return say_why(failure);
}

PyDoc_STRVAR(find_keys_doc,
"find_keys(orders, keys, limit, counts)\n--\n\n"
"Return the signatures below limit in each of some buckets (int64), one bucket after the other, as bytes of\n"
"int64, and put their numbers into counts (int64, one for each key). orders is a list of tuples (source, n,\n"
"n_orders, first): planes as of sort_orders(), or the descriptor of a file with 128 bytes before them, and\n"
"the signature of the first row. The last order of each is that of band 255; of a file, and of planes with\n"
"sums behind them, its entries are compared with their sums. Raises OSError if a file cannot be read, and\n"
"ValueError if it ends too early, names a row that it does not have, or a sum is another.");

static PyObject *py_find_keys(PyObject *module, PyObject *args)
{
    PyObject *list;
    long long limit;
    HELD Py_buffer keys = {0}, counts = {0};
    if (!PyArg_ParseTuple(args, "Oy*Lw*", &list, &keys, &limit, &counts))
        return NULL;
    Py_ssize_t n = keys.len / 8;
    if (!is_length(&keys, n, 8, "keys") || !is_length(&counts, n, 8, "counts"))
        return NULL;
    Given given = {0};
    if (!take_orders(list, &given)) {
        let_go(&given);
        return NULL;
    }
    size_t *places = PyMem_Malloc((size_t)(given.n + 1) * KEYS_AT_ONCE * sizeof *places);
    if (!places) {
        let_go(&given);
        return PyErr_NoMemory();
    }
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    Found found = {0};
    int failure = 0, reason = 0;
    const int64_t *wanted = keys.buf;
    hearing.released = PyEval_SaveThread();
    for (Py_ssize_t i = 0; i < n && !failure; i++) {
        Py_ssize_t in_group = i % KEYS_AT_ONCE;
        size_t before = found.n, group = (size_t)(n - i < KEYS_AT_ONCE ? n - i : KEYS_AT_ONCE);
        for (Py_ssize_t j = 0; j < given.n && !in_group; j++)
            approach_keys(&given.orders[j], wanted + i, group, places + j * KEYS_AT_ONCE);
        for (Py_ssize_t j = 0; j < given.n && !failure; j++)
            failure = find_key(&given.orders[j], wanted[i], places[j * KEYS_AT_ONCE + in_group],
                               limit, &found);
        ((int64_t *)counts.buf)[i] = (int64_t)(found.n - before);
        reason = errno;
        if (i % HEARD_EACH == HEARD_EACH - 1 && is_stopped(&listener))
            failure = WORK_STOPPED;
    }
    PyEval_RestoreThread(hearing.released);
    PyMem_Free(places);
    let_go(&given);
    errno = reason;
    PyObject *result = failure
                           ? say_failure(failure)
                           : PyBytes_FromStringAndSize((const char *)found.ids,
                                                       (Py_ssize_t)(found.n * sizeof *found.ids));
    free(found.ids);
    return result;
}

PyDoc_STRVAR(group_keys_doc,
"group_keys(orders, first, last, limit, above)\n--\n\n"
"Return the buckets from key first to key last (inclusive, of one band, and not of band 255) that have more\n"
"than above signatures below limit: their keys, sizes and members (bytes of int64), in order of key, and the\n"
"members of each in the order of the orders. orders is as for find_keys(), and so are the errors.");

static PyObject *bytes_of(const Found *found)
{
    return PyBytes_FromStringAndSize((const char *)found->ids,
                                     (Py_ssize_t)(found->n * sizeof *found->ids));
}

static PyObject *py_group_keys(PyObject *module, PyObject *args)
{
    PyObject *list;
    long long first, last, limit;
    Py_ssize_t above;
    if (!PyArg_ParseTuple(args, "OLLLn", &list, &first, &last, &limit, &above))
        return NULL;
    size_t band = band_of(first);
    if (band != band_of(last) || band >= CONTENT_BAND || above < 0) {
        PyErr_SetString(PyExc_ValueError, "the range is not of one band, or above is negative");
        return NULL;
    }
    Given given = {0};
    if (!take_orders(list, &given)) {
        let_go(&given);
        return NULL;
    }
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    Groups groups = {0};
    hearing.released = PyEval_SaveThread();
    int failure = group_keys(given.orders, (size_t)given.n, band, bucket_of(first), bucket_of(last),
                             limit, (size_t)above, &groups, &listener);
    int reason = errno;
    PyEval_RestoreThread(hearing.released);
    let_go(&given);
    errno = reason;
    PyObject *result = failure ? say_failure(failure)
                               : Py_BuildValue("(NNN)", bytes_of(&groups.keys),
                                               bytes_of(&groups.sizes), bytes_of(&groups.members));
    free(groups.keys.ids);
    free(groups.sizes.ids);
    free(groups.members.ids);
    return result;
}

PyMethodDef order_methods[] = {
    {"sort_orders", py_sort_orders, METH_VARARGS, sort_orders_doc},
    {"find_keys", py_find_keys, METH_VARARGS, find_keys_doc},
    {"group_keys", py_group_keys, METH_VARARGS, group_keys_doc},
    {NULL, NULL, 0, NULL},
};
