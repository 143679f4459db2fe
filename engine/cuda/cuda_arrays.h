/* The arrays of the backend for GPUs: what stands behind struct residual_stream and struct scratch
 * (backend.h). For the files of this room. */
#ifndef MOEFS_ENGINE_CUDA_CUDA_ARRAYS_H
#define MOEFS_ENGINE_CUDA_CUDA_ARRAYS_H

#include "engine/cuda/cuda_model.h"

/* Where a row of the stream belongs, while its layers are computed. */
struct cuda_place {
	struct context *context; /* only compared if the row is dead: it may be gone */
	uint32_t position;
	bool dead;
};

/* Keys and values that were sent to main memory while later layers are computed: to layer `end`, where the last
 * portion ends, of those that have some. */
enum { CUDA_PORTIONS = 8 };
struct cuda_portion {
	gpu_event arrival;
	uint32_t end;
};

/* A pass's rows. What has to wait for the end of the pass lies here: other passes use the scratch in
 * between. */
struct cuda_stream {
	struct cuda_model *model;
	uint64_t number; /* no other stream of the model ever has it; also that of its pass */
	uint32_t rows;	 /* most */
	size_t bytes;  /* on the GPU */
	gpu_address memory;
	gpu_address x;		/* [rows][hidden] as they are now, in `rows_at`, or of few rows in few_at */
	gpu_address rows_at, few_at; /* [rows][hidden], [CUDA_NORM_FEW][hidden] */
	/* What the step's n rows are, as cuda_place_rows lays it out: struct cuda_row[CUDA_KV_KINDS][n],
	 * tokens[n], struct cuda_states[n], then cos, sin[n][half] of each rotation. */
	gpu_address in;
	/* What the pass leaves behind, of its n rows, as struct cuda_left counts it: keys,
	 * values[keyed][n][kv_width], then the choices of feed_held: chosen, weight,
	 * rank[routed][n][top_k]. */
	gpu_address left;

	/* In main memory: */
	struct residual_stream *cpus; /* the CPU's, with the rows [rows][hidden] */
	uint8_t *in_main;	  /* `in`, as the GPU reads it */
	float *left_out;	  /* a copy of `left` */
	struct cuda_place *place; /* [rows] */
	bool on_gpu, in_cpus;	  /* where the rows are as they are now: in x, in `cpus`, or in both */
	bool placed;		  /* `in` and `place` describe the step's rows */
	uint32_t n;		  /* rows when they were placed */
	/* Of the layers whose keys and values the GPU computes: how many are computed; of how many these are on
	 * their way to left_out, or there; and how many have them in the contexts. */
	uint32_t mixed, sent, settled;
	struct cuda_portion portion[CUDA_PORTIONS];
	uint32_t portions;
	bool unsent;	   /* something of `left` is not on its way to left_out */
	bool arrived;	   /* nothing is on its way */
	gpu_event arrival; /* of what was sent last */
	/* All layers were started together, by a sequence (cuda_sequence.c): their operations have
	 * nothing left to do. */
	bool ahead;
	uint32_t spans; /* most spans that a row sees */
	uint32_t contexts; /* most of the rows' contexts: of struct cuda_states */
};

/* What is computed but not yet added to the stream: the next kernel that reads it adds it first. */
enum cuda_pending_kind { PENDING_NONE, PENDING_ROWS, PENDING_EXPERTS };
struct cuda_pending {
	enum cuda_pending_kind kind;
	struct cuda_stream *of;
	uint32_t n, routed;
	gpu_address chosen, weight; /* of experts */
	bool apart; /* not all of them are on the GPU, or they are in no order */
	bool shared; /* the layer has a shared expert */
};

/* A recorded sequence of launches that computes all layers of a step with n rows. */
struct cuda_sequence {
	gpu_sequence launches;
	uint64_t stream; /* its number */
	uint32_t n, spans;
	struct cuda_pending pending; /* what it leaves */
	gpu_address x;		     /* where it leaves the stream, which begins in rows_at */
	uint64_t used; /* the step that used it last */
};
enum { CUDA_SEQUENCES = 32, CUDA_SEQUENCE_ROWS = 32 };

/* Of delta nets, in a model that has some. */
struct cuda_delta_arrays {
	gpu_address in, mixed;	       /* [rows][channels] */
	gpu_address gate, out;	       /* [rows][value heads · value dim] */
	gpu_address a, b, decay, beta; /* [rows][value heads] */
	gpu_address counts;	       /* [rows][value heads] */
	struct cuda_input gated;       /* as out */
};

