/* Models and the engine that they share: one of the two headers that fs/ and the benchmarks use
 * (the other is session.h).
 *
 * An engine owns what all mounted models share: the expert pool, the context budget and the compute
 * threads. A model is one checkpoint's folder, or a GGUF file. Opening a model reads config.json
 * and, if there is a store, its index. model_load or the first prompt loads the weights.
 *
 * Threads: every function may be called from any thread. A function whose comment says "Blocks" may
 * wait for the disk or for a computation; the others do not.
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

/* Which GPU computes models. GPU_OFF: none, and no driver is opened. GPU_AUTO: GPU 0 if there is
 * one. GPU_NUMBER + N: the driver's GPU N. */
enum { GPU_OFF, GPU_AUTO, GPU_NUMBER };

struct engine_options {
	uint64_t budget;	 /* bytes for experts; 0: automatic, from the free memory */
	uint64_t context_budget; /* bytes for contexts; 0: automatic, see memory/budgets.h */
	uint32_t context;	 /* positions per session; 0: the model's limit, at most 32 Ki */
	uint64_t offload;	 /* bytes of disk for contexts of idle sessions; 0: none */
	const char *remember;	/* folder of remembered answers; NULL: answers are not remembered */
	uint64_t remember_size; /* most bytes in that folder; 0: REMEMBER_DEFAULT */
	uint32_t threads;	/* 0: one per core */
	uint32_t chunk;		/* prompt tokens per step; 0: see model/chunk.h. Changes no text. */
	uint32_t step_ms;	/* most milliseconds that answers wait for a prompt's step; 0:
				   STEP_MS_DEFAULT */
	uint32_t share_all;	/* 1: sessions of different users share what they have computed */
	uint32_t idle;	   /* seconds without a prompt after which a model is unloaded; 0: never */
	bool finds_gpus;   /* main calls engine_gpu_serve: facts may look for GPUs */
	int gpu;	     /* GPU_OFF, GPU_AUTO, or GPU_NUMBER + N */
	uint64_t gpu_budget; /* bytes of the GPU's memory; 0: automatic, see gpu/gpu_budget.h */
	uint32_t refine;   /* 1: refine models while they are idle */
	const char *quant; /* auto (NULL: auto), 2bit … 8bit, tq2 … tq4 or bf16; see recipe.h */
	int exact;	   /* not 0: activations, keys, values and decoded weights are F32 */
	const char *kv;	   /* keys and values: f16, q8, q4, q8q4, or auto (NULL: auto): f16 */
	const char *codec; /* none, zstd or auto (NULL: auto); see recipe.h */
	const char *template_file; /* chat template of all models; NULL: each model's own */
	const char
		*store; /* folder for stores; NULL: beside the checkpoint, else the cache folder */
	/* Called whenever the answer, status or error of a session may have changed, from any
	 * thread, with no lock held. Must not block. user: the argument of session_create. May be
	 * NULL. */
	void (*changed)(void *ctx, void *user);
	void *ctx;
};

/* The memory limit of this process in bytes: the machine's memory, or the limit of the control
 * group if that is less. 0: unknown. Blocks: reads a few small files in /proc and /sys. */
uint64_t engine_memory(void);

/* Blocks (reads the memory limits). -ERANGE, -EINVAL: an option is wrong; the sentence names it. */
int engine_create(struct engine **out, const struct engine_options *options, struct err *e);
void engine_destroy(struct engine *g); /* after every model is closed */

/* GPUs are looked for in a process of its own: the program, run again (gpu/card_find.h). If this is
 * such a process, engine_gpu_serve looks, writes to standard output, and returns true: main ends
 * with *status. Call it first in main. */
bool engine_gpu_serve(int argc, char **argv, int *status);
/* Whether the GPU that `gpu` of the options asks for by its number can be opened, tried in a
 * process of its own. -ENODEV: it cannot; the sentence says why. Blocks. */
int engine_gpu_check(int gpu, struct err *e);

/* Sets the expert budget. The budget in force (pager_stats.budget) is less while memory is short
 * (budgets.h). Experts that no longer fit are evicted at once. -ERANGE: the largest expert or the
 * pinned experts would not fit. */
int engine_set_budget(struct engine *g, uint64_t bytes, struct err *e);
void engine_automatic_budget(struct engine *g);
uint64_t engine_budget_asked(const struct engine *g); /* 0: automatic */
int engine_set_context_budget(struct engine *g, uint64_t bytes, struct err *e);
void engine_automatic_context_budget(struct engine *g);
uint64_t engine_context_budget(const struct engine *g);
uint64_t engine_context_used(const struct engine *g);
/* The GPU's memory that models may take: the limit, of all of its uses together. Lower than what is
 * used: it is given back between two steps. -ERANGE: 0. */
