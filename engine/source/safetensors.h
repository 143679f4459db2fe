/* The header of one safetensors file: what tensors there are and where. See checkpoint.h for files.
 */
#ifndef MOEFS_ENGINE_SOURCE_SAFETENSORS_H
#define MOEFS_ENGINE_SOURCE_SAFETENSORS_H

#include "cache/err.h"
#include "engine/source/tensor_list.h"

enum { SAFETENSORS_MAX_HEADER = 100 << 20, SAFETENSORS_MAX_NAME = 512 };

/* Appends the tensors of the JSON text[length] of a file whose data has data_bytes. Checked: every
 * type has a known width, shape times width is the size given, no name is there twice, and together
 * the tensors cover the data exactly, without overlap or gap. */
int safetensors_parse(struct tensor_list *l, const char *text, size_t length, uint64_t data_bytes,
		      uint32_t file, const char *name, struct err *e);

#endif
