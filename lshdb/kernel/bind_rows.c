/* The Python interface of row_sums.h and row_pages.h. What reads Python's values holds the
   interpreter's lock. */

#include "binding.h"

#include "row_pages.h"
#include "row_sums.h"

typedef struct {
    uint8_t *start, *end;
    size_t size;
} Line;

/* Make room after the end of a line, and for one byte more: 0 with an exception set, or 1. */
static int has_room(Line *line, size_t more)
{
    size_t used = (size_t)(line->end - line->start);
    if (line->size - used > more)
        return 1;
    size_t size = 2 * (used + more) + 1;
    uint8_t *moved = PyMem_Realloc(line->start, size);
    if (!moved) {
        PyErr_NoMemory();
        return 0;
    }
    *line = (Line){moved, moved + used, size};
    return 1;
}

/* Set the exception of a value that no row may have. Returns 0. */
static int say_type(PyObject *value)
{
    PyErr_Format(PyExc_TypeError, "a row has a value of the type %.100s", Py_TYPE(value)->tp_name);
    return 0;
}

/* The number of rows of a tuple of columns, or -1 with an exception set. */
static Py_ssize_t rows_in(PyObject *columns)
{
    if (!PyTuple_Check(columns) || !PyTuple_GET_SIZE(columns)) {
        PyErr_SetString(PyExc_TypeError, "columns must be a tuple of at least one column");
        return -1;
    }
    Py_ssize_t n_rows = -1;
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(columns); number++) {
        PyObject *column = PyTuple_GET_ITEM(columns, number);
        if (!PyTuple_Check(column)) {
            PyErr_SetString(PyExc_TypeError, "a column must be a tuple");
            return -1;
        }
        if (n_rows >= 0 && PyTuple_GET_SIZE(column) != n_rows) {
            PyErr_SetString(PyExc_ValueError, "columns have different lengths");
            return -1;
        }
        n_rows = PyTuple_GET_SIZE(column);
    }
    return n_rows;
}

/* Append a value of a row: 0 with an exception set, or 1. */
static int append(Line *line, PyObject *value)
{
    if (value == Py_None) {
        if (!has_room(line, 4))
            return 0;
        line->end = (uint8_t *)memcpy(line->end, "null", 4) + 4;
    } else if (PyUnicode_Check(value)) {
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(value, &length);
        if (!text || !has_room(line, JSON_TEXT_BYTES((size_t)length)))
            return 0;
        line->end = json_text(line->end, (const uint8_t *)text, (size_t)length);
    } else if (PyBytes_Check(value)) {
        size_t length = (size_t)PyBytes_GET_SIZE(value);
        if (!has_room(line, JSON_HEX_BYTES(length)))
            return 0;
        line->end = json_hex(line->end, (const uint8_t *)PyBytes_AS_STRING(value), length);
    } else if (PyLong_CheckExact(value)) {
        long long number = PyLong_AsLongLong(value);
        if ((number == -1 && PyErr_Occurred()) || !has_room(line, JSON_WHOLE_BYTES))
            return 0;
        line->end = json_whole(line->end, number);
    } else {
        return say_type(value);
    }
    return 1;
}

/* The checksum of the values at one place of all columns; NULL with an exception set. */
static PyObject *sum_of(Line *line, PyObject *columns, Py_ssize_t place)
{
    line->end = line->start;
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(columns); number++) {
        PyObject *column = PyTuple_GET_ITEM(columns, number);
        if (!has_room(line, 1))
            return NULL;
        *line->end++ = number ? ',' : '[';
        if (!append(line, PyTuple_GET_ITEM(column, place)))
            return NULL;
    }
    *line->end++ = ']'; /* the one byte more */
    return PyLong_FromUnsignedLong(crc32_of(line->start, (size_t)(line->end - line->start)));
}

PyDoc_STRVAR(row_checksums_doc, "row_checksums(columns, /)\n--\n\n"
             "Return the checksum of each row, as a list: its CRC-32 as a JSON array.\n\n"
             "columns is a tuple of tuples of one length, of str, int, bytes and None. Raises a TypeError\n"
             "for other values, an OverflowError for whole numbers of more than 64 bits, and a ValueError\n"
             "for texts that are not UTF-8 or columns of different lengths.");

static PyObject *py_row_checksums(PyObject *module, PyObject *columns)
{
    (void)module;
    Py_ssize_t n_rows = rows_in(columns);
    if (n_rows < 0)
        return NULL;
    PyObject *result = PyList_New(n_rows);
    Line line = {0};
    for (Py_ssize_t place = 0; result && place < n_rows; place++) {
        PyObject *sum = sum_of(&line, columns, place);
        if (sum)
            PyList_SET_ITEM(result, place, sum);
        else
            Py_CLEAR(result);
    }
    PyMem_Free(line.start);
    return result;
}

