/* The parts of a layer: mixers (attention, latent attention, recurrent ones) and feed-forwards
 * (dense, routed experts with a shared one).
 *
 * Each part has scratch: X_take takes its arrays from an arena for `rows` rows. X_run computes the
 * part for a step: it reads the scratch's `normed` and leaves in `out` what residual_add adds to
 * the residual stream. A part knows the step, not the other parts and not forward.h; only moe.c uses
 * what dense.c has for shared experts, and attention.c and latent.c what look_back.c has.
 *
 * The papers and what is computed are at the head of each part's file.
 */
#ifndef MOEFS_ENGINE_CPU_LAYERS_H
#define MOEFS_ENGINE_CPU_LAYERS_H

#include "engine/cpu/product.h"

/* ---- residual.c: what a layer's parts read, and how they add ---- */

/* Of models with several streams; else nothing is taken. */
struct residual_scratch {
	struct activation flat; /* [rows][streams][hidden]: normalised */
	struct activation low;	/* [rows][low] */
	float *gates;		/* [rows][streams][hidden] */
	float *factors;		/* [rows][config_stream_mix]: until the part's output is added */
	float *guesses;		/* the same of residual_guess */
};

void residual_take(struct residual_scratch *r, struct arena *arena, const struct config *c,
		   size_t rows);
/* A row of the stream, whose first part holds the embedding, becomes that of all streams. */
void residual_copy(const struct config *c, float *x);
/* normed = what a part of a layer reads. */
void residual_read(struct step *s, uint32_t layer, enum layer_part part);
/* Adds `out` to the stream, after a norm where the family has one. */
void residual_add(struct step *s, uint32_t layer, enum layer_part part);
/* to = what a later layer's feed-forward would read of the stream as it is now; at most PREDICT_MOST
 * rows. */
void residual_guess(const struct step *s, uint32_t layer, struct activation *to);
/* normed[n] = what the head reads of rows[n] of the stream; NULL: of the first n rows. */
void residual_end(struct step *s, const uint32_t *rows, uint32_t n);

/* ---- ngram_layer.c: what n-grams add to the stream before a layer's parts ---- */

enum { NGRAM_TILE = 256 }; /* channels of the convolution that are computed at once */

struct ngram_scratch { /* empty in a model without */
	struct activation rows; /* [rows][dim]: of the table */
	uint64_t *index;	/* [rows][rows of a token] */
	float *keys, *added;	/* [rows][streams][hidden] */
	float *values;		/* [rows][hidden] */
	struct err *errors;	/* [rows] */
	uint32_t *waited;	/* [rows]: how many rows of the table were not in memory */
};

void ngram_take(struct ngram_scratch *s, struct arena *arena, const struct config *c, size_t rows);
/* Asks for all rows of the tables that a step will need; returns at once. */
void ngram_ahead(const struct step *s);
/* Adds to the stream. Rows whose reads fail die and are taken out of it; maybe none is left. */
void ngram_run(struct step *s, uint32_t layer);

/* ---- look_back.c: rows that look back at keys and values ---- */

/* Up to 16 rows of one span that look back together. */
struct look_run {
	uint32_t first, n;
};

struct look_scratch {
	struct look_run *runs; /* [rows] */
	/* Where threads share spans, [runs][groups of heads]: shares of a wave that are left. */
	_Atomic uint32_t *left;
	/* What attention's spans of 256 positions give, where threads share them (kernels.h). */
	float *parts;
	size_t room; /* floats */
};

/* value_dim: of the widest head. */
void look_back_take(struct look_scratch *s, struct arena *arena, const struct config *c,
		    size_t rows, uint32_t value_dim);

