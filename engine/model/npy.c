#include "engine/model/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC = 10, ALIGN = 64 }; /* bytes of "\x93NUMPY", the version and the header's length */

size_t npy_head(char head[NPY_HEAD_MOST], const uint64_t *shape, uint32_t dims)
{
	char text[NPY_HEAD_MOST];
	int n = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
	for (uint32_t i = 0; i < dims && i < NPY_DIMS; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, "%s%" PRIu64 "%s", i ? " " : "",
			      shape[i], i + 1 < dims || dims == 1 ? "," : "");
	n += snprintf(text + n, sizeof text - (size_t)n, "), }");
	size_t whole = (MAGIC + (size_t)n + 1 + ALIGN - 1) / ALIGN * ALIGN, rest = whole - MAGIC;
	memcpy(head, "\x93NUMPY\x01", 8);
	head[7] = 0;
	head[8] = (char)(rest & 0xff);
	head[9] = (char)(rest >> 8);
	memset(head + MAGIC, ' ', rest - 1);
	memcpy(head + MAGIC, text, (size_t)n);
	head[whole - 1] = '\n';
	return whole;
}
