/* The plan: every tensor of a model, and its place in the model's store.
 *
 * A plan follows from the config and the recipe alone, so converting and mounting get the same
 * plan. Dense tensors are contiguous in dense.safetensors, in the order in which a forward pass
 * uses them; the store's dense units are their row chunks. Every expert is one record: gate, up and
 * down. All records of a layer have the same layout. Layers may differ, since each tensor has its
 * own format.
 */
#ifndef MOEFS_ENGINE_FAMILY_PLAN_H
#define MOEFS_ENGINE_FAMILY_PLAN_H

#include "cache/store.h"
#include "engine/family/config.h"
#include "engine/family/recipe.h"

/* A matrix is stored as contiguous pieces: weights, scales, biases. For formats without scales or
 * biases these pieces have 0 bytes. */
enum { PLAN_PIECES = 3 };
size_t plan_piece_bytes(const struct shape *s, uint32_t piece);
size_t plan_stored_bytes(const struct shape *s); /* of all pieces */

/* A tensor of the dense part. Unit first_unit + i has the weights of row chunk i. Then come, if the
 * format has them, the units of the scales (from first_unit + chunks) and of the biases. */
struct plan_tensor {
	struct tensor_id id;
	struct shape shape;    /* rows = 1 for a vector */
	struct shape computed; /* in memory: see plan_record */
	bool draft;	       /* only the draft layer uses it */
	uint64_t offset;       /* of the first piece, in the dense data */
	uint32_t chunk_rows, chunks, first_unit;
};

/* Gate, up, down: the order in a record and in a slot. Without a gate (GLU_NONE) the first part is
 * up, so loops begin with plan.first_part. */
enum { EXPERT_PARTS = 3 };
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a summand */
#define EXPERT_ROLE(role, place, ...) +(PLACE_##place == PLACE_EXPERT)
_Static_assert(TENSOR_ROLE_LIST(EXPERT_ROLE) == EXPERT_PARTS &&
		       TENSOR_EXPERT_DOWN == TENSOR_EXPERT_GATE + EXPERT_PARTS - 1,
	       "the roles of an expert are its parts, in this order");
#undef EXPERT_ROLE

/* An expert of a routed layer. */
struct plan_record {
	struct shape part[EXPERT_PARTS];
	/* In memory: as `part`, or F32 if weights are decoded for exact computing. */
	struct shape computed[EXPERT_PARTS];
	uint64_t part_offset[EXPERT_PARTS]; /* of the first piece, in a record */
	uint64_t bytes;
	size_t slot_offset[EXPERT_PARTS]; /* in a slot, in the kernels' arrangement */
	size_t slot_bytes;
};

struct plan {
	struct recipe recipe;
	uint32_t layers;	   /* including the draft layer */
	struct plan_tensor *dense; /* in the order of the file */
	uint32_t dense_count;
	uint64_t dense_bytes;
	struct store_range *units; /* dense units */
	uint32_t unit_count;

	/* Routed layers; the draft layer's is the last. */
	uint32_t routed_layers, experts;
	uint32_t first_part; /* of experts; 1: no gate */
	/* model layer of each routed layer */
	uint32_t layer_of[CONFIG_MAX_LAYERS + CONFIG_DRAFT_LAYERS];
	uint32_t routed_of[CONFIG_MAX_LAYERS + CONFIG_DRAFT_LAYERS]; /* routed layer of each model
									layer; UINT32_MAX: dense */
	struct plan_record *record;				     /* [routed_layers] */
	uint64_t record_bytes;					     /* of the largest */
	size_t slot_bytes;					     /* likewise */
	/* [routed_layers] the same per layer; NULL: equal in all layers. */
	uint64_t *layer_record_bytes;
	size_t *layer_slot_bytes;

	uint64_t parameters, active_parameters; /* of the model; used for one token */

	/* Digest of every tensor's name (the checkpoint's name of its role), shape, format and
	 * place: it determines the meaning of every byte of the store. */
	struct store_digest digest;
};

/* Plans a model's store. EINVAL: a tensor's shape is not possible in its format. The recipe's
 * published formats are not needed afterwards. */
int plan_make(struct plan *p, const struct config *c, const struct recipe *r, struct err *e);
/* The same, but `of` may change the format, norms and group that the recipe gives each tensor. For
 * experts, `of` is called for the first of each layer; the others get the same. NULL: no changes.
 */
struct plan_formats {
	void (*of)(void *ctx, struct tensor_id id, struct shape *s);
	void *ctx;
};
int plan_make_with(struct plan *p, const struct config *c, const struct recipe *r,
		   const struct plan_formats *formats, struct err *e);
void plan_free(struct plan *p);
/* The layout that a store of this plan must have. The plan must outlive the layout. */
struct store_layout plan_layout(const struct plan *p);

static inline uint32_t plan_chunk_rows(const struct plan_tensor *t, uint32_t chunk)
{
	uint32_t row0 = chunk * t->chunk_rows;
	return t->shape.rows - row0 < t->chunk_rows ? t->shape.rows - row0 : t->chunk_rows;
}

/* The layer of a tensor; tensors that occur once count as p->layers. */
static inline uint32_t plan_layer_of(const struct plan *p, struct tensor_id id)
{
	const enum tensor_place place = tensor_roles[id.role].place;
	return place == PLACE_LAYER || place == PLACE_EXPERT ? id.layer : p->layers;
}

static inline struct shape plan_chunk_shape(const struct plan_tensor *t, uint32_t chunk)
{
	struct shape s = t->shape;
	s.rows = plan_chunk_rows(t, chunk);
	return s;
}

static inline enum tensor_role plan_part_role(uint32_t part)
{
	return (enum tensor_role)(TENSOR_EXPERT_GATE + part);
}

/* Records are numbered routed layer · experts + expert. */
static inline uint32_t plan_records(const struct plan *p)
{
	return p->routed_layers * p->experts;
}

static inline struct tensor_id plan_part_id(const struct plan *p, uint32_t record, uint32_t part)
{
	return (struct tensor_id){plan_part_role(part), p->layer_of[record / p->experts],
				  record % p->experts};
}

static inline const struct shape *plan_part_shape(const struct plan *p, uint32_t record,
						  uint32_t part)
{
	return &p->record[record / p->experts].part[part];
}

/* Bytes of all records together. */
uint64_t plan_records_bytes(const struct plan *p);
/* Bytes of memory for the experts of the first `layers` layers; taken() returns the memory that a
 * slot takes. */
uint64_t plan_slots_bytes(const struct plan *p, uint32_t layers,
			  size_t (*taken)(size_t slot_bytes));

/* ---- from disk to memory ---- */

/* Converts rows [row0, row0 + rows) of a matrix from the stored bytes to the kernels' arrangement,
 * and writes them to their place in `to`, the whole matrix in memory. row0 and rows as in
 * format_arrange. */
void plan_arrange_rows(void *to, const struct shape *computed, const struct shape *stored,
		       uint32_t row0, uint32_t rows, const struct pieces *from);
/* Finds the parts of a record. The record may be in several runs of whole pieces. */
void plan_part_pieces(const struct plan_record *r, const struct store_pieces *record,
		      struct pieces part[EXPERT_PARTS]);
/* Arranges a record of a routed layer in a slot. The record may be in several runs of whole pieces.
 */
void plan_arrange_pieces(const struct plan *p, uint32_t layer, void *slot,
			 const struct store_pieces *record);
/* The same for a record in one run; ctx is the plan. A pager_arrange_fn. */
void plan_arrange_record(void *ctx, uint32_t layer, void *slot, const void *record);

#endif