/* What the rows of a step look at in a layer. */
struct look {
	const struct step *step;
	const struct layer *layer;
	const float *q;	   /* [rows][heads][head_dim] */
	float *out;	   /* [rows][heads][head_dim, or latent_dim] */
	const float *gate; /* as out: multiplied by its sigmoid; NULL where there is none */
	uint32_t head_dim, latent_dim; /* of struct attention */
	/* Heads that are computed together. Of attention: all that share one key-value head, so
	 * group g looks at that of number g. Latent heads all look at the same latents. */
	uint32_t group;
	const float *sinks; /* [heads], or NULL */
};

/* out = attention of q, by all threads. */
void look_back_run(struct look_scratch *s, const struct look *look);

/* ---- where attention looks that chooses: chooser_best.c, pools.c, chooser.c, look_chosen.c ---- */

/* chosen[most at most] = the indices of the `most` largest of scores[n], ascending; returns how many.
 * Of equal scores the lowest index wins; NaN is never chosen. */
uint32_t chooser_best(const float *scores, uint32_t n, uint32_t most, uint32_t *chosen);

enum { INDEX_ROTATED = 256 };	/* pairs of an index head that are rotated */

/* A position of a span in a layer. */
struct pool_place {
	const struct step *step;
	const struct step_span *span;
	const struct layer *layer;
	size_t position;
};
/* How a layer's index keys are made, or other entries (pools.c). */
struct pool {
	uint32_t dim, ratio;
	uint32_t parts; /* 2: overlapping; a position has that many keys and gates */
	/* Where in a context a position's keys, and behind them its gates, are kept; and where keys of
	 * pools lie. */
	size_t past_at, past_width, entries_at;
	const float *bias; /* [ratio][parts][dim] of gates; NULL: the key is a mean */
	const float *norm; /* NULL: there is none */
};
struct pool pools_of_index(const struct config *c, const struct layer *l,
			   const struct layer_weights *w);
struct pool pools_of_entries(const struct config *c, const struct layer *l,
			     const struct layer_weights *w);
/* Keeps a position's row. */
void pools_keep(const struct pool_place *p, const struct pool *o, const float *row);
/* If the position ends a pool, whose rows are all kept by then: puts the pool's key into the context.
 */
void pools_finish(const struct pool_place *p, const struct pool *o, float *scratch);
/* Floats of its scratch, for keys of dim numbers at most. */
size_t pools_scratch(uint32_t dim);

/* What the rows' attention looks at in a layer that chooses: entries of the index, ascending
 * (pools.c). They stay until the next layer with an index, since others look at the same. */
struct chosen_entries {
	uint32_t groups, most;
	uint32_t *count;   /* [n][groups] */
	uint32_t *entries; /* [n][groups][most] */
};
/* Takes the arrays of a step's choices for `rows` rows. */
void chooser_take_entries(struct chosen_entries *s, struct arena *arena, const struct config *c,
			  size_t rows);
/* Moves what rows [from, from + n) have chosen to the rows from `to` on, before them. */
void chooser_move_entries(struct chosen_entries *x, uint32_t to, uint32_t from, uint32_t n);

struct chosen_scratch {
	uint32_t rows;	     /* of a wave */
	const void **blocks; /* [rows][blocks of a row] */
	float *memory;	     /* of these blocks, with room for floats */
};

struct chooser_scratch { /* empty in a model that looks at everything */
	float *q;	 /* [rows][heads][dim] */
	float *k;	 /* [rows][config_index_parts] */
	float *gate;	 /* the same, where pools have weights */
	float *kept;	 /* the same, or twice as much with gates */
	float *weights;	 /* [rows][heads] */
	float *pools;	 /* [rows][pool_floats] */
	float *scores;	 /* [wave][groups][chooser_scores] */
	size_t pool_floats;
	uint32_t wave; /* rows whose scores are computed at a time */
	struct chosen_scratch look;
};

void chooser_take(struct chooser_scratch *s, struct arena *arena, const struct config *c,
		  size_t rows);
/* Puts the rows' index keys into their contexts, and fills the step's choices, unless the layer takes
 * those of an earlier one. low: the latent between two projections of queries; NULL where queries of
 * the index come from normed. */
