/* The inside of struct engine, struct model and struct session, shared by the files that implement
 * model.h and session.h:
 *
 *     engine.c    what all models share            model.c     opening, closing, facts
 *     load.c      checkpoint or store to weights   model_look.c    looking at it
 *     load_store.c    where a store may be         generate.c  a model's generation thread
 *     load_convert.c  one that is made meanwhile   schedule.c  whose turn it is
 *     load_source.c   whether one is of the checkpoint as it is now
 *     load_place.c    a checkpoint that is its own
 *     check.c     what can be known of that at mount
 *     chunk.c     the steps of a prompt            decode.c    a turn's answer, step by step
 *     session.c   a conversation's public face     draft.c     what may follow, and by what
 *     step.c      one step of a turn               turn.c      what all steps of it do
 *
 * Locks, in the order in which they may be taken:
 *     model.notify   held while `changed` is called, so that session_end can wait for the call
 *     model.lock     every field marked (lock) of the model and of its sessions
 *     budgets' lock  inside its own functions, which take the pager's
 *     converter's lock, pager's lock, answer's lock   inside their own functions
 *     model.looking  read, under any other, while somebody looks at the experts in memory; written,
 *                    under none, when these come and go: a model may be loaded anew
 *     model.storing  the same of the complete store and its plan
 * The generation thread computes without any of them: the fields marked (turn) belong to it while
 * session.stepping is set and the session is not queued, to the holder of the lock else.
 */
#ifndef MOEFS_ENGINE_SERVE_INTERNAL_H
#define MOEFS_ENGINE_SERVE_INTERNAL_H

#include "engine/serve/answer.h"
#include "engine/memory/budgets.h"
#include "engine/text/chat.h"
#include "engine/source/checkpoint.h"
#include "engine/source/place.h"
#include "engine/serve/chunk.h"
#include "engine/serve/draft_meter.h"
#include "cache/clock.h"
#include "engine/convert/convert.h"
#include "engine/compute/drafter.h"
#include "engine/compute/forward.h"
#include "engine/model.h"
#include "engine/serve/params.h"
#include "engine/compute/repetition.h"
#include "engine/compute/sampler.h"
#include "engine/family/published.h"
#include "engine/session.h"
#include "engine/text/stream.h"

#include <pthread.h>

struct engine {
	struct engine_options options; /* strings are owned copies */
	bool chunk_automatic; /* options.chunk was not asked for: longer steps are allowed */
	struct recipe recipe;
	struct pager *pager;
	struct threads *threads;
	const struct kernels *kernels;
	struct context_budget context_budget;
	struct budgets budgets;		 /* what the pager and the contexts may take */
	_Atomic uint64_t largest_expert; /* in memory, of any model that was opened */
};

struct session_list { /* doubly linked through session.next and .previous */
	struct session *first, *last;
};

struct model {
	struct engine *engine;
	struct place place;
	const char *directory; /* the checkpoint's, absolute, or a GGUF file */
	const char *name;
	char *folders[2]; /* where its store may be, in order of preference; the second may be NULL
			   */
	_Atomic int folder;  /* which of them has it, or is being written */
	uint64_t config_sum; /* of config.json as it was when `config` was read */
	uint64_t parameters, active_parameters;
	struct config config;
	struct recipe recipe;	    /* the engine's, or what auto comes to here */
	const char *encoding;	    /* what the source's weights are in; NULL: 16 or 32 bits */
	struct published published; /* for plans, if the recipe is as published */
	uint32_t context;	    /* positions that a session may use */

	/* Written by the generation thread (or model_open) before the flag that announces them;
	 * under `storing` once it has. */
	pthread_rwlock_t storing;
	struct plan plan;
	struct budget_need need; /* the budgets' while the model is open */
	struct store *store;
	struct source_state
		looked; /* as the source was when `store` was opened; none if it was made */
	bool doubted;	/* a load, or a turn, failed: the store is opened anew */
	char codec_words[CODEC_WORDS]; /* what was measured if this mount made the store */
	_Atomic bool has_store;	       /* plan, codec_words and store, which is complete */
	uint64_t weights_sum;	       /* of the store's key: other weights, another sum */
	struct converter *converter;   /* while the store is not complete */
	struct tokenizer *tokenizer;
	struct chat *chat; /* NULL: the tokenizer has no chat tokens */
	struct weights weights;
	pthread_rwlock_t looking;
	struct pager_source *experts;	   /* (looking) NULL in a dense model */
	struct pager_stats experts_before; /* (looking) what its predecessors had counted */
	uint64_t heat_uses, heat_ns; /* uses of experts when their heat was kept, and the time */
	struct forward forward;
	struct batch batch;		/* of the step at hand */
	_Atomic bool drafts;		/* the checkpoint has a draft layer */
	struct draft_layer draft_layer; /* memory NULL: it has none */
	struct draft_meter draft_meter;
	struct budget_need scratch; /* what its long steps take; bytes 0: they are short */
	struct sampler sampler;
	_Atomic int state; /* enum model_state; READY announces all of these */

