/* Ending early: what takes long looks now and then whether it is to go on. */
#ifndef MOEFS_ENGINE_TOKENIZER_STOP_H
#define MOEFS_ENGINE_TOKENIZER_STOP_H

#include "cache/err.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* `stop` may be NULL. */
static inline bool stop_asked(const _Atomic bool *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}
static inline int stop_error(struct err *e)
{
	return err_set(e, ECANCELED, "tokenizing was stopped");
}

#endif
