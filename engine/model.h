/* Models and the engine that they share: one of the two headers that fs/ and the benchmarks use
 * (the other is session.h).
 *
 * An engine owns what all mounted models share: the expert pool, the context budget and the compute
 * threads. A model is one checkpoint's folder, or a GGUF file. Opening a model reads config.json
 * and, if there is a store, its index; weights are loaded by model_load or the first prompt.
 *
 * Threads: every function may be called from any thread. None waits for disk or arithmetic, except
 * where its comment says "blocks".
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

enum { STEP_MS_DEFAULT = 100, REMEMBER_DEFAULT = 1 << 30 };

struct engine_options {
	uint64_t budget;	 /* bytes for experts; 0: automatic, from the free memory */
	uint64_t context_budget; /* bytes for contexts; 0: an eighth of the same */
	uint32_t context;	 /* positions per session; 0: the model's limit, at most 32 Ki */
	uint64_t offload;	 /* bytes of disk for contexts of idle sessions; 0: none */
	const char *remember;	 /* folder for answers that are given again; NULL: none */
	uint64_t remember_size;	 /* bytes that it may take; 0: REMEMBER_DEFAULT */
	uint32_t threads;	 /* 0: one per core */
	uint32_t chunk;	  /* prompt tokens per step; 0: see model/chunk.h. Changes no text. */
	uint32_t step_ms; /* milliseconds that answers may wait for a prompt; 0: STEP_MS_DEFAULT */
	uint32_t share_all; /* 1: sessions of different users share what they have computed */
	uint32_t idle;	    /* seconds without a prompt after which a model is unloaded; 0: never */
	uint32_t refine;    /* 1: models are refined while they are idle; 0: not */
	const char *quant; /* auto (NULL: auto), 2bit … 8bit, tq2 … tq4 or bf16; see recipe.h */
	int exact;	   /* not 0: activations, keys, values and decoded weights are F32 */
	const char *kv;	   /* keys and values: f16, q8, q4, q8q4, or auto (NULL: auto): f16 */
	const char *codec; /* none, zstd or auto (NULL: auto); see recipe.h */
	const char *template_file; /* chat template of all models; NULL: each model's own */
	const char
		*store; /* folder for stores; NULL: beside the checkpoint, else the cache folder */
	/* Called whenever the answer, status or error of a session may have changed, from any
	 * thread, with no lock held. Must not block. user: what session_create was given. May be
	 * NULL. */
	void (*changed)(void *ctx, void *user);
	void *ctx;
};

/* The most memory that this process can have: the machine's, or the limit of its control group if
 * that is less; 0: unknown. Blocks for a few small files in /proc and /sys. */
uint64_t engine_memory(void);

/* Blocks (reads the memory limits). -ERANGE, -EINVAL in words: an option is wrong. */
int engine_create(struct engine **out, const struct engine_options *options, struct err *e);
void engine_destroy(struct engine *g); /* after every model is closed */

/* Sets the expert budget. The budget in force (pager_stats.budget) is less while memory is short
 * (budgets.h). Evicts at once what no longer fits. -ERANGE: the largest expert would not fit, or
 * the pinned ones. */
int engine_set_budget(struct engine *g, uint64_t bytes, struct err *e);
void engine_automatic_budget(struct engine *g);
uint64_t engine_budget_asked(const struct engine *g); /* 0: automatic */
int engine_set_context_budget(struct engine *g, uint64_t bytes, struct err *e);
void engine_automatic_context_budget(struct engine *g);
uint64_t engine_context_budget(const struct engine *g);
uint64_t engine_context_used(const struct engine *g);
/* Bytes that contexts may take on disk, and those that they take. */
uint64_t engine_offload(const struct engine *g);
uint64_t engine_offload_used(const struct engine *g);
/* The same of remembered answers, all 0 without -o remember=; and why the last was not written. */
struct engine_remember {
	uint64_t most, used;
	struct err failure; /* code 0: it was */
};
void engine_remember(const struct engine *g, struct engine_remember *out);
/* What turns have come to since the engine was made; grows while they are computed. */
struct engine_totals {
	uint64_t turns;	     /* that have ended, texts that were scored or embedded included */
	uint64_t remembered; /* of these, whose answer was on disk */
	uint64_t prompt_tokens, cached_tokens; /* of prompts; of these, not computed */
	uint64_t output_tokens;
};
void engine_totals(const struct engine *g, struct engine_totals *out);
void engine_cache_stats(const struct engine *g, struct pager_stats *out);
void engine_ahead_stats(const struct engine *g, struct pager_ahead out[AHEAD_LAYERS][AHEAD_RANKS]);
/* Gives back memory that only work needs; for a mount that is idle. */
void engine_rest(struct engine *g);
/* The replacement policy, in the words of pager_set_policy; "auto" is the default. */
int engine_set_policy(struct engine *g, const char *words, struct err *e);
void engine_policy(const struct engine *g, char words[PAGER_POLICY_TEXT]);