int engine_set_gpu_budget(struct engine *g, uint64_t bytes, struct err *e);
void engine_automatic_gpu_budget(struct engine *g);
struct engine_gpu_stats {
	char name[96];		  /* of the card that was opened; empty: none was yet */
	uint64_t memory;	  /* bytes of the card */
	uint64_t budget;	  /* in force; 0 until a card was opened */
	uint64_t budget_asked;	  /* 0: automatic */
	uint64_t dense, contexts; /* bytes in use: weights that every token uses, contexts, */
	uint64_t expert_bytes;	  /* and experts */
	uint64_t experts;	  /* on the card */
	uint64_t hits;		  /* uses of experts on the card, each once a step and layer */
	uint64_t promotions;	  /* experts that were copied to it */
	struct err why;		  /* why nothing is computed on a GPU; code 0: that is not known */
};
void engine_gpu_stats(const struct engine *g, struct engine_gpu_stats *out);
/* Why a GPU that was in use, or that the options asked for by its number, is off; code 0: it is
 * not. That there is none for gpu=auto is no failure. */
void engine_gpu_failure(const struct engine *g, struct err *why);
/* Contexts on disk: the limit, and the bytes in use. */
uint64_t engine_offload(const struct engine *g);
uint64_t engine_offload_used(const struct engine *g);
/* Remembered answers: the limit and the bytes in use; all 0 without -o remember=. */
struct engine_remember {
	uint64_t most, used;
	struct err failure; /* of the last write; code 0: it succeeded */
};
void engine_remember(const struct engine *g, struct engine_remember *out);
/* Counters over all turns since the engine was created. They grow while turns are computed. */
struct engine_totals {
	uint64_t turns;	     /* turns that ended, scored and embedded texts included */
	uint64_t remembered; /* turns whose answer was on disk */
	uint64_t prompt_tokens, cached_tokens; /* all; those that were in a context already */
	uint64_t output_tokens;
};
void engine_totals(const struct engine *g, struct engine_totals *out);
void engine_cache_stats(const struct engine *g, struct pager_stats *out);
void engine_ahead_stats(const struct engine *g, struct pager_ahead out[AHEAD_LAYERS][AHEAD_RANKS]);
/* Frees memory that only running turns need. For an idle mount. */
void engine_rest(struct engine *g);
/* The replacement policy, as text (see pager_set_policy); "auto" is the default. */
int engine_set_policy(struct engine *g, const char *words, struct err *e);
void engine_policy(const struct engine *g, char words[PAGER_POLICY_TEXT]);

/* Whether a path is a model: a checkpoint's folder (with a config.json), a GGUF file or its first
 * part, a folder with one such file, a model in a Hugging Face cache, or an ollama manifest.
 * -ENOENT: there is no model at the path; other codes: the model is incomplete, or there are
 * several. Blocks. */
int model_locate(const char *path, struct err *e);

/* ---- models that other programs keep ----
 *
 * The folders of ollama and LM Studio, Hugging Face caches and llama.cpp's cache. Environment
 * variables and the programs' defaults say where they are (engine/library/library.c). moefs never
 * writes there. */

struct library_model {
	char *name;	    /* NULL: the path is a folder that cannot be read */
	char *publisher;    /* NULL: unknown */
	char *path;	    /* for model_open: a folder, a GGUF file or an ollama manifest */
	const char *keeper; /* static: "ollama's folder" */
	char *why; /* why it cannot be opened, judged by file names; NULL: no problem found */
};
struct library_list { /* zero-initialised, freed with library_free */
	struct library_model *models;
	size_t count;
	char **folders; /* folders that were searched; after library_folders all known folders */
	size_t folder_count;
	bool failed; /* memory ran out */
};
/* Lists the folders, not their models. */
int library_folders(struct library_list *l, struct err *e);
/* Adds the models in one folder of another program. -ENOENT, without a sentence: not a folder of a
 * known program. Blocks: reads file names, the first bytes of files, and manifests. */
int library_look(struct library_list *l, const char *folder, struct err *e);
/* Makes the names unique: models with equal names become PUBLISHER-NAME, and get a number if these
 * are equal, too. Call it once, after the last library_look. */