	struct convert_progress progress;
	_Atomic bool waiting;  /* for another process, which makes the store */
	_Atomic bool checking; /* progress is of reading the source, which may be another */
	_Atomic int norms;     /* enum norm_type: F32 once F16 did not do */
	_Atomic bool quit;     /* ends loading and the generation thread */

	pthread_mutex_t notify;
	pthread_mutex_t lock;
	pthread_cond_t work;	      /* (lock) something for the generation thread */
	pthread_cond_t loaded;	      /* (lock) loading has ended */
	bool load_wanted;	      /* (lock) */
	struct err load_error;	      /* (lock) */
	struct session_list runnable; /* (lock) sessions with a turn, in the order of their steps */
	uint32_t sessions;	      /* (lock) how many there are */
	pthread_t thread;
};

/* The turn in progress: the generation thread's own while it steps. */
struct turn {
	char *prompt;
	size_t prompt_length;
	struct params params;
	struct sampling sampling;
	struct repetition repetition; /* of ids */
	struct losses losses;
	bool chat;
	bool follow;	       /* the session's drafter goes along */
	size_t system_ids;     /* how many of ids are the system message */
	size_t recomputed;     /* that the context had held, but whose recurrent state it had not */
	struct token_list ids; /* all that the model is to see before it answers, and its answer */
	size_t prompt_ids;     /* how many of ids are not the answer */
	struct stream stream;
	struct pager_stats before; /* the model's counters when it began */
	uint64_t submitted_ns;
	bool begun;
};

struct undo_mark { /* lengths before a turn */
	size_t history;
	uint64_t log;
};

struct session {
	struct model *model;
	void *user;			 /* (notify); NULL: nobody to tell */
	struct session *next, *previous; /* in model.runnable */
	bool working;			 /* (lock) a turn is in progress */
	bool queued;			 /* (lock) in model.runnable */
	bool stepping;			 /* (lock) in the hands of the generation thread */
	bool ended;			 /* (lock) the owner is gone; freed after the step */
	_Atomic bool stop;		 /* asks a step to end early */

	enum session_status status; /* (lock) */
	struct err error;	    /* (lock) */
	struct params params;	    /* (lock) */
	char *prompt;		    /* (lock) the last one; NULL: none */
	size_t prompt_length;
	struct answer *answer; /* (lock) the newest; NULL: none */
	char *log;	       /* (lock) */
	size_t log_size, log_room;
	struct session_stats stats; /* (lock) */
	struct undo_mark *undo;	    /* (lock) one per turn */
	size_t undo_count, undo_room;

	struct turn turn; /* (turn), and so are these: */
	struct context context;
	struct drafter drafter;
	struct losses context_losses; /* that all of the context was computed with */
	uint64_t weights_sum;	      /* the model's when it was computed */
	struct token_list history;    /* the conversation's ids without the system message */
};

/* model_look.c: true: the complete store and its plan stay until they are released. A reader
 * that waits for the disk delays a load, but no other reader. */
bool model_hold_store(const struct model *m);
void model_release_store(const struct model *m);

/* check.c: what can be known at mount to fail when the model is loaded, in words. The files of the
 * folder, before any is read; and once it is known whether there is a store, the weights and the
 * place that making one takes. The latter finds out whether there is a draft layer. */
int check_files(const char *directory, struct err *e);
int check_store(struct model *m, struct err *e);

/* load_recipe.c: chooses m->recipe; finds the formats that a plan of it needs. */
int load_choose_recipe(struct model *m, struct err *e);
int load_published(struct model *m, struct err *e);

/* load_store.c */
int load_find_folders(struct model *m, struct err *e);
/* Opens a complete store if there is one, also in the place of one that is open; -ENOENT if it must
 * be made. read: the checkpoint may be read whole to tell whether the store is of it; without, a
 * store of which that is not known is left alone (-EAGAIN). */
