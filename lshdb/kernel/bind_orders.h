/* Frozen orders as a caller gives them (bind_orders.c, bind_blocks.c). */

#ifndef LSHDB_BIND_ORDERS_H
#define LSHDB_BIND_ORDERS_H

#include "binding.h"
#include "orders.h"

/* Tuples (source, n, n_orders, first, seed), a source being a buffer or the descriptor of a file. */
typedef struct {
    Order *orders;
    Py_buffer *buffers;
    Py_ssize_t n;
} Given;

/* Take a list of them, and let them go afterwards; 0 with an exception set, and none to let go of. */
int take_orders(PyObject *list, Given *given);
void let_go(Given *given);

/* Set the exception of a failure of orders.c, with errno if that is its reason. Returns NULL. */
PyObject *say_failure(int failure);

#endif
