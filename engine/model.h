/* Models and the engine that they share: one of the two headers that fs/ and the benchmarks use
 * (the other is session.h).
 *
 * An engine owns what all mounted models share: the expert pool, the context budget and the compute
 * threads. A model is one checkpoint's directory, or a GGUF file. Opening it reads config.json
 * and, if there is one, the store's index, and nothing more; weights come with model_load or the
 * first prompt.
 *
 * Threads: every function here may be called from any thread and returns without waiting for disk
 * or arithmetic, except where its comment says "blocks".
 */
#ifndef MOEFS_ENGINE_MODEL_H
#define MOEFS_ENGINE_MODEL_H

#include "cache/err.h"
#include "cache/pager.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct answer;
struct engine;
struct model;
struct session;
struct trace_reader;

struct engine_options {
	uint64_t budget;	 /* bytes for experts; 0: automatic, from the memory there is */
	uint64_t context_budget; /* bytes for key-value memory; 0: an eighth of it */
	uint32_t context;	 /* positions per session; 0: the model's own, at most 32 Ki */
	uint32_t threads;	 /* 0: as many as cores */
	uint32_t chunk;		 /* prompt tokens per step; 0: see chunk.h. Never changes a text. */
	uint32_t idle;	   /* seconds after which a model that nobody asked is unloaded; 0: never */
	uint32_t refine;   /* 1: models are refined while nobody asks anything; 0: not */
	const char *quant; /* auto (NULL: this), 2bit … 4bit, tq2 … tq4 or bf16; see recipe.h */
	int exact; /* not 0: with activations, keys and values, and what was in codes, in F32 */
	const char *codec;	   /* none, zstd or auto (NULL: this); see recipe.h */
	const char *template_file; /* every model's chat template; NULL: their own */
	const char
		*store; /* folder for stores; NULL: beside the checkpoint, else the cache folder */
	/* Called, from any thread and with no lock held, whenever the answer, status or error of a
	 * session may have changed; must not block. user is what session_create was given. May be
	 * NULL. */
	void (*changed)(void *ctx, void *user);
	void *ctx;
};

/* All the memory that there could be for this process: the machine's, or the limit of its control
 * group where that is less; 0 if that cannot be told. Blocks for a few small files of the kernel's.
 */
uint64_t engine_memory(void);

/* Blocks (reads the memory limits). ERANGE, EINVAL: an option is wrong, in words. */
int engine_create(struct engine **out, const struct engine_options *options, struct err *e);
void engine_destroy(struct engine *g); /* after every model is closed */

/* The budget that is asked for. The one in force (pager_stats.budget) is less while memory is short
 * (budgets.h). Evicts at once what no longer fits; ERANGE if one expert would not, or what is
 * pinned. */
int engine_set_budget(struct engine *g, uint64_t bytes, struct err *e);
void engine_automatic_budget(struct engine *g);
uint64_t engine_budget_asked(const struct engine *g); /* 0: automatic */
int engine_set_context_budget(struct engine *g, uint64_t bytes, struct err *e);
void engine_automatic_context_budget(struct engine *g);
uint64_t engine_context_budget(const struct engine *g);
uint64_t engine_context_used(const struct engine *g);
void engine_cache_stats(const struct engine *g, struct pager_stats *out);
/* Nobody has asked for a while: gives back memory that only work needs. Any thread. */
void engine_rest(struct engine *g);
/* The replacement policy in words, as pager_set_policy takes them; auto is the default. */
int engine_set_policy(struct engine *g, const char *words, struct err *e);
void engine_policy(const struct engine *g, char words[PAGER_POLICY_TEXT]);

/* Whether a path is a model: a checkpoint's folder (it has a config.json), a GGUF file or its first
 * part, a folder with one such file, or a model in a hub's cache. -ENOENT: there is nothing that
 * was meant to be one by itself; others: there is, but it is not whole, or more than one. In words.
 * Blocks. */
int model_locate(const char *path, struct err *e);

/* What can be said of a path as a model, as `key value` lines (malloc'ed, also where it fails, but
 * for -ENOMEM): what it is, its family, encodings, tokenizer and template, and what it would take
 * of disk and memory by the engine's options. The last line is "mountable yes", or "mountable no":
 * then an error says what is missing or wrong, as model_open does, or as loading would of its
 * tokenizer. Reads no weights but the samples by which a store is known, and writes nothing.
 * Blocks. */