void chooser_run(struct step *step, uint32_t layer, struct activation *low);

void look_chosen_take(struct chosen_scratch *s, struct arena *arena, const struct config *c,
		      size_t rows);
/* out = attention of q to what was chosen, by all threads. */
void look_chosen_run(struct chosen_scratch *s, struct look_scratch *whole, const struct look *look);

/* ---- attention.c: grouped-query softmax attention ---- */

struct attention_scratch {
	float *projected_q; /* the projection's output; the same as q where there is no gate */
	float *q;	    /* [rows][heads][head_dim] */
	float *k, *v;	    /* [rows][kv_heads][head_dim] */
	float *query_gate;  /* [rows][heads][head_dim]; NULL where there is none */
	struct activation attended; /* [rows][heads][head_dim]: input of the output projection */
	struct look_scratch look;
};

void attention_take(struct attention_scratch *a, struct arena *arena, const struct config *c,
		    size_t rows);
/* Puts the rows' keys and values into their contexts; out = attention of normed. */
void attention_run(struct step *s, uint32_t layer);
/* Only puts the rows' keys and values into their contexts. */
void attention_run_keys(struct step *s, uint32_t layer);

/* ---- latent.c: latent attention ---- */

struct latent_scratch {
	struct activation low; /* queries between their two projections; width 0: there is one */
	float *q;	       /* [rows][heads][nope + rope] */
	float *plain;	       /* [rows][heads][nope]: the part of q that is not rotated */
	float *kv;	       /* [rows][rank + rope]: latents, and the key that heads share */
	float *query;	       /* [rows][heads][rank + rope]: absorbed */
	float *found;	       /* [rows][heads][rank]: sums of latents */
	float *turned;	       /* [rows][rope] */
	float *tiles;	       /* [heads][rows]: outputs in whole tiles, where a head's are none */
	uint32_t *index;       /* [heads][rows]: where in [rows][heads] each row of a head is */
	struct activation attended; /* [rows][heads][value]: input of the output projection */
	struct look_scratch look;
};

void latent_take(struct latent_scratch *a, struct arena *arena, const struct config *c,
		 size_t rows);
/* Puts the rows' latents into their contexts; out = latent attention of normed. */
void latent_run(struct step *s, uint32_t layer);

/* ---- look_entries.c, compressed.c: compressed attention ---- */

void look_entries_take(struct chosen_scratch *s, struct arena *arena, const struct config *c,
		       size_t rows);
/* out = attention of q to entries and to the window, by all threads. */
void look_entries_run(struct chosen_scratch *s, const struct look *look);

struct compressed_scratch {
	struct activation low;	/* queries between their two projections */
	float *q;		/* [rows][heads][dim] */
	float *kv;		/* [rows][dim] */
	float *keys, *gates;	/* [rows][2 · dim at most]: what entries are made of */
	float *kept;		/* [rows][both] */
	float *pools;		/* [rows][pools_scratch] */
	uint32_t *index;	/* [groups][rows] */
	struct activation attended; /* [rows][groups][heads · dim / groups] */
	struct activation grouped;  /* [rows][groups · low]: input of the last projection */
	struct look_scratch look;
	struct chosen_scratch entries;
};

void compressed_take(struct compressed_scratch *a, struct arena *arena, const struct config *c,
		     size_t rows);
/* Puts the rows' keys and entries into their contexts; out = compressed attention of normed. */
void compressed_run(struct step *s, uint32_t layer);

/* ---- delta.c: gated delta nets ---- */

struct delta_scratch {
	float *in, *mixed;	 /* [rows][channels]: q, k and v before and after the convolution */
	float *a, *b;		 /* [rows][value_heads]: projections for the state's gates */
	float *decay, *beta;	 /* [rows][value_heads]: the state's gates */
	float *out;		 /* [rows][value_heads · value_dim] */
	struct activation gated; /* the same shape: first the output's gate, then out times it */
};

