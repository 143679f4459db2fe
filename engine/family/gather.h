/* Reading roles whose numbers do not lie in a tensor's rows as they are wanted (view.h). */
#ifndef MOEFS_ENGINE_FAMILY_GATHER_H
#define MOEFS_ENGINE_FAMILY_GATHER_H

#include "engine/family/sources.h"

/* Where rows lie across, every call reads all of the tensor's rows that they cross: who can should
 * ask for at least so many bytes at a time. */
enum { GATHER_BYTES = 8 << 20 };

/* Rows [row, row + rows), in the source's format. Takes memory for some of the tensor's rows. */
int gather_rows(const struct package *p, const struct source *from, uint32_t row, uint32_t rows,
		void *out, struct err *e);

#endif
