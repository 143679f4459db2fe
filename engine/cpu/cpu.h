/* The CPU's backend: the operations of engine/compute/backend.h by the kernels' table and the
 * compute threads. What its files share is in layers.h and product.h. */
#ifndef MOEFS_ENGINE_CPU_CPU_H
#define MOEFS_ENGINE_CPU_CPU_H

#include "engine/compute/backend.h"

extern const struct backend cpu_backend;

#endif