/* Whether a path is a model: a checkpoint's folder (with a config.json), a GGUF file or its first
 * part, a folder with one such file, a model in a hub's cache, or a manifest of ollama's. In words,
 * -ENOENT: the path holds no model; other codes: it holds an incomplete model, or more than one.
 * Blocks. */
int model_locate(const char *path, struct err *e);

/* ---- models that other programs keep ----
 *
 * ollama's folders, LM Studio's, hubs' caches and llama.cpp's cache, where the environment and the
 * programs' own defaults say (engine/library/library.c). Nothing is ever written there. */

struct library_model {
	char *name;	    /* NULL: the path is a folder that cannot be looked into */
	char *publisher;    /* NULL: not known */
	char *path;	    /* for model_open: a folder, a GGUF file, or a manifest of ollama's */
	const char *keeper; /* static: "ollama's folder" */
	char *why;	    /* why it cannot be opened, as far as names tell; NULL: no reason */
};
struct library_list { /* zero-initialised, freed with library_free */
	struct library_model *models;
	size_t count;
	char **folders; /* that were looked into, or by library_folders all that there are */
	size_t folder_count;
	bool failed; /* memory ran out */
};
/* Lists the folders themselves. */
int library_folders(struct library_list *l, struct err *e);
/* Adds the models in one folder of another program. -ENOENT, without words: it is no such folder.
 * Blocks: looks at names, the first bytes of files, and manifests. */
int library_look(struct library_list *l, const char *folder, struct err *e);
/* Gives models of equal names their publisher's, PUBLISHER-NAME, and a number where these are
 * equal, too. Once, after the last library_look. */
int library_name(struct library_list *l, struct err *e);
void library_free(struct library_list *l);
/* Whether a model could be opened, as far as headers tell. Reads no weights, converts nothing, and
 * writes nothing. Blocks. */
int model_glance(const char *path, struct err *e);

/* A report on a path as a model, as `key value` lines: what it is, its family, encodings, tokenizer
 * and template, and how much disk and memory it would take with the engine's options. *text is
 * malloc'ed, after errors other than -ENOMEM, too. The last line is "mountable yes" or "mountable
 * no"; then the error says what is missing or wrong, as model_open does, or as loading would of the
 * tokenizer. Reads no weights but the samples that identify a store, and writes nothing. Blocks. */
int model_check(struct engine *g, const char *path, char **text, size_t *length, struct err *e);

/* Blocks for a few small files, and without a store for the headers of the weights. Missing files
 * or tensors, or no place for a store, are errors in words now, not when the model is loaded. The
 * engine outlives the model. */
int model_open(struct model **out, struct engine *g, const char *path, struct err *e);
/* Opens the tokenizer, as loading does, so that an unusable tokenizer is an error now. keep: the
 * tokenizer stays open for the load that follows. Blocks. Call it before other threads have the
 * model. */
int model_check_tokenizer(struct model *m, bool keep, struct err *e);
/* Asks loading, converting and refining to stop, and returns at once. Only model_close may follow:
 * a process that ends asks all its models before it waits for the first. */
void model_end_background(struct model *m);
/* Stops loading and frees the model. All its sessions have been ended. Blocks until the step in
 * progress ends (a layer at most). The next mount resumes an interrupted conversion. */
void model_close(struct model *m);

/* The name of the checkpoint's folder, of the model in a hub's cache, or of the GGUF file without
 * its ending. */
const char *model_name(const struct model *m);
/* config.json as it is on disk, or made from the keys of a GGUF file; malloc'ed. Blocks. */
int model_config(const struct model *m, char **text, size_t *length, struct timespec *modified,
		 struct err *e);

/* Questions to begin with, a line each: those of the checkpoint's examples.txt, at most 12. Lines
 * that are not short UTF-8 without control characters are left out. Without the file, and of a GGUF
 * file, empty. malloc'ed; NULL: out of memory. Blocks. */
char *model_examples(const struct model *m);

