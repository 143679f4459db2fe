/* From weights as they lie on disk to memory as the kernels want it. */
#include "engine/family/plan.h"

/* F32 is arranged as it is stored: rows one after the other. */
static void dequantise_rows(float *to, const struct shape *stored, uint32_t rows,
			    const struct pieces *from)
{
	struct shape one = *stored;
	one.rows = 1;
	const uint8_t *piece[PLAN_PIECES] = {from->weights, from->scales, from->biases};
	for (uint32_t r = 0; r < rows; r++) {
		format_dequantise_row(to + (size_t)r * stored->cols, stored,
				      &(struct pieces){piece[0], piece[1], piece[2]});
		for (uint32_t i = 0; i < PLAN_PIECES; i++)
			piece[i] += plan_piece_bytes(&one, i);
	}
}

void plan_arrange_rows(void *to, const struct shape *computed, const struct shape *stored,
		       uint32_t row0, uint32_t rows, const struct pieces *from)
{
	if (computed->format == stored->format)
		format_arrange(to, stored, row0, rows, from);
	else
		dequantise_rows((float *)to + (size_t)row0 * stored->cols, stored, rows, from);
}

/* Where one is in a record that lies in several runs of bytes. A run ends where a piece does. */
struct cursor {
	const struct store_pieces *record;
	uint32_t run;
	size_t at;
};

static const void *next_piece(struct cursor *c, size_t bytes)
{
	if (bytes && c->at == c->record->piece[c->run].bytes) {
		c->run++;
		c->at = 0;
	}
	const uint8_t *data = c->record->piece[c->run].data;
	c->at += bytes;
	return data + c->at - bytes;
}

void plan_part_pieces(const struct plan_record *r, const struct store_pieces *record,
		      struct pieces part[EXPERT_PARTS])
{
	struct cursor c = {record, 0, 0};
	for (uint32_t i = 0; i < EXPERT_PARTS; i++) {
		const void *piece[PLAN_PIECES];
		for (uint32_t k = 0; k < PLAN_PIECES; k++)
			piece[k] = next_piece(&c, plan_piece_bytes(&r->part[i], k));
		part[i] = (struct pieces){piece[0], piece[1], piece[2]};
	}
}

void plan_arrange_pieces(const struct plan *p, uint32_t layer, void *slot,
			 const struct store_pieces *record)
{
	const struct plan_record *r = &p->record[layer];
	struct pieces part[EXPERT_PARTS];
	plan_part_pieces(r, record, part);
	for (uint32_t i = 0; i < EXPERT_PARTS; i++)
		plan_arrange_rows((uint8_t *)slot + r->slot_offset[i], &r->computed[i], &r->part[i],
				  0, r->part[i].rows, &part[i]);
}

void plan_arrange_record(void *ctx, uint32_t layer, void *slot, const void *record)
{
	const struct plan *p = ctx;
	const struct store_pieces whole = {1, {{record, p->record[layer].bytes}}};
	plan_arrange_pieces(p, layer, slot, &whole);
}
