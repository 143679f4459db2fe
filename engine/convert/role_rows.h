/* Rows of one role as a store has them, whether there is one yet or not, and their numbers. */
#ifndef MOEFS_ENGINE_CONVERT_ROLE_ROWS_H
#define MOEFS_ENGINE_CONVERT_ROLE_ROWS_H

#include "engine/convert/encode.h"
#include "engine/convert/tensors.h"
#include "engine/family/sources.h"

/* Where they come from: the store, or else the source, by an encoder that is made for the first. */
struct role_reader {
	const struct tensors_store *store; /* NULL: none */
	const struct sources *sources;
	const struct plan *plan; /* of the sources */
	const struct kernels *kernels;
	struct encoder *encoder; /* the reader's; freed by its owner */
};

struct role_rows {
	struct tensor_id id;
	struct source from;
	struct shape shape; /* of the whole matrix, as stored */
	uint8_t *stored;    /* `rows` of them, piece after piece; room for `room` */
	uint32_t room, rows;
};

/* Has room for so many rows, or all of them. */
int role_rows_make(struct role_rows *u, const struct role_reader *r, struct tensor_id id,
		   struct err *e);
int role_rows_room(struct role_rows *u, size_t room, struct err *e);
void role_rows_free(struct role_rows *u);
/* Columns [*first, *first + n) alone, and what shares a group with them, where groups are coded one
 * by one; *first becomes their place among these. For rows that lie across, which are read from a
 * source: of the tensor's rows it then takes no more than these. */
void role_rows_narrow(struct role_rows *u, uint32_t *first, uint32_t n);
/* Rows [row, row + rows), no more than there is room for. */
int role_rows_read(struct role_rows *u, struct role_reader *r, uint32_t row, uint32_t rows,
		   struct err *e);
/* Numbers [first, first + cols) of the row-th of these, with others before and behind them in
 * out[], which has room for a whole row and TQ_GROUP more. Returns how many stand before. */
uint32_t role_rows_decode(const struct role_rows *u, uint32_t row, uint32_t first, uint32_t cols,
			  float *out);

#endif