enum model_state { MODEL_UNLOADED, MODEL_LOADING, MODEL_READY, MODEL_FAILED };
enum model_state model_state(const struct model *m);
/* Starts loading the weights in the background; after a failure, tries again. */
void model_load(struct model *m);
/* Starts loading, and blocks until it has succeeded (0) or failed (in words). */
int model_wait(struct model *m, struct err *e);
/* Frees weights and experts, and stops a load in progress; the tokenizer stays. Sessions keep
 * everything, contexts included: their next turn loads the model again, and its text is the same to
 * the bit. A conversion continues with the next load. Blocks until done: for one step at most, and
 * for experts that are being read or made. -EBUSY: a session works. */
int model_unload(struct model *m, struct err *e);
/* Whether any session has a turn in progress. */
bool model_working(const struct model *m);
/* Adds the sessions of users, and those of them that have a turn in progress. */
void model_count_sessions(const struct model *m, uint32_t *sessions, uint32_t *working);
/* Why loading, or converting in the background, failed; else code 0. */
void model_failure(const struct model *m, struct err *e);
/* The sentence alone; else empty. */
void model_error(const struct model *m, char *text, size_t size);
/* The same for refining while idle, which is tried again in later pauses. */
void model_refining_failure(const struct model *m, struct err *e);
void model_refining_error(const struct model *m, char *text, size_t size);

/* These two need only the tokenizer, and open it if nobody has. They return a complete answer
 * (session.h), which fails with e's code if the text is refused; NULL: out of memory. They block in
 * proportion to the text, and end early once *stop is true.
 *
 * Encodes text[length], without one trailing newline, to the ids of its tokens, one a line. Special
 * tokens that the text spells out are encoded as such, and no token is put before the text: as a
 * prompt without chat, but for the token that begins a text. -EILSEQ: not UTF-8. */
struct answer *model_encode(struct model *m, const char *text, size_t length,
			    const _Atomic bool *stop, struct err *e);
/* Decodes ids in decimal, separated by spaces or newlines, to their bytes and a newline. Special
 * tokens are spelled out; the space that a tokenizer puts before a text is left out. Decoding what
 * model_encode gave returns the text, except for what the tokenizer normalises. -EINVAL: not an id;
 * -ERANGE: the vocabulary has no such token. */
struct answer *model_decode(struct model *m, const char *text, size_t length,
			    const _Atomic bool *stop, struct err *e);

/* Refines the model: makes a better store of the same size. A text goes through the model, and
 * every matrix is rounded again by the inputs that it had there (engine/admin/model_refine.c). The
 * store in use stays as it is; the next mount uses the new one. After an interruption the next call
 * with the same request continues. Blocks for minutes to hours. -ENOTSUP: the source's weights are
 * not of 16 or 32 bits, or the store quantises none; -ECANCELED: the model is closed, or, if
 * `idle`, a turn began. */
struct model_refining {
	const char *text; /* UTF-8; NULL: text that the model writes itself */
	size_t length;
	uint64_t tokens; /* of the text at most, rounded up to the end of a window */
	bool idle;	 /* sessions' turns come first */
	/* The recipe of the better store, if the model is open with another one, by which it reads
	 * and writes the text; NULL: the model's own. */
	const char *quant;
};
/* The recipe with which a model is to be opened to refine one of *quant, this one's: few bits write
 * another text than the checkpoint would, and find other inputs in it. NULL: its own will do, or it
 * is refined already. */
const char *model_refining_reader(const struct model *m, const char **quant);
int model_refine(struct model *m, const struct model_refining *r, struct err *e);
/* Whether the request's text is valid, whatever the model: -EILSEQ or -EINVAL, with the place. */
int model_refining_check(const struct model_refining *r, struct err *e);
/* Lets the model be refined while it is loaded and idle, if the engine's options say so. Called
 * once, after model_open. */
int model_refine_idle(struct model *m, struct err *e);

/* Measures what the store in use loses against its checkpoint, for info/loss, on a text of 2,048
 * tokens that the model writes (engine/admin/loss_compare.h), and keeps the result beside the
 * store. Reads all of the checkpoint. Blocks. idle: ends with -ECANCELED when a turn begins.
 * -ENOTSUP: there is nothing to measure. */
int model_measure_loss(struct model *m, bool idle, struct err *e);