/* Who has chosen a layer's experts; and whether the GPU computes those that it holds. */
enum cuda_progress { CHOSEN_BY_CPU, CHOSEN_BY_GPU, EXPERTS_BEGUN };

/* A choice has three arrays: experts, weights, and each expert's place in the order of the choice. */
enum { CHOICE_ARRAYS = 3 };

/* Arrays within one operation or one layer. */
struct cuda_scratch {
	struct cuda_model *model;
	struct cuda_scratch *next; /* of the model */
	uint32_t rows, top_k; /* most */
	size_t bytes;
	gpu_address memory;
	struct cuda_input normed;   /* [rows][hidden] */
	uint32_t normed_rows;	    /* of the last `end` */
	uint32_t head_rows;	    /* whose logits the last `end` has begun to compute; 0: none */
	bool ended_by_cpu;	    /* the last `end`: normed is in the CPU's scratch */
	struct cuda_input guess;    /* [PREDICT_MOST][hidden]: of a later layer's router */
	gpu_address q;		    /* [rows][heads · head dim] */
	gpu_address projected;	    /* where queries have gates: [rows][heads][2][head dim]; else q */
	gpu_address keys;	    /* [rows][kv_width]: before norms and positions */
	struct cuda_input attended; /* [rows][heads · head dim] */
	gpu_address parts;	    /* of cuda_attend_spans: CUDA_PARTS_BYTES */
	gpu_address out;	    /* [rows][hidden] */
	struct cuda_delta_arrays delta;
	gpu_address logits;	    /* [HEAD_ROWS][vocabulary], or [rows][experts] */
	gpu_address wanted;	    /* [rows] */
	gpu_address largest;	    /* [HEAD_ROWS][CUDA_LARGEST_PARTS]: of logits */
	/* Experts: */
	gpu_address chosen; /* of a step of n rows: experts[n][top_k], their weights, their ranks */
	gpu_address order, items, item_count;
	gpu_address found;	    /* [rows · top_k][hidden]: outputs */
	gpu_address shared;	    /* [rows][hidden]: outputs of the shared expert */
	gpu_address shared_gate;    /* [rows]: of its sigmoid */
	/* Any feed-forward: gate and up, [2][inputs of down][width]; and the input of down, whose floats
	 * are gate (cuda_hidden_of). */
	struct cuda_input hidden;

	/* In main memory, which the GPU reads and writes: */
	float *normed_out; /* [rows][hidden] */
	float *logits_out; /* [HEAD_ROWS][vocabulary] */
	struct cuda_peak *largest_out; /* as largest */
	float *found_here; /* [rows · top_k][hidden]: outputs of experts that the CPU computes */
	uint32_t *chosen_here; /* as chosen; an expert that a row does not pass through has no number */
	uint32_t *wanted_in; /* [rows] */
	_Atomic uint32_t *told; /* 1: chosen_here and normed_out have what a kernel told of one row */

	struct cuda_pending pending;
	struct cuda_sequence sequence[CUDA_SEQUENCES];

	struct scratch *cpu; /* for what the CPU computes */
	enum cuda_progress progress; /* of a layer some of whose experts may be elsewhere */
	bool some_elsewhere; /* of the experts that the layer's rows chose */
};

/* What spans of attention leave, of as many rows as find room: 512 rows of 32 heads find it up to 2,048 positions, one
 * row up to some 1,000,000; a longer text is computed by the CPU. */
enum { CUDA_PARTS_BYTES = 72 << 20 };

/* Most items of a layer's experts (cuda_group). */
uint32_t cuda_most_items(uint32_t experts, uint32_t assignments, uint32_t most);

static inline struct cuda_stream *cuda_stream_of(const struct step *s)
{
	return (struct cuda_stream *)s->stream;
}
static inline struct cuda_scratch *cuda_scratch_of(const struct step *s)
{
	return (struct cuda_scratch *)s->scratch;
}

int cuda_stream_make(struct residual_stream **out, const struct environment *env, uint32_t rows,
		     struct err *e);
void cuda_stream_free(struct residual_stream *x);
uint64_t cuda_stream_bytes(const struct config *c, uint32_t rows);
int cuda_scratch_make(struct scratch **out, const struct environment *env, uint32_t rows,
		      struct err *e);
void cuda_scratch_free(struct scratch *x);
void cuda_free_sequence(struct cuda_scratch *k, struct cuda_sequence *q);
uint64_t cuda_scratch_bytes(const struct config *c, uint32_t rows);