int model_check(struct engine *g, const char *path, char **text, size_t *length, struct err *e);

/* Blocks for the few files it reads, and where no store is there for the headers of the weights:
 * what is missing, or no place for a store, is an error in words now rather than when it is loaded.
 * The engine outlives the model. */
int model_open(struct model **out, struct engine *g, const char *path, struct err *e);
/* Opens its tokenizer, as loading does first, so that one that cannot be used is said now. keep: it
 * stays for the load that follows. Blocks; before anybody else has the model. */
int model_check_tokenizer(struct model *m, bool keep, struct err *e);
/* Asks loading, converting and refining to end at their next stop, and returns at once. Only
 * model_close comes after it: a process that ends asks all of its models before it waits for the
 * first. */
void model_end_background(struct model *m);
/* Stops loading and frees the model, whose sessions have all been ended. Blocks until the step in
 * progress ends (a layer at most). An interrupted conversion is resumed by the next mount. */
void model_close(struct model *m);

/* The name of the folder, of the model in a hub's cache, or of a GGUF file without its ending. */
const char *model_name(const struct model *m);
/* config.json as it is on disk, or what the keys of a GGUF file make of it; malloc'ed. Blocks. */
int model_config(const struct model *m, char **text, size_t *length, struct timespec *modified,
		 struct err *e);

enum model_state { MODEL_UNLOADED, MODEL_LOADING, MODEL_READY, MODEL_FAILED };
enum model_state model_state(const struct model *m);
/* Asks for the weights: returns at once, loading goes on behind. Again after a failure: retries. */
void model_load(struct model *m);
/* Blocks until loading has succeeded (0) or failed (in words). Asks for it first. */
int model_wait(struct model *m, struct err *e);
/* Gives back what loading took, weights and experts' memory, and ends loading that goes on; the
 * tokenizer stays. Sessions keep all that they have, contexts too: their next turn loads the model
 * again and goes on, to the bit, as if nothing had been. A conversion goes on with the next load.
 * Blocks until it is done: for a step at most, and the experts that are being read or made.
 * -EBUSY: a session works. */
int model_unload(struct model *m, struct err *e);
/* Whether any session has a turn in progress. */
bool model_working(const struct model *m);
/* Why loading failed, or the conversion that goes on behind cannot; else code 0. */
void model_failure(const struct model *m, struct err *e);
/* Its sentence alone; else empty. */
void model_error(const struct model *m, char *text, size_t size);
/* The same of refining while idle, which is tried again in later pauses. */
void model_refining_failure(const struct model *m, struct err *e);
void model_refining_error(const struct model *m, char *text, size_t size);

/* The tokenizer alone, without weights; opened by the first of all who need it. Each makes a
 * complete answer (session.h), which fails with e's code where text cannot be taken; NULL: out of
 * memory. Both block, as long as the text is, and end early once *stop is true.
 *
 * Encoding: text[length], one trailing newline dropped, to the ids of its tokens, one a line.
 * Special tokens that the text spells are those, and nothing is put before it: as a prompt without
 * chat is read, but for the token that begins a text. -EILSEQ: no UTF-8. */
struct answer *model_encode(struct model *m, const char *text, size_t length,
			    const _Atomic bool *stop, struct err *e);
/* Decoding: ids in decimal, with spaces or newlines between, to their bytes and a newline. Special
 * tokens are spelled out; the space that a tokenizer puts before a text is left out. What encoding
 * gives comes back as it was, but for what the tokenizer normalises. -EINVAL: not an id; -ERANGE:
 * the vocabulary has no such token. */
struct answer *model_decode(struct model *m, const char *text, size_t length,
			    const _Atomic bool *stop, struct err *e);

/* Makes a better store of the same bits: a text goes through the model, and every matrix is rounded
 * by what its inputs there were (engine/serve/refine.h). The store that is used stays as it is; the
 * next mount takes the new one. Interrupted by anything it is taken up by the next call with the
 * same request. Blocks for minutes to hours. -ENOTSUP: the weights are not of 16 or 32 bits, or
 * none of them are quantised; -ECANCELED: somebody began a turn meanwhile, if idle, or the model is
 * closed. */