/* Progress of background work, which continues while the model is ready; total 0: there is none. */
struct model_progress {
	/* "idle", "converting", "reading" (dense weights into memory), "waiting" (for another
	 * process that converts), "checking" (the checkpoint's files have other times than the
	 * store knows, and are compared with those that the store was made from), "stopped"
	 * (converting failed: model_error), "writing" (a text to refine by), "gathering" (inputs of
	 * some layers), "refining" (these layers), "refining stopped" (model_refining_error),
	 * "measuring" (the store's loss). */
	const char *doing;
	uint64_t done, total; /* bytes of the source; of writing, tokens; of measuring, layers */
	double seconds;	      /* since the work began */
};
void model_progress(const struct model *m, struct model_progress *out);

/* Facts for info/, each as text without a final newline. 0, or -ENAMETOOLONG: the text was cut. */
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
	FACT_CONTEXT_BYTES,	/* of a full session, checkpoints included */
	FACT_KV, /* what keys and values are kept in, and what a session would take in another */
	FACT_MAX_PROMPT_BYTES,
	FACT_DEFAULTS, /* a line for each key of generation_config.json: used or ignored */
	FACT_FORMAT,   /* "3bit", "as published: GGUF, in place" */
	FACT_RECIPE,   /* the same; and the default's rule, if no recipe was asked for */
	FACT_LOSS,     /* what the store loses: lines of names and values; or why that is unknown */
	FACT_CODEC,    /* "none" or "zstd 0.67", with the measurement if this mount chose */
	FACT_SOURCE,   /* path of the checkpoint's folder or GGUF file */
	FACT_STORE,    /* path of the store's folder */
	FACT_STATE,    /* unloaded, loading, ready, failed */
	FACT_PROGRESS, /* "idle", or "converting 42 % 12.6/30.1 MB 3 s left", or "checking 43 % …"
			*/
	FACT_TEMPLATE, /* where its chat template comes from, or why it has none, in words */
	FACT_EMBEDDING, /* "last token, normalised (modules.json)" */
	FACT_KERNELS,	/* the kernels' table in use */
	FACT_LEFT_OUT,	/* parts of the checkpoint that are not used: names, tensors, bytes */
	FACT_NGRAMS,	/* tables of n-grams: how large, how much of them is in memory, rows read */
	FACT_COUNT
};
int model_fact(const struct model *m, enum model_fact fact, char *text, size_t size);
uint64_t model_max_prompt_bytes(const struct model *m);

/* Whether the checkpoint that a store was made from still exists, by the notes beside the store
 * (cache/store_inspect.h tells the rest about a store). path[size]: where the checkpoint was; empty
 * if unknown. Blocks: reads at most a MiB of each file. */
enum store_of {
	STORE_OF_SAME,	  /* all files have the noted sizes and times */
	STORE_OF_TOUCHED, /* the sizes are the same, the times are not */
	STORE_OF_CHANGED,
	STORE_OF_GONE,
	STORE_OF_UNKNOWN, /* the store has no notes */
};
enum store_of model_store_of(const char *folder, char *path, size_t size);

/* Looking at experts, which loads and promotes nothing. */
uint32_t model_layers(const struct model *m);
uint32_t model_experts(const struct model *m, uint32_t layer); /* 0 for a dense layer */
/* Bytes of one expert of a routed layer as stored, after decompression; 0 until the store is
 * complete. */
uint64_t model_expert_bytes(const struct model *m, uint32_t layer);
void model_expert_inspect(const struct model *m, uint32_t layer, uint32_t expert,
			  struct pager_expert *out);
/* Blocks (reads the disk). Returns bytes read, 0 past the end, or a negative errno. */
int64_t model_expert_read(const struct model *m, uint32_t layer, uint32_t expert, uint64_t offset,
			  void *buffer, size_t bytes, struct err *e);

/* Tensors by their published names, as NumPy files of F32 in the published shape. The values are
 * those that the model computes with: codes of the store are decoded, and no expert is loaded. */

/* Makes the list, sorted by name, if there is none yet: reads headers. Blocks. */
int model_tensors_open(struct model *m, struct err *e);
bool model_tensors_are_open(const struct model *m);
size_t model_tensors(const struct model *m); /* 0 until the list is made */
const char *model_tensor_name(const struct model *m, size_t i);
bool model_tensor_find(const struct model *m, const char *name, size_t *i);
uint64_t model_tensor_bytes(const struct model *m, size_t i); /* of its file; 0: no such tensor */
/* Blocks (reads the disk, and decodes). Returns bytes read, 0 past the end, or a negative errno. */
int64_t model_tensor_read(const struct model *m, size_t i, uint64_t offset, void *buffer,
			  size_t bytes, struct err *e);