/* Whether the GPU computes a part of the step. What an observer sees, the CPU computes. */
static inline bool cuda_runs(const struct step *s, uint32_t layer, enum layer_part part)
{
	return cuda_stream_of(s)->model->parts[layer].run[part] && !s->env->observer;
}

static inline enum format cuda_format_of(const struct step *s, uint32_t layer, enum tensor_role role)
{
	return s->env->weights->layer[layer].m[role].shape.format;
}

/* ---- operations (backend.h), by file ---- */

/* cuda_entry.c: the stream gets what is pending, and `to` and its codes for `format` are its norm, of
 * n rows. */
void cuda_enter_part(struct step *s, uint32_t layer, enum tensor_role norm,
		     const struct cuda_input *to, enum format format);
/* The stream of the scratch's pending sums gets them, whichever it is. */
void cuda_flush(struct cuda_scratch *k);
/* The rows are on the GPU from now on, wherever they were. */
void cuda_rows_to_gpu(struct step *s);
/* The rows are in the CPU's stream, too. False: something has failed. */
bool cuda_rows_to_cpu(struct step *s);
/* `out` is what a part adds to the stream, after a norm where the family has one. */
void cuda_leave_rows(struct step *s, uint32_t layer, enum layer_part part);
void cuda_leave_experts(struct step *s, uint32_t layer, gpu_address chosen, gpu_address weight,
			bool apart);

/* cuda_cpu.c: the step with the CPU's arrays in place of the GPU's. */
struct step cuda_as_cpus(const struct step *s);
/* Has the CPU do an operation that changes the stream. */
void cuda_run_on_cpu(struct step *s, uint32_t layer, void (*operation)(struct step *, uint32_t));

/* cuda_sequence.c: starts all layers of the step, if they can be. */
void cuda_run_ahead(struct step *s);

/* cuda_attention.c: tells the GPU which rows the step has, if that has changed. */
void cuda_place_rows(struct step *s);
/* Where the parts of `in` begin, in bytes, of n rows. */
size_t cuda_tokens_at(uint32_t n);
size_t cuda_states_at(uint32_t n);
size_t cuda_angles_at(const struct step *s, uint32_t rope);
/* The mixer of a layer whose rows are placed. */
void cuda_run_attention(struct step *s, uint32_t layer);

/* cuda_left.c: where keys and values of a layer begin in `left`, in elements, by its number among those whose keys and
 * values the GPU computes. */
size_t cuda_keys_at(const struct cuda_stream *x, uint32_t keyed);
size_t cuda_values_at(const struct cuda_stream *x, uint32_t keyed);
/* Where the choices of a routed layer begin in `left`, in elements: the experts, their weights, and their ranks
 * in the choice. */
size_t cuda_chosen_at(const struct cuda_stream *x, uint32_t routed);
size_t cuda_weight_at(const struct cuda_stream *x, uint32_t routed);
size_t cuda_rank_at(const struct cuda_stream *x, uint32_t routed);
/* After a layer's keys and values: of many rows, starts to copy those of some layers to main memory, so that
 * threads can put them into the contexts while the GPU computes the layers that follow. */
void cuda_send_portion(struct step *s);
/* Starts to copy to main memory what the layers so far leave. */
void cuda_send_left(struct step *s);
/* Has it arrive. False: something has failed. */
bool cuda_receive_left(struct step *s);
/* Puts keys and values into their contexts; waits. */
void cuda_settle_layers(struct step *s);
/* The same where rows died: others will be placed. The GPU has read how they were, too. */
void cuda_settle_placed(struct step *s);

/* cuda_delta.c */
void cuda_run_delta(struct step *s, uint32_t layer);

/* cuda_choice.c: where a choice lies on the GPU, [n][top_k] each: of a layer whose experts are all there, until
 * the step ends; or in the scratch, between the GPU and main memory. */
struct cuda_choice_at {
	gpu_address chosen, weight, rank;
};
struct cuda_choice_at cuda_choice_left_at(const struct step *s, uint32_t layer);
struct cuda_choice_at cuda_choice_sent(const struct cuda_scratch *k, uint32_t n);
/* For which format a layer's norm also makes codes: the router's, or, where that multiplies floats, the
 * experts'. */
enum format cuda_router_codes(const struct step *s, uint32_t layer);
/* Nobody sees or changes the choice before the experts are computed, and a kernel makes it: not of experts
 * that a table lists, nor of more than a warp weighs. */