int load_store(struct model *m, bool read, struct err *e);
/* Lets nobody see the store any more, which is to be made anew. */
void load_forget_store(struct model *m);
/* Whether the complete store's folder was removed or replaced. Blocks for the disk. */
bool load_store_is_gone(const struct model *m);
/* load_place.c: the source as its own store; -ENOTSUP: it has to be converted. */
int load_open_in_place(const struct model *m, const struct source_state *now, struct store **out,
		       struct plan *plan, struct err *e);
/* Before a store in place is read: makes the folder for what is kept of it, and takes what is
 * there. Where none can be made nothing is kept. Any other store is left alone. */
int load_keep_in_folder(struct model *m, struct err *e);
/* Keeps the checksums of what was read of it. */
void load_keep_sums(const struct model *m);
/* load.c, from the generation thread: everything up to READY, or undone again. */
int load_model(struct model *m, struct err *e);
void unload_model(struct model *m);
/* Keeps the heat of the experts beside the store, if they were used since it was last kept. */
void load_keep_heat(struct model *m);
/* load_source.c: the source as it is now, which its caller forgets; -EINVAL if its config.json is
 * no longer the model's. */
int load_look(const struct model *m, struct source_state *now, struct err *e);
int load_config_sum(const struct model *m, uint64_t *sum, struct err *e);
/* Whether the store in the folder, with this name in its key, is of this source. -ESTALE: it is of
 * another; -EAGAIN: only reading would tell, and `read` is false; others: that failed. */
int load_check_source(struct model *m, const char *folder, const uint64_t name[2],
		      const struct source_state *now, bool read, struct err *e);
struct witness_watch load_watch(struct model *m); /* shows checking as progress */
/* load_convert.c: the plan and a store that grows while the converter makes it, or a complete one.
 */
int load_by_converting(struct model *m, struct err *e);
/* load_folder.c: mkdir -p of everything above the folder itself. */
int load_make_parents(const char *folder, struct err *e);
/* Lets the conversion go on, or has it rest while the model has a turn. */
void load_let_convert(struct model *m, bool work);

/* generate.c */
int generate_start(struct model *m, struct err *e);
void generate_stop(struct model *m);

/* schedule.c */
/* Puts a session at the end of model.runnable, takes it out again (lock held). */
void session_queue(struct session *s);
void session_unqueue(struct session *s);
/* Tells the session's user that something changed. No lock may be held. */
void session_notify(struct session *s);

/* step.c: one step of a session's turn, without the lock. True while the turn goes on. */
bool turn_step(struct session *s);

/* turn.c: from the prompt's text to ids, and to what of the context stays. */
int turn_begin(struct session *s, struct err *e);
/* The forward pass of tokens that follow the context's, with the turn's losses, counted in the
 * stats; what follows an answer's first is drafted. all: where each row's logits go; NULL: the last
 * row's to forward.scratch.logits, if `want`. */
int turn_forward(struct session *s, const uint32_t *tokens, uint32_t n, enum row_kind kind,
		 bool want, float *all, struct err *e);
/* Ends the turn from a step; false, as a step returns that the turn is over. */
bool turn_over(struct session *s, const char *finish, int failed, const struct err *e);
/* Appends to the answer and to the log. */
int turn_give_out(struct session *s, const char *text, size_t n, struct err *e);
/* decode.c: draws the token after the prompt; and one step of the answer. As turn_step. */
bool decode_first(struct session *s);
bool decode_step(struct session *s);
/* draft.c */
struct draft {
	struct draft_choice choice;
	uint32_t tokens[DRAFT_MOST];
	double seconds; /* that it took, */
	double whole;	/* and with what the draft layer had missed */
};
/* Whether a turn wants the model's own draft layer to follow it. */
bool draft_follows(const struct session *s);
/* Before a step of such a turn, whose first token is `next`; and after one of its prompt. */
void draft_make_room(struct session *s, uint32_t next, enum row_kind kind);
void draft_follow_prompt(struct session *s, uint32_t n);
/* What may follow the last token. */
void draft_propose(struct session *s, struct draft *d);
/* After the step that verified it: how many tokens stood, and what the step took. */
void draft_count(struct session *s, const struct draft *d, uint32_t stood, double seconds);
/* Ends the turn (lock held): finish is a word of session_stats, failed 0 or a negative errno with
 * the sentence in e. */
void turn_end(struct session *s, const char *finish, int failed, const struct err *e);
void turn_free(struct turn *t);
/* Appends to the log (lock held). A log that cannot grow is cut: memory is too short for more. */
void session_log_append(struct session *s, const char *text, size_t n);
/* Frees a session that nothing refers to any more. */
void session_free(struct session *s);

#endif
