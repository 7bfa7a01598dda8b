/* See binding.h. */

#include "binding.h"

const Level *level_of(PyObject *module)
{
    return atomic_load(&((State *)PyModule_GetState(module))->level);
}

Py_ssize_t multiply(Py_ssize_t n, Py_ssize_t m)
{
    Py_ssize_t product;
    return n < 0 || m < 0 || __builtin_mul_overflow(n, m, &product) ? -1 : product;
}

int is_length(const Py_buffer *buffer, Py_ssize_t count, size_t width, const char *name)
{
    if (count >= 0 && buffer->len == multiply(count, (Py_ssize_t)width)) {
        if (!buffer->len || (uintptr_t)buffer->buf % width == 0)
            return 1;
        PyErr_Format(PyExc_ValueError, "%s must begin at a multiple of %zu", name, width);
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "%s has %zd bytes, expected %zd times %zu", name, buffer->len,
                 count, width);
    return 0;
}

int is_scheme(int scheme, Py_ssize_t num_perm, const Py_buffer *constants)
{
    if (scheme < 0 || scheme >= N_SCHEMES || num_perm < 1 || num_perm > MAX_NUM_PERM) {
        PyErr_SetString(PyExc_ValueError, "scheme or num_perm is out of range");
        return 0;
    }
    return is_length(constants, 2 * num_perm, 8, "constants");
}

int is_shingling(int unit, Py_ssize_t k)
{
    if (unit >= 0 && unit < N_UNITS && k >= 1)
        return 1;
    PyErr_SetString(PyExc_ValueError, "unit or k is out of range");
    return 0;
}

int is_banding(Py_ssize_t words, int slot_bits, Py_ssize_t bands, Py_ssize_t height)
{
    Py_ssize_t most = slot_bits == 1 ? MAX_BITS / WORD_BITS : MAX_NUM_PERM;
    if ((slot_bits == 1 || slot_bits == WORD_BITS) && words >= 1 && words <= most && bands >= 1
        && bands <= 255 && height >= 1 && height <= words * WORD_BITS / slot_bits / bands)
        return 1;
    PyErr_SetString(PyExc_ValueError, "num_perm, bands or rows is out of range");
    return 0;
}

/* The clock that is a few milliseconds late takes a fifth of the time, and is read for every text. */
#ifdef CLOCK_MONOTONIC_COARSE
#define CHEAP_CLOCK CLOCK_MONOTONIC_COARSE
#else
#define CHEAP_CLOCK CLOCK_MONOTONIC
#endif

static int is_time(Hearing *hearing)
{
    struct timespec now;
    clock_gettime(CHEAP_CLOCK, &now);
    if ((now.tv_sec - hearing->last.tv_sec) * 10 + (now.tv_nsec - hearing->last.tv_nsec) / 100000000
        < 1)
        return 0;
    hearing->last = now;
    return 1;
}

static int look(Hearing *hearing)
{
    if (PyErr_CheckSignals())
        return -1;
    if (!hearing->state->asked)
        return 0;
    PyObject *asked = Py_NewRef(hearing->state->asked), *answer = PyObject_CallNoArgs(asked);
    Py_DECREF(asked);
    Py_XDECREF(answer);
    return answer ? 0 : -1;
}

int hear_with_lock(Hearing *hearing) { return is_time(hearing) ? look(hearing) : 0; }

static int hear_signals(void *context)
{
    Hearing *hearing = context;
    if (!is_time(hearing))
        return 0;
    PyEval_RestoreThread(hearing->released);
    int failed = look(hearing);
    hearing->released = PyEval_SaveThread();
    return failed;
}

Listener listen_with(Hearing *hearing, PyObject *module)
{
    State *state = PyModule_GetState(module);
    *hearing = (Hearing){.state = state};
    clock_gettime(CLOCK_MONOTONIC, &hearing->last);
    uint64_t secret = (uint64_t)hearing->last.tv_nsec << 32 ^ (uint64_t)(uintptr_t)hearing;
    return (Listener){hear_signals, hearing, secret, atomic_load(&state->piece)};
}

PyObject *say_why(int undone) { return undone == WORK_STOPPED ? NULL : PyErr_NoMemory(); }