int library_name(struct library_list *l, struct err *e);
void library_free(struct library_list *l);
/* Whether a model can be opened, judged by file headers. Reads no weights, converts nothing and
 * writes nothing. Blocks. */
int model_glance(const char *path, struct err *e);

/* Reports on the model at a path, as `key value` lines: format, family, encodings, tokenizer and
 * template, and the disk space and memory that it needs with the engine's options. *text is
 * malloc'ed, also after every error but -ENOMEM. The last line is "mountable yes" or "mountable
 * no". With "no", the error says what is missing or wrong, as model_open or loading the tokenizer
 * would. Reads no weights except the samples that identify a store. Writes nothing. Blocks. */
int model_check(struct engine *g, const char *path, char **text, size_t *length, struct err *e);

/* Blocks: reads a few small files and, if there is no store, the headers of the weights. Missing
 * files or tensors, or no folder for a store, are errors now, not when the model is loaded. The
 * engine must outlive the model. */
int model_open(struct model **out, struct engine *g, const char *path, struct err *e);
/* Opens the tokenizer, as loading does, so that an unusable tokenizer is an error now. keep: keep
 * the tokenizer open for loading. Blocks. Call it before other threads use the model. */
int model_check_tokenizer(struct model *m, bool keep, struct err *e);
/* Asks loading, converting and refining to stop, and returns at once. Only model_close may be
 * called afterwards. A process that ends calls this for all its models before it closes the first.
 */
void model_end_background(struct model *m);
/* Stops loading and frees the model. End all its sessions before. Blocks until the layer that is
 * being computed is done. The next mount resumes an interrupted conversion. */
void model_close(struct model *m);

/* The name of the checkpoint's folder, of the model in a Hugging Face cache, or of the GGUF file
 * without its extension. */
const char *model_name(const struct model *m);
/* The text of config.json, or one made from the keys of a GGUF file; malloc'ed. Blocks. */
int model_config(const struct model *m, char **text, size_t *length, struct timespec *modified,
		 struct err *e);

/* Example questions, one per line: the first 12 of the checkpoint's examples.txt. Lines that are
 * too long, not UTF-8, or have control characters are left out. Empty if there is no such file, and
 * for a GGUF file. malloc'ed; NULL: out of memory. Blocks. */
char *model_examples(const struct model *m);

enum model_state { MODEL_UNLOADED, MODEL_LOADING, MODEL_READY, MODEL_FAILED };
enum model_state model_state(const struct model *m);
/* Starts loading the weights in the background. After a failure it tries again. */
void model_load(struct model *m);
/* Starts loading, and blocks until loading succeeds (0) or fails. */
int model_wait(struct model *m, struct err *e);
/* Frees weights and experts, and stops a load in progress. The tokenizer stays open. Sessions keep
 * their contexts. Their next turn loads the model again and gives the same text, to the bit. A
 * conversion continues with the next load. Blocks until the step in progress and reads of experts
 * end. -EBUSY: a session has a turn in progress. */
int model_unload(struct model *m, struct err *e);
/* Whether any session has a turn in progress. */
bool model_working(const struct model *m);
/* Adds the number of the users' sessions to *sessions, and the number of those with a turn in
 * progress to *working. */
void model_count_sessions(const struct model *m, uint32_t *sessions, uint32_t *working);
/* Why loading or converting failed; code 0: neither failed. */
void model_failure(const struct model *m, struct err *e);
/* The sentence of model_failure; empty: no failure. */
void model_error(const struct model *m, char *text,
		 size_t size); /* The same for refining while idle. A failed refinement is tried
again when the model is idle again. */
void model_refining_failure(const struct model *m, struct err *e);
void model_refining_error(const struct model *m, char *text, size_t size);

/* model_encode and model_decode need only the tokenizer, and open it if it is not open. They return
 * a complete answer (session.h). If the text is refused, reading the answer fails with e's code.
 * NULL: out of memory. They block in proportion to the text, and end early if *stop becomes true.
 *
 * Encodes text[length], without one trailing newline, to token ids, one per line. Special tokens
 * written in the text are encoded as special tokens. The text is encoded like a prompt without
 * chat, except that no begin-of-text token is added. -EILSEQ: not UTF-8. */
struct answer *model_encode(struct model *m, const char *text, size_t length,
			    const _Atomic bool *stop, struct err *e);
/* Decodes decimal ids, separated by spaces or newlines, to text and a newline. Special tokens are
 * written out. The space that a tokenizer adds before a text is left out. Decoding the result of
 * model_encode gives the text back, except for characters that the tokenizer normalises. -EINVAL:
 * not an id; -ERANGE: the vocabulary has no such token. */
