/* A model's copy on a GPU: dense weights, where experts lie, copies of contexts, and the launches
 * that the operations are made of. For the files of this room.
 *
 * One thread computes; all of its work goes through the card's stream, in order. The first error
 * stays in `failure`, and after it nothing is launched or copied any more (cuda_do).
 */
#ifndef MOEFS_ENGINE_CUDA_CUDA_MODEL_H
#define MOEFS_ENGINE_CUDA_CUDA_MODEL_H

#include "engine/cuda/cuda.h"
#include "engine/gpu/card.h"
#include "kernels/cuda/cuda_tables.h"

/* What the GPU computes of a layer (cuda_parts.c). The CPU computes the rest. */
typedef void cuda_part_fn(struct step *s, uint32_t layer);
enum { CUDA_REASON = 64 };
struct cuda_layer {
	cuda_part_fn *run[LAYER_PARTS]; /* NULL: the layer has no such part, or it is the CPU's */
	char lacks[LAYER_PARTS][CUDA_REASON]; /* why a part is the CPU's; else "" */
	uint32_t keyed; /* layers before this one whose keys and values the GPU computes */
};

/* What a pass leaves behind of a row (struct cuda_stream, `left`). */
struct cuda_left {
	uint32_t keyed, kv_width; /* layers whose keys and values the GPU computes; their width */
	uint32_t routed, top_k;
};

/* A tensor of the dense part. */
struct cuda_tensor {
	gpu_address data;
	gpu_address cell; /* on the GPU: a number, data */
};

/* Memory for many pieces of one size. Pieces that are given back are taken again, never freed before
 * the model is. */
struct cuda_pool {
	size_t bytes; /* of a piece */
	uint32_t share; /* a slab takes at most this part of the room that is left, or a piece */
	enum gpu_use use;
	struct cuda_slab {
		gpu_address at;
		size_t bytes;
	} *slab;	    /* [slabs] */
	gpu_address *piece; /* [free], with room for all pieces */
	uint32_t slabs, free, pieces;
};

/* Kinds of keys and values that the GPU may have: KV_WHOLE and KV_WINDOWED. */
enum { CUDA_KV_KINDS = KV_WINDOWED + 1 };

/* The copy of one kind of a context's keys and values: blocks like the context's own (kv_table.h). */
struct cuda_blocks {
	gpu_address *block; /* [count]; 0: it lies before the window */
	uint32_t count, room;
	gpu_address table; /* on the GPU: [table_room] addresses of blocks */
	uint32_t table_room, listed; /* the first blocks, which the table has */
};

/* The copy of a context: keys and values, and its recurrent state (recurrent.h). */
struct cuda_context {
	uint64_t number;  /* as in struct context_copy; 0: nobody's */
	uint64_t last;	  /* the step that used it last */
	uint64_t pass;	  /* the pass that uses it now; 0: none */
	struct cuda_blocks kv[CUDA_KV_KINDS];
	gpu_address state; /* 0: there is none */
	bool away;	   /* main memory had an older state when it was last used */
};

struct cuda_experts; /* cuda_experts.c */

struct cuda_model {
	struct card card;
	struct gpu_budget *budget;
	struct cuda_counters *counters;
	const struct config *config;
	const struct plan *plan;
	enum kv_type kv;
	struct err failure;

	struct cuda_layer *parts; /* [layers + 1], the last for the draft layer, and for `keyed` */
	uint32_t *keyed_layer;	  /* [left.keyed] */
	char head_lacks[CUDA_REASON];
	bool whole; /* the GPU computes all parts of all layers, and the output head */
	struct cuda_left left;

	gpu_address dense;
	size_t dense_bytes;
	struct cuda_tensor (*layer)[TENSOR_ROLES]; /* [layers + 1], the last for what occurs once */
	const struct weights *weights;		  /* in main memory: their shapes */
	gpu_address pairs;			  /* of TC3 (cuda_tables.h) */
	gpu_address table; /* the embedding [vocabulary][hidden]; 0: it is not on the GPU */
	size_t table_bytes;
	enum cuda_number table_type;
	struct cuda_table_groups table_groups;

	struct cuda_experts *experts;
	struct cuda_pool blocks[CUDA_KV_KINDS]; /* of contexts; bytes 0: no layer needs any */
	struct cuda_pool states; /* of contexts; bytes 0: the GPU computes no recurrent layer */
	struct cuda_context *context;
	uint32_t contexts;
	uint64_t steps, last_number;
	struct cuda_scratch *scratches; /* cuda_arrays.h */
};

/* ---- which parts (cuda_parts.c) ---- */