bool cuda_choice_is_free(const struct step *s, uint32_t layer);
/* Whether a session loses experts on purpose, depending on where they are. */
bool cuda_loses_some(const struct step *s);
/* By the GPU: runs the router, chooses, and groups the rows by expert, at most `most` for an item. tells: main
 * memory gets the choice, which is that in the scratch, and the experts' input. */
void cuda_choose_rows(struct step *s, uint32_t layer, const struct cuda_choice_at *to, uint32_t most,
		      bool tells);
/* Has what was told arrive, and fills the step's routing. False: something has failed. */
bool cuda_receive_choice(struct step *s, uint32_t layer);
/* By the CPU, from the router's logits, which it waits for. False: something has failed. */
bool cuda_choose_by_cpu(struct step *s, uint32_t layer);
/* Gives the choice of the step's routing to the GPU, and groups the rows. */
void cuda_upload_choice(struct step *s, uint32_t layer, uint32_t most);
void cuda_tell_choice(struct step *s, uint32_t layer);
void cuda_reweigh(struct step *s, uint32_t layer, size_t row);
void cuda_guess(struct step *s, uint32_t later);

/* cuda_feed.c: feed-forwards with experts. Whether feed_held can compute the layer. */
bool cuda_can_feed(const struct step *s, uint32_t layer);
/* A feed-forward with experts that are all on the GPU. */
void cuda_run_routed(struct step *s, uint32_t layer);
void cuda_route(struct step *s, uint32_t layer);
void cuda_begin_experts(struct step *s, uint32_t layer);
void cuda_wave(struct step *s, uint32_t layer, const struct pager_ready *ready, uint32_t count);
void cuda_end_experts(struct step *s, uint32_t layer);
bool cuda_feed_held(struct step *s, uint32_t layer);

/* cuda_expert_products.c: products of a layer's experts. most: tokens of an expert at once; all_here: the GPU has chosen
 * among all experts, and holds them all. Gate and up go to `hidden`, down to `found`, and that of a shared expert
 * beside them to `shared`. */
void cuda_run_gate_up(const struct step *s, uint32_t layer, uint32_t most, bool all_here, const struct cuda_input *x);
void cuda_run_down(const struct step *s, uint32_t layer, uint32_t most, bool all_here);

/* cuda_shared.c: whether the rows of `hidden` that are the shared expert's follow the routed experts', so that one launch
 * computes the activations of all; and how many rows down has as its input, of the routed experts and of a shared one
 * beside them. */
bool cuda_shared_is_beside(const struct step *s, uint32_t layer);
uint32_t cuda_inputs_of_down(const struct step *s, uint32_t layer);
/* The shared expert's rows of `hidden`. */
struct cuda_input cuda_shared_input(const struct step *s, uint32_t layer);
/* logits = the router's, of `normed`, which is prepared for `now`. Where one launch computes it, also gate, up and
 * scale of the shared expert, or the scale. */
void cuda_run_router_products(const struct step *s, uint32_t layer, enum format now);
/* Those of gate, up and scale that the router's launch has not computed, of rows `normed`, prepared for `now`; returns
 * what they are prepared for then. */
enum format cuda_begin_shared(const struct step *s, uint32_t layer, enum format now);
/* shared = down of the activation, which is computed first if it is not beside the others; and its norm, where
 * feed-forwards are apart. */
void cuda_end_shared(const struct step *s, uint32_t layer);

/* cuda_dense.c: feed-forwards that every row passes. What all have in common: the input of down, of n
 * rows of some width, in 8 bits = the family's function of gate and up, which lie one after the other. */
struct cuda_input cuda_hidden_of(const struct cuda_scratch *k, uint32_t width);
gpu_address cuda_up_of(const struct cuda_input *hidden, size_t n);
void cuda_gate(const struct cuda_scratch *k, const struct cuda_input *hidden, uint32_t n,
	       enum format format);
/* Gate and up, for n rows; without a gate up alone, in its place. Returns how many products. */
uint32_t cuda_gate_and_up(const struct config *c, enum tensor_role gate, enum tensor_role up,
			  const struct cuda_input *hidden, uint32_t n, struct cuda_projection *to);
void cuda_run_dense(struct step *s, uint32_t layer);
void cuda_feed(struct step *s, uint32_t layer);

/* cuda_outputs.c */
void cuda_end(struct step *s, enum tensor_role norm, const uint32_t *rows, uint32_t n);
void cuda_head(struct step *s, uint32_t n, float *logits);
bool cuda_largest_logits(struct step *s, uint32_t n, struct candidate *out);
float *cuda_logits(struct scratch *scratch);
float *cuda_normed(struct scratch *scratch);

#endif