struct answer *model_decode(struct model *m, const char *text, size_t length,
			    const _Atomic bool *stop, struct err *e);

/* Refines the model: makes a better store of the same size. The model reads a text, and every
 * matrix is rounded again for the inputs that it had on this text (engine/admin/model_refine.c).
 * The store in use does not change; the next mount uses the new one. After an interruption, the
 * next call with the same request continues. Blocks for minutes to hours. -ENOTSUP: the source's
 * weights do not have 16 or 32 bits, or the store has no quantised weights; -ECANCELED: the model
 * is being closed, or `idle` is set and a turn began. */
struct model_refining {
	const char *text; /* UTF-8; NULL: the model writes the text itself */
	size_t length;
	uint64_t tokens; /* most tokens of the text, rounded up to a whole window */
	bool idle;	 /* let turns of sessions go first */
	/* The recipe of the better store; NULL: the recipe that the model is open with. The model
	 * writes and reads the text with the recipe that it is open with. */
	const char *quant;
};
/* Which recipe to open the model with in order to refine it. A model of few bits writes other texts
 * than the checkpoint, and its matrices get other inputs, so a store of more bits reads the text.
 * *quant becomes the recipe of the store to refine, for struct model_refining. NULL: the model's
 * own recipe will do, or the model is refined already. */
const char *model_refining_reader(const struct model *m, const char **quant);
int model_refine(struct model *m, const struct model_refining *r, struct err *e);
/* Checks the request's text without a model: -EILSEQ or -EINVAL, with the position. */
int model_refining_check(const struct model_refining *r, struct err *e);
/* Allows refining while the model is loaded and idle, if the engine's options ask for it. Call it
 * once, after model_open. */
int model_refine_idle(struct model *m, struct err *e);

/* Measures the loss of the store in use against its checkpoint, for info/loss, and saves the result
 * beside the store. The model writes a text of 2,048 tokens for this (engine/admin/loss_compare.h).
 * Reads the whole checkpoint. Blocks. idle: -ECANCELED if a turn begins. -ENOTSUP: there is nothing
 * to measure. */
int model_measure_loss(struct model *m, bool idle, struct err *e);

/* Progress of background work; total 0: there is none. Some of the work goes on while the model is
 * ready. */
struct model_progress {
	/* "idle", "converting", "reading" (dense weights into memory), "waiting" (for another
	 * process that converts), "checking" (the checkpoint's files have other times than those
	 * noted in the store, so their contents are compared with the store's notes), "stopped"
	 * (converting failed: model_error), "writing" (a text for refining), "gathering" (the
	 * inputs of some layers), "refining" (the same layers), "refining stopped"
	 * (model_refining_error), "measuring" (the store's loss). */
	const char *doing;
	uint64_t done, total; /* bytes of the source; writing: tokens; measuring: layers */
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
	FACT_ACTIVE_PARAMETERS, /* parameters used for one token */
	FACT_BITS_PER_WEIGHT,	/* average over the store, with embeddings and norms */
	FACT_CONTEXT,		/* positions a session may use */
	FACT_CONTEXT_BYTES,	/* bytes of a full session, with checkpoints */
	FACT_KV, /* type of keys and values, and the size of a session with other types */
	FACT_MAX_PROMPT_BYTES,
	FACT_DEFAULTS, /* a line for each key of generation_config.json: used or ignored */
	FACT_FORMAT,   /* "3bit", "as published: GGUF, in place" */
	FACT_RECIPE,   /* the same, and the rule that chose it, if no recipe was asked for */
	FACT_LOSS,     /* the store's loss: lines of names and values; or why it is unknown */
	FACT_CODEC,    /* "none" or "zstd 0.67", with the measurement if this mount chose */
	FACT_SOURCE,   /* path of the checkpoint's folder or GGUF file */
	FACT_STORE,    /* path of the store's folder */
	FACT_STATE,    /* unloaded, loading, ready, failed */
	FACT_PROGRESS, /* "idle", or "converting 42 % 12.6/30.1 MB 3 s left", or "checking 43 % …"
			*/
	FACT_TEMPLATE, /* where the chat template comes from, or why there is none */
	FACT_EMBEDDING,	  /* "last token, normalised (modules.json)" */
	FACT_KERNELS,	  /* the next four, a line for each */
	FACT_CPU_KERNELS, /* the kernel table in use */
	FACT_GPU_KERNELS, /* GPU kernels in the program: which compilers, for which cards */
	FACT_GPU,	  /* the GPU, why there is none, or that it is not known yet */
	FACT_COMPUTES,	  /* whether the GPU or the CPU computes the model, and why not the GPU */
	FACT_LEFT_OUT,	  /* unused parts of the checkpoint: names, tensors, bytes */
	FACT_NGRAMS,	  /* n-gram tables: size, bytes in memory, rows read */
	FACT_COUNT
};
int model_fact(const struct model *m, enum model_fact fact, char *text, size_t size);
/* Looks for the GPU of the engine's options, so that FACT_GPU is known. Later calls return at once.
 * Blocks, for seconds. */