void delta_take(struct delta_scratch *d, struct arena *arena, const struct config *c, size_t rows);
/* out = the delta net of normed. Each context's state moves on by the rows that it was behind and
 * by the step's certain rows; what the drafted rows would do to it is kept (recurrent.h). */
void delta_run(struct step *s, uint32_t layer);

/* ---- kimi.c: Kimi's delta attention ---- */

struct kimi_scratch {
	float *projected[3];	 /* [rows][heads · dim]: queries, keys, values */
	float *in, *mixed;	 /* [rows][3][heads · dim]: before and after the convolutions */
	struct activation decay_low, gate_low; /* [rows][dim]: between two products */
	float *decay;		 /* [rows][heads · dim] */
	float *b, *beta;	 /* [rows][heads] */
	float *gate;		 /* [rows][heads · dim] */
	struct activation out;	 /* the same shape: input of the output projection */
};

void kimi_take(struct kimi_scratch *k, struct arena *arena, const struct config *c, size_t rows);
/* out = Kimi's delta attention of normed. States move on as in delta_run. */
void kimi_run(struct step *s, uint32_t layer);

/* ---- mamba.c: Mamba2 ---- */

struct mamba_scratch {
	float *in, *mixed;	 /* [rows][channels]: x, B and C before and after the convolution */
	float *dt, *decay, *time; /* [rows][heads] */
	float *out;		 /* [rows][heads][head_dim] */
	struct activation gated; /* the same shape: first the gate z */
};

void mamba_take(struct mamba_scratch *m, struct arena *arena, const struct config *c, size_t rows);
/* out = Mamba2 of normed. States move on as in delta_run. */
void mamba_run(struct step *s, uint32_t layer);

/* ---- convolution.c: short convolutions with two gates ---- */

struct convolution_scratch {
	float *projected;	 /* [rows][3][hidden]: the input's gate, the output's, the value */
	float *in;		 /* [rows][hidden]: of the convolution */
	struct activation gated; /* [rows][hidden]: input of the output projection */
};

void convolution_take(struct convolution_scratch *x, struct arena *arena, const struct config *c,
		      size_t rows);
/* out = the convolution of normed. States move on as in delta_run. */
void convolution_run(struct step *s, uint32_t layer);

/* ---- per_layer.c: inputs of each layer's own ---- */

struct per_layer_scratch {
	float *projected;	 /* [rows][layers][per_layer] */
	struct activation gated; /* [rows][per_layer] */
};

void per_layer_take(struct per_layer_scratch *p, struct arena *arena, const struct config *c,
		    size_t rows);
/* The step's inputs of a row = the token's row of the table, before a row has died or moved; there:
 * it has been read. -ERANGE, -EIO in words. */
int per_layer_read(const struct step *s, uint32_t row, bool there, struct err *e);
/* When all rows are embedded: adds to their inputs what is projected from the embedding. */
void per_layer_begin(struct step *s);
/* Adds to the stream what a layer makes of its inputs, after its parts. */
void per_layer_run(struct step *s, uint32_t layer);

/* ---- dense.c: feed-forwards that every token passes ---- */

/* gate[n] = the family's function of gate and up, element by element. Without a gate (GLU_NONE), of what
 * is in gate alone. */
void dense_gate(const struct environment *env, float *gate, const float *up, size_t n);

struct dense_scratch {
	struct activation hidden; /* input of the down projection; width 0: no layer is dense */
};

void dense_take(struct dense_scratch *d, struct arena *arena, const struct config *c, size_t rows);
/* out = the dense feed-forward of normed. */
void dense_run(struct step *s, uint32_t layer);

struct shared_scratch {
	struct activation hidden; /* [rows][shared_size]: input of the down projection */
	float *up, *out;	  /* [rows][shared_size], [rows][hidden] */
	float *scale; /* [rows]: before the sigmoid, where the family has this product */
};