/* Fills in what the GPU computes. -ENOTSUP in words: nothing. */
int cuda_parts_find(struct cuda_model *m, const struct environment *env, struct err *e);
void cuda_parts_free(struct cuda_model *m);
/* Whether a tensor is needed on the GPU. */
bool cuda_parts_need(const struct cuda_model *m, uint32_t layer, enum tensor_role role);
/* Why the CPU computes the experts of a routed layer; "": it does not. */
static inline const char *cuda_lacks_experts(const struct cuda_model *m, uint32_t routed)
{
	return m->parts[m->plan->layer_of[routed]].lacks[PART_FEED_FORWARD];
}

/* ---- work (cuda_work.c) ---- */

/* Makes the GPU's context current for the calling thread. At the beginning of whatever may be called
 * by a thread for the first time. */
void cuda_enter(struct cuda_model *m);
/* Notes the first error. */
void cuda_fail(struct cuda_model *m, const struct err *why);
void cuda_do(struct cuda_model *m, enum cuda_kernel k, const struct cuda_grid *g,
	     const void *operands);
void cuda_copy_in(struct cuda_model *m, gpu_address to, const void *from, size_t bytes);
void cuda_copy_out(struct cuda_model *m, void *to, gpu_address from, size_t bytes);
void cuda_copy_within(struct cuda_model *m, gpu_address to, gpu_address from, size_t bytes);
/* False: something has failed. */
bool cuda_wait(struct cuda_model *m);
/* Marks the work that was started so far, and waits for it. */
void cuda_mark(struct cuda_model *m, gpu_event event);
bool cuda_wait_for(struct cuda_model *m, gpu_event event);
/* Waits until a kernel has written to main memory that it has told something (cuda_told). No call of the driver
 * comes in between: with a copy and an event, the host would go on some 10 µs later. */
bool cuda_wait_to_be_told(struct cuda_model *m, _Atomic uint32_t *flag);

/* GPU memory within the budget; 0 and an error: there is no room. */
gpu_address cuda_take(struct cuda_model *m, enum gpu_use use, size_t bytes, struct err *e);
void cuda_give(struct cuda_model *m, enum gpu_use use, gpu_address at, size_t bytes);
/* Main memory that the GPU reads and writes at the speed of the bus; it is not counted. NULL and an error:
 * the driver gives no more. */
void *cuda_take_main(struct cuda_model *m, size_t bytes, struct err *e);
void cuda_give_main(struct cuda_model *m, void *memory);

/* ---- pieces of one size (cuda_pool.c) ---- */

/* A piece of a pool; 0 and an error: the budget has no room for one beside `kept` bytes that stay free
 * for others. */
gpu_address cuda_pool_take(struct cuda_model *m, struct cuda_pool *p, uint64_t kept,
			   struct err *e);
/* Whether there is room for more pieces than are free. */
bool cuda_pool_grows(struct cuda_model *m, const struct cuda_pool *p, uint64_t kept);
void cuda_pool_give(struct cuda_pool *p, gpu_address piece);
/* Gives back the last slab, none of whose pieces is in use. */
void cuda_pool_give_slab(struct cuda_model *m, struct cuda_pool *p);
void cuda_pool_free(struct cuda_model *m, struct cuda_pool *p);

/* ---- parts of operations (cuda_products.c) ---- */

/* An input of products: rows of width k. */
struct cuda_input {
	uint32_t k;
	gpu_address f;		     /* [rows][k] floats */
	gpu_address q, scale, sum;   /* in 8 bits, of the form that was prepared last */
};
/* y[n][width] = rmsnorm(x[n][width]) */
void cuda_norm(struct cuda_model *m, gpu_address y, gpu_address x, gpu_address weight, uint32_t n,
	       uint32_t width);
/* The input's rows from `first` on, in 8 bits for matrices of this format. */
struct cuda_input cuda_input_from(const struct cuda_input *x, enum format format, uint32_t first);
void cuda_prepare_input(struct cuda_model *m, const struct cuda_input *x, uint32_t n,
			enum format format);
/* y[n][rows] = a matrix of the dense part by n rows of an input that is prepared for its format. */
void cuda_multiply(struct cuda_model *m, uint32_t layer, enum tensor_role role,
		   const struct cuda_input *x, uint32_t n, gpu_address y);
/* How many tokens of a matrix that has n are computed at once. */
uint32_t cuda_tokens_together(enum format format, uint32_t n);
struct cuda_projection {
	enum tensor_role role;
	gpu_address to;
};
/* Several products of one input, of whatever formats: those that follow each other in as few launches as there are kernels
 * for. The input is prepared for `now`; returns what it is prepared for then. */
