/* The plan: every tensor of a model, and where each lies in its store.
 *
 * A plan follows from the config and the recipe alone, so that converting and mounting, which make
 * it separately, agree. Dense tensors lie one after the other in dense.safetensors, weights before
 * norms; the store's dense units are their row chunks. Every expert is one record; those of a layer
 * have the same layout, other layers' may have others, since each tensor has a format of its own.
 */
#ifndef MOEFS_ENGINE_FAMILY_PLAN_H
#define MOEFS_ENGINE_FAMILY_PLAN_H

#include "cache/store.h"
#include "engine/family/config.h"
#include "engine/family/recipe.h"

/* A tensor of the dense part. Unit first_unit + i holds the weights of row chunk i, unit first_unit
 * + chunks + i that chunk's norms where the format has any (TQ has), and after those come biases.
 */
struct plan_tensor {
	struct tensor_id id;
	struct shape shape;    /* rows = 1 for a vector */
	struct shape computed; /* the same in memory: as `part` and `computed` of a record */
	bool draft;	       /* only drafting needs it */
	uint64_t offset;       /* in the dense data, of the weights; norms follow */
	uint32_t chunk_rows, chunks, first_unit;
};

enum { EXPERT_PARTS = 3 }; /* gate, up, down: the order in a record and in a slot */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a summand */
#define EXPERT_ROLE(role, place, ...) +(PLACE_##place == PLACE_EXPERT)
_Static_assert(TENSOR_ROLE_LIST(EXPERT_ROLE) == EXPERT_PARTS &&
		       TENSOR_EXPERT_DOWN == TENSOR_EXPERT_GATE + EXPERT_PARTS - 1,
	       "the roles of an expert are its parts, in this order");
#undef EXPERT_ROLE

/* An expert of a routed layer. */
struct plan_record {
	struct shape part[EXPERT_PARTS];
	/* What it is computed with as: the same, or F32 where codes are computed with exactly. */
	struct shape computed[EXPERT_PARTS];
	uint64_t part_offset[EXPERT_PARTS]; /* in a record; norms follow the weights, then biases */
	uint64_t bytes;
	size_t slot_offset[EXPERT_PARTS]; /* in a slot, arranged */
	size_t slot_bytes;
};

struct plan {
	struct recipe recipe;
	uint32_t layers;	   /* a draft's among them */
	struct plan_tensor *dense; /* in the order of the file */
	uint32_t dense_count;
	uint64_t dense_bytes;
	struct store_range *units; /* dense units */
	uint32_t unit_count;

	/* Routed layers, a draft's last. */
	uint32_t routed_layers, experts;
	uint32_t layer_of[CONFIG_MAX_LAYERS + CONFIG_DRAFT_LAYERS];  /* of each routed layer */
	uint32_t routed_of[CONFIG_MAX_LAYERS + CONFIG_DRAFT_LAYERS]; /* UINT32_MAX: dense */
	struct plan_record *record;				     /* [routed_layers] */
	uint64_t record_bytes;					     /* of the largest */
	size_t slot_bytes;					     /* likewise */
	/* [routed_layers], the same of each; NULL where all layers are alike. */
	uint64_t *layer_record_bytes;
	size_t *layer_slot_bytes;

	uint64_t parameters, active_parameters; /* of the model; passed through by one token */

	/* Of every tensor's name (which says its role in the checkpoint), shape, format and place:
	 * what a byte of a store means. */
	struct store_digest digest;
};

/* What is stored of a matrix, one after the other: weights, scales, biases. A piece of 0 bytes
 * there is not, and no other after it. */
enum { PLAN_PIECES = 3 };
size_t plan_piece_bytes(const struct shape *s, uint32_t piece);

int plan_make(struct plan *p, const struct config *c, const struct recipe *r, struct err *e);
/* The same where tensors have formats that the recipe does not know, those of a file: given a
 * tensor's shape by the recipe, `of` may change its format, norms and group. It is asked for the
 * first expert of a layer, and the others have the same. EINVAL: a shape that there is not. */
struct plan_formats {
	void (*of)(void *ctx, struct tensor_id id, struct shape *s);
	void *ctx;
};
int plan_make_with(struct plan *p, const struct config *c, const struct recipe *r,
		   const struct plan_formats *formats, struct err *e);
void plan_free(struct plan *p);
/* What a store must be like to be read by this plan, which outlives it. */
struct store_layout plan_layout(const struct plan *p);

/* Rows of a tensor's chunk. */
static inline uint32_t plan_chunk_rows(const struct plan_tensor *t, uint32_t chunk)
{
	uint32_t row0 = chunk * t->chunk_rows;
	return t->shape.rows - row0 < t->chunk_rows ? t->shape.rows - row0 : t->chunk_rows;
}
/* The role of a part of an expert's record. */
static inline enum tensor_role plan_part_role(uint32_t part)
{
	return (enum tensor_role)(TENSOR_EXPERT_GATE + part);
}
/* Of all experts together, as records; and of those in the first `layers` layers, given what a slot
 * takes of the budget, in memory. */
uint64_t plan_records_bytes(const struct plan *p);
uint64_t plan_slots_bytes(const struct plan *p, uint32_t layers,
			  size_t (*taken)(size_t slot_bytes));
/* Arranges rows [row0, row0 + rows) of a matrix, of which `from` are the bytes as stored, as it is
 * computed with; `to` is the whole of it. row0 and rows as format_arrange wants them. */
void plan_arrange_rows(void *to, const struct shape *computed, const struct shape *stored,
		       uint32_t row0, uint32_t rows, const struct pieces *from);
/* Where the parts of a routed layer's record are, which lies in runs of whole pieces. */
void plan_part_pieces(const struct plan_record *r, const struct store_pieces *record,
		      struct pieces part[EXPERT_PARTS]);
/* Rearranges a routed layer's record, which lies in runs of whole pieces, into a slot. */
void plan_arrange_pieces(const struct plan *p, uint32_t layer, void *slot,
			 const struct store_pieces *record);
/* The same of one in a single run; ctx is the plan. A pager_arrange_fn. */
void plan_arrange_record(void *ctx, uint32_t layer, void *slot, const void *record);

#endif