void dense_take_shared(struct shared_scratch *d, struct arena *arena, const struct config *c,
		       size_t rows);
/* The shared expert of normed, kept in the scratch: computed while routed experts are read. */
void dense_run_shared(struct shared_scratch *d, struct step *s, uint32_t layer);
/* Adds it to out, once the routed experts are summed. */
void dense_add_shared(struct shared_scratch *d, struct step *s);

/* ---- router.c: which experts a step's tokens pass through ---- */

struct router_scratch {
	struct activation guess; /* [PREDICT_MOST][hidden]: of residual_guess */
};

void router_take(struct router_scratch *r, struct arena *arena, const struct config *c);
/* Chooses each token's experts by the router's input. */
void router_run(const struct step *s, uint32_t layer, struct activation *input);
/* As the operations of the backend. */
void router_reweigh(struct step *s, uint32_t layer, size_t row);
void router_guess(struct step *s, uint32_t later);

/* ---- moe.c: routed experts ---- */

/* What is left of something that several threads compute: who takes it to zero goes on with it. A
 * cache line of its own, since threads hand lines around. */
struct countdown {
	_Alignas(64) _Atomic uint32_t left;
};

struct moe_scratch {
	struct router_scratch router;
	struct activation
		*input; /* of the layer's experts: the step's normed, or one of those below */
	struct activation hidden;  /* [assignments][expert size]: silu(gate) · up */
	float *up;		   /* [assignments][expert size] */
	float *own_out;		   /* [assignments][config_expert_width] */
	float *out;		   /* the same: own_out, or another backend's (moe_begin_experts) */
	/* [experts][groups of TQ_GROUP]: slices of gate and up that a wave has yet to compute. */
	struct countdown *unfinished;
	/* [blocks of columns of out]: slices of down that a step of one row has yet to compute. */
	struct countdown *unsummed;
	struct shared_scratch shared;
	/* A norm of the stream other than `normed`, where the family has one: the input of the
	 * router, and after it that of the experts. Width 0: the family has none. */
	struct activation apart;
	/* Inputs and weighted sums of experts that work on a projection. Width 0: the family has
	 * none. Not one: the first columns are summed while experts still read. */
	struct activation latent, summed;
};

void moe_take(struct moe_scratch *m, struct arena *arena, const struct config *c, size_t rows);
/* The operations of a feed-forward with experts (backend.h). */
void moe_route(struct step *s, uint32_t layer);
void moe_begin(struct step *s, uint32_t layer);
void moe_run_wave(struct step *s, uint32_t layer, const struct pager_ready *ready, uint32_t count);
void moe_end(struct step *s, uint32_t layer);

/* ---- all of it: what backend.h calls a stream, and scratch ---- */

struct residual_stream {
	float *x;	  /* [rows][streams][hidden]: the residual stream */
	float *per_layer; /* [rows][layers][per_layer], or NULL */
	struct chosen_entries chosen;
	/* [rows]: rows of the tables that have been read together */
	bool *embedded, *per_layer_read;
	size_t bytes; /* of the memory that begins with this */
};

struct scratch {
	struct activation normed; /* [rows][hidden]: input of projections */
	float *out; /* [rows][hidden]: added to x, with room for a dense up projection */
	struct activation joined; /* [JOINED_ROWS][2 · hidden]; width 0: there is no draft layer */
	struct residual_scratch residual;
	struct ngram_scratch ngrams;
	struct chooser_scratch chooser;
	struct attention_scratch attention;
	struct latent_scratch latent;
	struct compressed_scratch compressed;
	struct delta_scratch delta;
	struct kimi_scratch kimi;
	struct mamba_scratch mamba;
	struct convolution_scratch convolution;
	struct dense_scratch dense;
	struct per_layer_scratch per_layer;
	struct moe_scratch moe;
	size_t bytes; /* of the memory that begins with this */
};

#endif