enum format cuda_multiply_all(struct cuda_model *m, uint32_t layer,
			      const struct cuda_projection *products, uint32_t count,
			      const struct cuda_input *x, uint32_t n, enum format now);
/* The product of inputs from row `first` on. */
void cuda_multiply_from(struct cuda_model *m, uint32_t layer, enum tensor_role role,
			const struct cuda_input *x, uint32_t first, uint32_t n, gpu_address y);
/* The operands of cuda_multiply; and those of them that are the input. */
struct cuda_product cuda_product_of(const struct cuda_model *m, uint32_t layer, enum tensor_role role,
				    const struct cuda_input *x, uint32_t n, gpu_address y);
void cuda_product_takes(struct cuda_product *p, const struct cuda_input *x);
/* How many of the products, of an input of n rows, are the first launch of cuda_multiply_all: those from the first on whose
 * formats one kernel takes, and none of which is large enough to keep the whole GPU busy by itself; at least 1. */
uint32_t cuda_products_together(const struct cuda_model *m, uint32_t layer, const struct cuda_projection *products,
				uint32_t count, uint32_t n);
/* Several products of matrices of these formats in one launch; if one of them has items, it is the first, and
 * item_count is NULL. False: no kernel takes all of the formats. */
bool cuda_multiply_at_once(struct cuda_model *m, struct cuda_products *all, const enum format *formats);
/* y += factor · x */
void cuda_add_rows(struct cuda_model *m, gpu_address y, gpu_address x, size_t count, float factor);
/* Fills in what all products of a shape have. */
void cuda_describe(const struct cuda_model *m, struct cuda_product *p, const struct shape *s);

static inline const struct matrix *cuda_matrix(const struct cuda_model *m, uint32_t layer,
					enum tensor_role role)
{
	const struct weights *w = m->weights;
	return layer < m->config->layers ? &w->layer[layer].m[role] : &w->once.m[role];
}

static inline gpu_address cuda_weight(const struct cuda_model *m, uint32_t layer,
				      enum tensor_role role)
{
	return m->layer[layer][role].data;
}

/* Sizes of arrays begin at a multiple of a power of two. */
static inline size_t cuda_round_up(size_t bytes, size_t alignment)
{
	return (bytes + alignment - 1) / alignment * alignment;
}
enum { CUDA_ALIGNMENT = 256 }; /* of arrays on the GPU */

/* What launches of products are shaped by. */
static inline struct cuda_room cuda_room_of(const struct cuda_model *m)
{
	return (struct cuda_room){m->card.facts.processors, m->card.facts.shared};
}

/* Operands have pointers where the program has addresses. */
static inline void *cuda_at(gpu_address a)
{
	return (void *)(uintptr_t)a;
}

/* ---- the embedding (cuda_table.c) ---- */

void cuda_table_load(struct cuda_model *m, struct threads *threads);
void cuda_table_free(struct cuda_model *m);

/* ---- contexts (cuda_context.c) ---- */

/* Sizes of the blocks and states that the GPU's layers need. */
void cuda_contexts_begin(struct cuda_model *m);
/* Makes the copy of a context hold its state and its first `position` positions, with room for n more, for a
 * pass, which keeps it until it lets go. NULL: the model has failed. */
const struct cuda_context *cuda_context_ready(struct cuda_model *m, struct context *x,
					      uint32_t position, uint32_t n, uint64_t pass);
/* Keeps the copy of a context, if there is one, for a pass. */
void cuda_context_keep(struct cuda_model *m, const struct context *x, uint64_t pass);
/* The GPU has moved on the state of a context. */
void cuda_context_moved(struct cuda_model *m, struct context *x);
/* has_state and bring_state of backend.h. */
bool cuda_has_state(const struct environment *env, const struct context *x);
bool cuda_bring_state(const struct environment *env, struct context *x);
void cuda_contexts_let_go(struct cuda_model *m, uint64_t pass);
void cuda_contexts_free(struct cuda_model *m);

/* ---- experts (cuda_experts.c) ---- */

/* Between two steps: what was copied meanwhile is there from now on, what is given up is not. token: the
 * next step's clock (step.h). */
void cuda_experts_turn(struct cuda_model *m, uint64_t token);
/* A token of the step chose an expert. */
void cuda_experts_used(struct cuda_model *m, uint32_t routed, uint32_t expert);
/* On the GPU: [experts] addresses of a routed layer's experts, 0 where one is not held. */
gpu_address cuda_experts_slots(const struct cuda_model *m, uint32_t routed);
bool cuda_experts_all_held(const struct cuda_model *m, uint32_t routed);
void cuda_experts_end(struct cuda_model *m);

#endif