void model_find_gpu(const struct model *m);
uint64_t model_max_prompt_bytes(const struct model *m);

/* Whether the checkpoint that a store was made from still exists, according to the notes beside the
 * store (cache/store_inspect.h tells the rest about a store). path[size] gets the checkpoint's
 * path; empty if unknown. Blocks: reads at most 1 MiB of each file. */
enum store_of {
	STORE_OF_SAME,	  /* all files have the noted sizes and times */
	STORE_OF_TOUCHED, /* the sizes are the same, the times are not */
	STORE_OF_CHANGED,
	STORE_OF_GONE,
	STORE_OF_UNKNOWN, /* the store has no notes */
};
enum store_of model_store_of(const char *folder, char *path, size_t size);

/* Inspecting experts. These functions load no expert and do not count as a use. */
uint32_t model_layers(const struct model *m);
uint32_t model_experts(const struct model *m, uint32_t layer); /* 0: a dense layer */
/* Bytes of one expert of a routed layer as stored, after decompression; 0 until the store is
 * complete. */
uint64_t model_expert_bytes(const struct model *m, uint32_t layer);
struct model_expert {
	bool resident, pinned;	     /* in main memory; to be kept there */
	bool on_gpu, gpu_pinned;     /* the same of the GPU. An expert may be in both. */
	uint64_t bytes, gpu_bytes;   /* in main memory, on the GPU; 0 if it is not there */
	uint64_t hits, misses;	     /* hits: uses in main memory or on the GPU */
	uint64_t last_token;	     /* number of the token that used it last */
	uint64_t last_used;	     /* CLOCK_REALTIME nanoseconds, 0 if never */
};
void model_expert_inspect(const struct model *m, uint32_t layer, uint32_t expert,
			  struct model_expert *out);
/* Blocks (reads the disk). Returns bytes read, 0 past the end, or a negative errno. */
int64_t model_expert_read(const struct model *m, uint32_t layer, uint32_t expert, uint64_t offset,
			  void *buffer, size_t bytes, struct err *e);

/* Tensors by their published names, as NumPy files of F32 in the published shape. The values are
 * those that the model computes with: quantised weights of the store are decoded. No expert is
 * loaded for this. */

/* Makes the list of tensors, sorted by name, unless it exists. Reads headers. Blocks. */
int model_tensors_open(struct model *m, struct err *e);
bool model_tensors_are_open(const struct model *m);
size_t model_tensors(const struct model *m); /* 0 until the list is made */
const char *model_tensor_name(const struct model *m, size_t i);
bool model_tensor_find(const struct model *m, const char *name, size_t *i);
uint64_t model_tensor_bytes(const struct model *m,
			    size_t i); /* of its NumPy file; 0: no such tensor */
/* Blocks (reads the disk, and decodes). Returns bytes read, 0 past the end, or a negative errno. */
int64_t model_tensor_read(const struct model *m, size_t i, uint64_t offset, void *buffer,
			  size_t bytes, struct err *e);

/* All experts of a layer together. */
struct model_layer {
	uint32_t experts, resident, pinned, on_gpu;
	uint64_t bytes, gpu_bytes; /* in main memory, on the GPU */
	uint64_t hits, misses;
	uint64_t last_used; /* when any of its experts was used last */
};
void model_layer_inspect(const struct model *m, uint32_t layer, struct model_layer *out);
struct model_gpu { /* the model's experts on the GPU */
	uint64_t experts, bytes;
	uint64_t hits; /* since the model was mounted */
};
void model_gpu_inspect(const struct model *m, struct model_gpu *out);

