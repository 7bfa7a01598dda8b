/* What the files of the Python interface share: the module's state, checks of lengths and options, and
   hearing signals during long work. Include it first, because it brings Python.h. */

#ifndef LSHDB_BINDING_H
#define LSHDB_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <time.h>

#include <stdatomic.h>

#include "kernel.h"

/* A buffer that is let go of, with the lock, wherever its block ends; {0} is none. */
#define HELD __attribute__((cleanup(PyBuffer_Release)))

typedef struct {
    _Atomic(const Level *) level;
    _Atomic size_t piece; /* shingles of a long text hashed at a time */
    PyObject *asked;      /* by hear_with() */
} State;

/* Functions of the module that other files than module.c hold. */
extern PyMethodDef block_methods[], line_methods[], order_methods[], pair_methods[],
    passage_methods[], query_methods[], scan_methods[], set_methods[], sharing_methods[],
    text_methods[];

const Level *level_of(PyObject *module);

extern PyMethodDef row_methods[]; /* bind_rows.c */

/* n times m, or -1 if that is not a valid size. */
Py_ssize_t multiply(Py_ssize_t n, Py_ssize_t m);

/* Checks; each returns 0 with an exception set, or 1. */

/* Whether a buffer holds `count` numbers of `width` bytes and is aligned for them. */
int is_length(const Py_buffer *buffer, Py_ssize_t count, size_t width, const char *name);
/* The options of a scheme against its constants. */
int is_scheme(int scheme, Py_ssize_t num_perm, const Py_buffer *constants);
int is_shingling(int unit, Py_ssize_t k);
/* Whether rows of that many words, of slots of WORD_BITS bits or 1, can be cut into such bands. */
int is_banding(Py_ssize_t words, int slot_bits, Py_ssize_t bands, Py_ssize_t height);

/* Long work without the lock takes it now and then to check for signals, and to call the function given to
   hear_with(), which raises in a thread whose result is no longer needed. Set `released` to what
   PyEval_SaveThread() returned, and restore from it. */
typedef struct {
    State *state;
    PyThreadState *released;
    struct timespec last;
} Hearing;

Listener listen_with(Hearing *hearing, PyObject *module);

/* With the lock: 0, or -1 with an exception set. */
int hear_with_lock(Hearing *hearing);

/* Set the exception of work that was not done, unless it has set one itself. Returns NULL. */
PyObject *say_why(int undone);

#endif