struct model_refining {
	const char *text; /* UTF-8; NULL: what the model itself writes */
	size_t length;
	uint64_t tokens; /* at most so many of it, up to the end of a window */
	bool idle;	 /* turns of others come first */
};
int model_refine(struct model *m, const struct model_refining *r, struct err *e);
/* Whether its text can be read, whatever the model: -EILSEQ or -EINVAL, with where it cannot. */
int model_refining_check(const struct model_refining *r, struct err *e);
/* From now on it is refined while it is loaded and nobody has asked for a while, if the engine's
 * options say so. Once, after model_open. */
int model_refine_idle(struct model *m, struct err *e);

/* How far a conversion is, which goes on while the model is ready; total is 0 while there is none.
 */
struct model_progress {
	/* "idle", "converting", "reading" (the dense part into memory), "waiting" (for another
	 * process that converts), "checking" (the checkpoint's files have other times than the
	 * store knows, and are compared with what it was made from), "stopped" (converting met what
	 * it cannot do: model_error), "gathering" (what its inputs are like, for "refining"),
	 * "refining stopped" (model_refining_error). */
	const char *doing;
	uint64_t done, total; /* bytes of the source; of gathering, tokens */
	double seconds;	      /* since it began */
};
void model_progress(const struct model *m, struct model_progress *out);

/* Facts for info/, each as text without the newline at its end. 0, or -ENAMETOOLONG if it was cut.
 */
enum model_fact {
	FACT_ARCHITECTURE, /* model_type, "qwen3_moe" */
	FACT_LAYERS,
	FACT_HIDDEN_SIZE,
	FACT_HEADS, /* query heads */
	FACT_KV_HEADS,
	FACT_HEAD_DIM,
	FACT_VOCABULARY,
	FACT_EXPERTS, /* per routed layer, 0 if dense */
	FACT_EXPERTS_PER_TOKEN,
	FACT_PARAMETERS,
	FACT_ACTIVE_PARAMETERS, /* that one token passes through */
	FACT_BITS_PER_WEIGHT,	/* of the store, embeddings and norms included */
	FACT_CONTEXT,		/* positions a session may use */
	FACT_CONTEXT_BYTES,	/* that one takes when it is full, copies of states included */
	FACT_MAX_PROMPT_BYTES,
	FACT_DEFAULTS, /* a line for each key of generation_config.json that is taken or ignored */
	FACT_RECIPE,   /* "3bit", what -o quant= said */
	FACT_CODEC,    /* "none" or "zstd 0.67", and what was measured if this mount chose it */
	FACT_SOURCE,   /* path of the checkpoint's folder or GGUF file */
	FACT_STORE,    /* path of the store's folder */
	FACT_STATE,    /* unloaded, loading, ready, failed */
	FACT_PROGRESS, /* "idle", or "converting 42 % 12.6/30.1 MB 3 s left", or "checking 43 % …"
			*/
	FACT_TEMPLATE, /* where its chat template comes from, or why it has none, in words */
	FACT_KERNELS,  /* the kernels' table in use */
	FACT_COUNT
};
int model_fact(const struct model *m, enum model_fact fact, char *text, size_t size);
uint64_t model_max_prompt_bytes(const struct model *m);

/* Whether the checkpoint that a store was made from is still there, by what is kept beside the
 * store (cache/store_inspect.h has the rest of what can be said of one). path[size]: where it was;
 * empty where that is not known. Blocks: reads at most a MiB of each file. */
enum store_of {
	STORE_OF_SAME,	  /* by all its files' sizes and times */
	STORE_OF_TOUCHED, /* by its sizes; only reading all of it would tell */
	STORE_OF_CHANGED,
	STORE_OF_GONE,
	STORE_OF_UNKNOWN, /* nothing is kept that would tell */
};
enum store_of model_store_of(const char *folder, char *path, size_t size);

/* Experts, for looking: nothing is loaded or promoted by it. */
uint32_t model_layers(const struct model *m);
uint32_t model_experts(const struct model *m, uint32_t layer); /* 0 for a dense layer */
/* Bytes of one expert of a routed layer as stored (coded: decoded); 0 until the store is complete.
 */
