/* The inside of a list of tensors, shared by tensors.c, which makes it, and tensors_read.c. */
#ifndef MOEFS_ENGINE_CONVERT_TENSORS_INSIDE_H
#define MOEFS_ENGINE_CONVERT_TENSORS_INSIDE_H

#include "engine/convert/tensors.h"
#include "engine/family/published.h"
#include "engine/family/sources.h"
#include "engine/source/source.h"

/* A role, in one layer and of one expert, whose numbers are not the published ones. */
struct tensor_use {
	size_t tensor; /* of the list */
	struct tensor_id id;
	uint64_t first, end; /* of the tensor's rows: none before or after is the role's */
};

struct listed_tensor {
	struct tensor_facts facts;
	const struct package_tensor *published;
	uint64_t rows, cols;
	size_t use, uses;      /* [use, use + uses) of the list's */
	uint64_t numbers_used; /* of these */
	bool covered;	       /* they are all that it has */
	bool head_is_tied;     /* it is the embedding */
};

struct tensors {
	struct sources sources;
	struct published formats;
	struct plan plan; /* as a store's would be */
	const struct kernels *kernels;
	struct listed_tensor *list;
	size_t count;
	struct tensor_use *uses;
	size_t use_count;
	struct source_stamp *stamps; /* of the package's files when they were opened */
};

#endif
