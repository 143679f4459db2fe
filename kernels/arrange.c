/* A matrix of any format on its way into memory, and what it takes there. */
#include "kernels/block.h"
#include "kernels/tq.h"

#include <string.h>

size_t format_arranged_bytes(const struct shape *s)
{
	const size_t tiles_down = ((size_t)s->rows + TILE_ROWS - 1) / TILE_ROWS;
	size_t bytes = format_packed_bytes(s);

	if (format_is_tq(s->format))
		bytes = tiles_down * tq_groups(s->cols) *
			tq_tile_bytes(format_tq_bits(s->format), s->norms);
	else if (format_is_block(s->format))
		bytes = tiles_down * block_rows_bytes(s);
	return (bytes + 63) / 64 * 64;
}

void format_arrange(void *dst, const struct shape *s, uint32_t row0, uint32_t rows,
		    const struct pieces *from)
{
	struct shape before = *s;
	uint8_t *to = dst;

	before.rows = row0;
	if (format_is_tq(s->format)) {
		tq_arrange(to + format_packed_bytes(&before) + format_norm_bytes(&before), s, rows,
			   from);
	} else if (format_is_block(s->format)) {
		block_arrange(to + row0 / TILE_ROWS * block_rows_bytes(s), s, rows, from);
	} else {
		struct shape these = *s;
		these.rows = rows;
		memcpy(to + format_packed_bytes(&before), from->weights,
		       format_packed_bytes(&these));
	}
}