uint64_t model_expert_bytes(const struct model *m, uint32_t layer);
void model_expert_inspect(const struct model *m, uint32_t layer, uint32_t expert,
			  struct pager_expert *out);
/* Blocks (reads the disk). Returns bytes read, 0 past the end, or a negative errno. */
int64_t model_expert_read(const struct model *m, uint32_t layer, uint32_t expert, uint64_t offset,
			  void *buffer, size_t bytes, struct err *e);
/* Tensors by their published names, with the numbers that are computed with: what a store has in
 * codes is taken out of them, and no expert is loaded for it. A tensor's file is a NumPy array of
 * F32 in the published shape. The list is in the order of names. */
/* Makes the list, if nobody has: reads headers. Blocks. */
int model_tensors_open(struct model *m, struct err *e);
bool model_tensors_are_open(const struct model *m);
size_t model_tensors(const struct model *m); /* 0 until it is made */
const char *model_tensor_name(const struct model *m, size_t i);
bool model_tensor_find(const struct model *m, const char *name, size_t *i);
uint64_t model_tensor_bytes(const struct model *m, size_t i); /* of its file; 0: there is none */
/* Blocks (reads the disk, and computes for what was asked). Returns bytes read, 0 past the end, or
 * a negative errno. */
int64_t model_tensor_read(const struct model *m, size_t i, uint64_t offset, void *buffer,
			  size_t bytes, struct err *e);
/* The experts of a layer together. */
struct model_layer {
	uint32_t experts, resident, pinned;
	uint64_t bytes; /* in memory */
	uint64_t hits, misses;
	uint64_t last_used; /* the newest of theirs */
};
void model_layer_inspect(const struct model *m, uint32_t layer, struct model_layer *out);

/* Each of these takes n distinct experts, by the model's layers, all of them or none, and returns
 * at once: what is absent is read behind. Of a model that is not loaded pins and loads are
 * remembered, and it is asked to load.
 *
 * Pinned ones are kept in memory, whatever the policy and as long as the model is mounted; while
 * memory is so short that the budget in force has no room for them, they are the last to go and
 * the first to come back. -ENOSPC: they do not fit into the budget beside the experts of a token.
 * Loaded ones stay as long as others do; -ENOSPC likewise. Evicted ones go unless a step needs them
 * now; -EBUSY: some are pinned. */
int model_experts_pin(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_unpin(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_load(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_evict(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
/* This model's share of the counters; budget is the pool's. */
void model_cache_stats(const struct model *m, struct pager_stats *out);

/* ---- the trace: which experts each token passes, as the router picks them ----
 *
 * A line for each token and layer with experts, in the order in which they are computed:
 *
 *     SESSION POSITION KIND LAYER EXPERT…
 *
 * SESSION is what session_name said, POSITION the token's in the context, from 0. KIND is prompt,
 * answer, or draft: of what was guessed, computed and did not stand. LAYER has two digits at least,
 * EXPERT three, in descending order of weight; a star behind it says that it was not in memory and
 * was read for this token, the first of its step to pick it. So there are as many stars as
 * expert_misses. The last token of an answer is computed with what follows it. What a draft layer
 * computes for itself has no lines.
 *
 * A reader has the lines of the steps that begin after it was opened, owner's alone or, with NULL,
 * everybody's. Each has them all; one that is too slow finds a line `lost N` in place of N of them.
 * told(ctx) is called from any thread and must not block: whenever there are more, and when the
 * model has nothing more to do. It is the same for all readers of a model, which outlives them. */
enum { TRACE_READ_BYTES = 64 << 10 };
int model_trace_open(struct trace_reader **out, struct model *m, const uint32_t *owner,
		     void (*told)(void *ctx), void *ctx, struct err *e);
void model_trace_close(struct trace_reader *t);
/* Whole lines, at most bytes, which are TRACE_READ_BYTES or more; 0: there are none yet. */
size_t model_trace_read(struct trace_reader *t, char *buffer, size_t bytes);
bool model_trace_has_lines(const struct trace_reader *t);

/* Experts that are being read ahead of any prompt, of so many; total 0: none. */
void model_warming(const struct model *m, uint32_t *done, uint32_t *total);

#endif