/* A value as SQLite stores it: 0 with an exception set, or 1. The value must outlive the result. */
static int stored_value(PyObject *value, RowValue *stored)
{
    if (value == Py_None) {
        *stored = null_value();
    } else if (PyUnicode_Check(value)) {
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(value, &length);
        if (!text)
            return 0;
        *stored = text_value((const uint8_t *)text, (size_t)length);
    } else if (PyBytes_Check(value)) {
        *stored =
            bytes_value((const uint8_t *)PyBytes_AS_STRING(value), (size_t)PyBytes_GET_SIZE(value));
    } else if (PyLong_CheckExact(value)) {
        long long number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred())
            return 0;
        *stored = whole_value(number);
    } else {
        return say_type(value);
    }
    return 1;
}

/* Lay out the row at one place: 0 with an exception set, or 1; its place goes into `left` if it has none. */
static int lay_row(RowPages *pages, PyObject *columns, Py_ssize_t place, int64_t *last,
                   PyObject *left)
{
    PyObject *number = PyTuple_GET_ITEM(PyTuple_GET_ITEM(columns, 0), place);
    long long rowid = PyLong_CheckExact(number) ? PyLong_AsLongLong(number) : -1;
    if (rowid == -1 && PyErr_Occurred())
        return 0;
    if (rowid <= *last) {
        PyErr_SetString(PyExc_ValueError,
                        "the first column must be whole numbers in order, above 0");
        return 0;
    }
    *last = rowid;
    RowValue values[MOST_COLUMNS];
    size_t n_values = (size_t)PyTuple_GET_SIZE(columns);
    values[0] = null_value(); /* it is the rowid */
    for (size_t at = 1; at < n_values; at++) {
        PyObject *column = PyTuple_GET_ITEM(columns, (Py_ssize_t)at);
        if (!stored_value(PyTuple_GET_ITEM(column, place), &values[at]))
            return 0;
    }
    int found = place_row(pages, rowid, values, n_values);
    if (found == ROW_NO_MEMORY) {
        PyErr_NoMemory();
        return 0;
    }
    if (found == ROW_PLACED)
        return 1;
    PyObject *at = PyLong_FromSsize_t(place);
    int done = at && !PyList_Append(left, at);
    Py_XDECREF(at);
    return done;
}

PyDoc_STRVAR(lay_rows_doc, "lay_rows(columns, /)\n--\n\n"
             "Return pages of 65,536 bytes of SQLite's file format, as bytes, and the places of rows that did not\n"
             "fit, as a list.\n\n"
             "The first page is empty, and the second is the root of a table with the rows. columns is a tuple\n"
             "of 1 to 64 tuples of one length, of str, int, bytes and None; the first has rowids, which grow.\n"
             "Rows of more than 8 KiB do not fit, nor does what comes after 4,000 pages. Raises as\n"
             "row_checksums() does, and a ValueError for rowids that do not grow.");

static PyObject *py_lay_rows(PyObject *module, PyObject *columns)
{
    (void)module;
    Py_ssize_t n_rows = rows_in(columns);
    if (n_rows < 0)
        return NULL;
    if (PyTuple_GET_SIZE(columns) > MOST_COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "there are more than 64 columns");
        return NULL;
    }
    RowPages *pages = PyMem_Malloc(sizeof *pages);
    if (!pages)
        return PyErr_NoMemory();
    PyObject *left = PyList_New(0), *result = NULL;
    int64_t last = 0;
    int done = left != NULL;
    if (begin_pages(pages) != ROW_PLACED) {
        PyErr_NoMemory();
        done = 0;
    }
    for (Py_ssize_t place = 0; done && place < n_rows; place++)
        done = lay_row(pages, columns, place, &last, left);
    if (done) {
        end_pages(pages);
        result = Py_BuildValue("(y#O)", (const char *)pages->bytes,
                               (Py_ssize_t)(pages->n_pages * PAGE_BYTES), left);
    }
    Py_XDECREF(left);
    free_pages(pages);
    PyMem_Free(pages);
    return result;
}

PyMethodDef row_methods[] = {
    {"lay_rows", py_lay_rows, METH_O, lay_rows_doc},
    {"row_checksums", py_row_checksums, METH_O, row_checksums_doc},
    {NULL, NULL, 0, NULL},
};