/* Each of these five takes n distinct experts, with layer numbers of the model. It succeeds for all
 * of them or changes nothing, and returns at once: absent experts are read in the background. If
 * the model is not loaded, pins and loads are remembered, and loading starts.
 *
 * Pin: keeps the experts in memory while the model is mounted, whatever the policy. If memory gets
 * too short for pinned experts, they are evicted last and read again first. -ENOSPC: the experts do
 * not fit into the budget together with the experts of one token. Load: reads the experts; the
 * policy may evict them like any others. -ENOSPC as for pin. Evict: evicts the experts from main
 * memory, except those that the step in progress needs. -EBUSY: some are pinned. Pin_gpu: keeps the
 * experts on the GPU; those that are elsewhere get there while the model computes, in the
 * background. -ENOSPC: the GPU has no room for these and the ones that are pinned there; -ENODEV: the
 * GPU does not compute this model. Pins of an unloaded model that find no room when it is loaded
 * have no effect. Unpin: ends both kinds of pins. */
int model_experts_pin(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_pin_gpu(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_unpin(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_load(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
int model_experts_evict(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
/* The counters of this model. The field `budget` is that of the whole pool. */
void model_cache_stats(const struct model *m, struct pager_stats *out);

/* ---- the trace: the experts that the router picks for each token ----
 *
 * One line per token and layer with experts, in the order of computation:
 *
 *     SESSION POSITION KIND LAYER EXPERT…
 *
 * SESSION is the name set by session_name. POSITION is the token's position in the context, from 0.
 * KIND is prompt, answer, or draft (a rejected draft). LAYER has at least two digits, EXPERT at
 * least three. Experts are in descending order of weight. A star after EXPERT: the expert was not
 * in memory and was read for this token, the first token of its step that needs it. The number of
 * stars equals expert_misses. A plus: the expert was on the GPU. The last token of an answer is
 * computed only if the conversation continues. The draft layer itself is not traced.
 *
 * A reader gets the lines of steps that begin after it was opened: those of the sessions of *owner,
 * or of all sessions if owner is NULL. A reader that is too slow gets `lost N` in place of N lines.
 * told(ctx) is called from any thread when there are new lines and when the model becomes idle. It
 * must not block, and must be the same for all readers of a model. The model must outlive its
 * readers. */
enum { TRACE_READ_BYTES = 64 << 10 };
int model_trace_open(struct trace_reader **out, struct model *m, const uint32_t *owner,
		     void (*told)(void *ctx), void *ctx, struct err *e);
void model_trace_close(struct trace_reader *t);
/* Reads whole lines; bytes must be at least TRACE_READ_BYTES. 0: no lines yet. */
size_t model_trace_read(struct trace_reader *t, char *buffer, size_t bytes);
bool model_trace_has_lines(const struct trace_reader *t);

/* Progress of the warm start, which reads experts before the first prompt; total 0: no warm start
 * is running. */
void model_warming(const struct model *m, uint32_t *done, uint32_t *total);

/* ---- kept prefixes: computed beginnings of conversations, for other conversations that begin the
 * same way ---- */

enum { MODEL_PREFIX_NAME = 40 };
struct model_prefix {
	uint64_t id;	   /* never reused */
	uint32_t owner;	   /* of the session that computed it (session_name) */
	uint32_t sessions; /* sessions that share its memory */
	bool pinned;
	uint64_t text_bytes, own_bytes; /* of the text; of unshared memory */
	uint64_t used_ns;		/* when a turn last used or saved it, CLOCK_REALTIME */
	char name[MODEL_PREFIX_NAME];	/* position and hash: "2048-0123456789abcdef" */
};
/* model_prefix_next finds the prefix with the smallest id that is at least `id`; model_prefix_named
 * the prefix with this name. Return false if there is none. */
bool model_prefix_next(const struct model *m, uint64_t id, struct model_prefix *out);
bool model_prefix_named(const struct model *m, const char *name, struct model_prefix *out);
/* The prefix's text with special tokens written out, malloc'ed. -ENOENT, -ENOMEM. */
int model_prefix_text(const struct model *m, uint64_t id, char **text, size_t *length,
		      struct err *e);
/* Removes the prefix. Its memory is freed when no session shares it any more. -ENOENT; -EBUSY: the
 * prefix is pinned. */
int model_prefix_remove(struct model *m, uint64_t id, struct err *e);
/* Marks the prefix as used now, so that its memory is reclaimed later. -ENOENT. */
int model_prefix_touch(struct model *m, uint64_t id, struct err *e);
/* Pins or unpins the prefix. The memory of a pinned prefix is not reclaimed. -ENOENT; -ENOSPC:
 * pinned prefixes would hold more than half of the context budget. */
int model_prefix_pin(struct model *m, uint64_t id, bool pinned, struct err *e);

#endif