/* All experts of a layer together. */
struct model_layer {
	uint32_t experts, resident, pinned;
	uint64_t bytes; /* in memory */
	uint64_t hits, misses;
	uint64_t last_used; /* of the expert used last */
};
void model_layer_inspect(const struct model *m, uint32_t layer, struct model_layer *out);

/* Each of these takes n distinct experts, by the model's layers, all of them or none, and returns
 * at once: absent experts are read in the background. If the model is not loaded, pins and loads
 * are remembered, and loading starts.
 *
 * Pin: keeps experts in memory, whatever the policy, as long as the model is mounted. While memory
 * is so short that the budget in force has no room for them, they are evicted last and read again
 * first. -ENOSPC: they do not fit into the budget beside the experts of a token. Load: the policy
 * may evict these experts like any others; -ENOSPC likewise. Evict: all but experts that a step
 * needs now; -EBUSY: some are pinned. */
int model_experts_pin(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_unpin(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_load(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_evict(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
/* The counters of this model; budget is the pool's. */
void model_cache_stats(const struct model *m, struct pager_stats *out);

/* ---- the trace: which experts each token passes through, as the router picks them ----
 *
 * One line per token and layer with experts, in the order of computation:
 *
 *     SESSION POSITION KIND LAYER EXPERT…
 *
 * SESSION is the name that session_name set, POSITION the token's in the context, from 0. KIND is
 * prompt, answer, or draft (a draft that was refused). LAYER has at least two digits, EXPERT three,
 * in descending order of weight. A star after EXPERT: the expert was not in memory and was read for
 * this token, the first of its step to pick it; there are as many stars as expert_misses. The last
 * token of an answer is computed only when the text continues. The draft layer's own rows have no
 * lines.
 *
 * A reader gets the lines of the steps that begin after it was opened: those of *owner's sessions,
 * or, if owner is NULL, of all. Every reader gets all lines; one that is too slow gets `lost N` in
 * place of N lines. told(ctx) is called from any thread when there are new lines, and when the
 * model becomes idle; it must not block, and is the same for all readers of a model. The model
 * outlives its readers. */
enum { TRACE_READ_BYTES = 64 << 10 };
int model_trace_open(struct trace_reader **out, struct model *m, const uint32_t *owner,
		     void (*told)(void *ctx), void *ctx, struct err *e);
void model_trace_close(struct trace_reader *t);
/* Reads whole lines; bytes >= TRACE_READ_BYTES. 0: there are none yet. */
size_t model_trace_read(struct trace_reader *t, char *buffer, size_t bytes);
bool model_trace_has_lines(const struct trace_reader *t);

/* Progress of the warm start, which reads experts before any prompt; total 0: none is under way. */
void model_warming(const struct model *m, uint32_t *done, uint32_t *total);

/* ---- kept prefixes: what conversations have computed, for others that begin alike ---- */

enum { MODEL_PREFIX_NAME = 40 };
struct model_prefix {
	uint64_t id;	   /* never given again */
	uint32_t owner;	   /* of the session that computed it (session_name) */
	uint32_t sessions; /* that share its memory */
	bool pinned;
	uint64_t text_bytes, own_bytes; /* of its text; memory that only this one holds */
	uint64_t used_ns;	      /* when a turn last took it over or left it, CLOCK_REALTIME */
	char name[MODEL_PREFIX_NAME]; /* position and hash: "2048-0123456789abcdef" */
};
/* Finds the prefix with the smallest id that is at least `id`, or the one that has this name.
 * Returns false if there is none. */
bool model_prefix_next(const struct model *m, uint64_t id, struct model_prefix *out);
bool model_prefix_named(const struct model *m, const char *name, struct model_prefix *out);
/* Its text, special tokens spelled out, malloc'ed; -ENOENT, -ENOMEM in words. */
int model_prefix_text(const struct model *m, uint64_t id, char **text, size_t *length,
		      struct err *e);
/* No longer kept: its memory goes with the last session that shares it. -ENOENT; -EBUSY: it is
 * pinned. */
int model_prefix_remove(struct model *m, uint64_t id, struct err *e);
/* It was used now, so it gives its memory up later. -ENOENT. */
int model_prefix_touch(struct model *m, uint64_t id, struct err *e);
/* Whether it keeps its memory whatever needs it. -ENOENT; -ENOSPC: pinned ones may hold half of the
 * contexts' budget. */
int model_prefix_pin(struct model *m, uint64_t id, bool pinned, struct err *e);

#endif
