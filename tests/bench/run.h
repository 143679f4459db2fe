/* moefs-bench run in two halves: run.c measures, run_report.c prints the results. */
#ifndef MOEFS_TESTS_BENCH_RUN_H
#define MOEFS_TESTS_BENCH_RUN_H

#include "engine/compute/sampler.h"
#include "engine/admin/observe.h"
#include "tests/bench/bench.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/disk.h"
#include "tests/bench/neighbours.h"

/* A round is a prefill, a decode from each position asked for, and perhaps the first of these again
 * with drafts to verify, and beside busy processes. */
enum { PREFILL, FIRST_DECODE, PHASES_MOST = FIRST_DECODE + 2 * LIST_MOST + 1 };
struct phase {
	const char *name;
	uint32_t tokens, position;
	uint32_t rows; /* of a step of a decode: the token's, and those of drafts that do not stand
			*/
	bool beside_busy;
};

/* No GPU. */
#define RUN_NO_GPU UINT32_MAX

struct run {
	struct effort effort;
	const char *directory, *quant, *kv, *store, *policy;
	uint64_t prompt, tokens, budget, chunk;
	uint64_t gpu, gpu_budget; /* gpu: RUN_NO_GPU, or a number of a GPU */
	struct number_list depths;  /* positions to decode from; none: the prompt's end */
	struct number_list verify;  /* rows of a step that verifies drafts */
	struct number_list answers; /* contexts that are answered together; none: one alone */
	bool busy, timeline, prompt_timeline;

	struct engine *engine;
	struct model *model;
	struct model_view view;
	struct context context;
	struct step_batch batch;
	struct neighbours neighbours;
	struct ceiling ceiling;
	struct disk disk; /* the experts' file, if they are not all resident; else fd is -1 */
	struct phase phase[PHASES_MOST];
	uint32_t longest_step;	  /* of a prompt, in tokens */
	uint32_t phases, deepest; /* deepest: the last position that any phase begins at */
	uint64_t random;
	double load_seconds, peak_mib;
	bool all_resident;
};

/* Bytes and operations per second; 0: not measured. */
struct ceilings {
	double memory, int8, disk;
};

struct round {
	double seconds[PHASES_MOST];	       /* PREFILL: until the prompt's token is drawn */
	double delta[PHASES_MOST];	       /* of the seconds, in delta nets (spent.h) */
	struct pager_stats pager[PHASES_MOST]; /* what the phase added */
	struct ceilings ceiling;	       /* at that time */
};

/* What one token reads and computes, by the plan; a draft layer is passed by. */
struct run_work {
	double dense_bytes, expert_bytes; /* of weights, as they lie in memory */
	double state_bytes;		  /* of recurrent states: read, and written */
	double key_bytes;		  /* of keys and values, for each position before it */
	double window, window_bytes;	  /* likewise of layers with a window, up to so many */
	double operations;		  /* of a prompt's token: without the output head */
};

struct run_work run_work_of(const struct run *r);

/* The routed layers that a token passes through: all but a draft's, which come last. */
uint32_t run_routed_layers(const struct model_view *m);

uint32_t run_random_token(struct run *r);
/* A context of the run's model that can go to any position. */
void run_context_init(const struct run *r, struct context *x);
/* Gives a context room for all positions of the run, and fills it. */
int run_fill_context(struct run *r, struct context *x, struct err *e);
/* As if the context held exactly this many tokens. The content of the positions does not matter. */
int run_go_to(struct run *r, struct context *x, uint32_t position, struct err *e);

/* Empties the run's batch. Its reader draws from each row's logits as decoding does, though random tokens continue. */
void run_clear_batch(struct run *r);

/* What is known of the model and of its loading. */
void run_report_facts(struct run *r, struct report *report, const struct run_work *w);
/* rounds[0] is the first round, in which memory still fills: it is reported by itself. After it
 * come as many as r->effort.rounds says. */
int run_report(struct run *r, const struct round *rounds, struct err *e);

#endif
