/* A grammar that reads byte by byte, with a stack of rules to return to.
 *
 * Within one rule, the nodes where a reader may stand are one state of a deterministic
 * automaton, made when first needed (Rabin and Scott 1959). A called rule has its own state on
 * top of a stack. Stacks are lists that share their tails, so a position is copied as a few
 * numbers. If a text may stand on several stacks at once (alternatives that begin alike), all
 * are followed.
 *
 * All memory is bounded: GRAMMAR_MAX_STATES with at most GRAMMAR_MAX_ROWS transitions,
 * GRAMMAR_MAX_SETS nodes of states, GRAMMAR_MAX_STACKS: 56 MB, far more than usual grammars
 * need. A machine that reached a bound has failed and stays so; its results are then
 * meaningless. For one thread at a time. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_MACHINE_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_MACHINE_H

#include "engine/grammar/grammar_nodes.h"

enum {
	GRAMMAR_MAX_STATES = 1 << 16,
	GRAMMAR_MAX_ROWS = 1 << 22,
	GRAMMAR_MAX_SETS = 1 << 22,
	GRAMMAR_MAX_STACKS = 1 << 19,
	GRAMMAR_MAX_SPOTS = 32, /* positions of a text at once */
};

#define STATE_UNKNOWN UINT32_MAX
enum { STATE_DEAD, STACK_ANY = 0, STACK_END = 1 };
/* STACK_ANY: the caller is unknown. STACK_END: the bottom. */

struct machine_call {
	uint32_t rule, after; /* after: the state to return to; STATE_DEAD: the caller ends, too */
};
struct machine_level {
	uint32_t set, set_count; /* nodes, in sets */
	uint32_t calls, call_count;
	bool ends; /* the rule may end here */
	bool more; /* the rule may continue here */
	/* For grammar_mask.c: */
	bool looped;	/* the next two are known: */
	uint64_t loop;	/* groups of bytes that all lead */
	uint32_t along; /* to this state */
	uint8_t reach;	/* number of bytes of these groups that can follow; 0: not known */
	uint32_t mask;	/* 0: none yet */
};
struct stack {
	uint32_t after, below;
};
struct machine {
	struct grammar_nodes nodes;
	uint8_t class_of[256], byte_of[256]; /* classes of bytes, and a byte of each */
	uint32_t classes;
	struct machine_level *levels;
	uint32_t level_count, level_room;
	uint32_t *rows; /* [levels][classes]: next state, or STATE_UNKNOWN */
	size_t row_room;
	uint32_t *sets;
	uint32_t set_count, set_room;
	uint32_t *by_set; /* hash table of levels by set; open addressing, 0: free */
	uint32_t by_set_room;
	struct machine_call *calls;
	uint32_t calls_count, calls_room;
	uint32_t *starts; /* [rules]: first state */
	struct stack *stacks;
	uint32_t stack_count, stack_room;
	struct triple_table by_stack;
	uint32_t *seen, *todo, *found; /* scratch of a step, each at least [nodes] */
	uint32_t *alone; /* [nodes]: the state that each alone leads to, or STATE_UNKNOWN */
	uint32_t mark, found_count;
	uint32_t entered; /* rules entered by this step */
	uint64_t work;	  /* nodes visited to make states */
	int failed;	  /* 0 or a negative errno; error has the sentence */
	struct err error;
};

/* Takes over the nodes, even if it fails. */
int machine_init(struct machine *m, struct grammar_nodes *n, struct err *e);
void machine_free(struct machine *m);

/* A position of a text; copied by value. */
struct spot {
	uint32_t state, stack;
};
struct spots {
	uint32_t count;
	struct spot at[GRAMMAR_MAX_SPOTS];
};

void machine_begin(struct machine *m, struct spots *p);
/* Steps from one position by one byte; appends the new positions. */
void machine_step(struct machine *m, struct spot from, uint8_t byte, struct spots *to);
/* Steps all positions by bytes; false: no text continues like this. */
bool machine_read(struct machine *m, struct spots *p, const char *bytes, size_t n);
bool machine_may_end(const struct machine *m, const struct spots *p);
bool machine_may_go_on(const struct machine *m, const struct spots *p);

/* The state after a byte of a class, within the rule; STATE_DEAD: none. */
uint32_t machine_next(struct machine *m, uint32_t state, uint32_t class);
/* The first state of a rule. */
uint32_t machine_start(struct machine *m, uint32_t rule);
/* Pops a stack that is neither ANY nor END: the position after the rule. */
struct spot machine_return(const struct machine *m, uint32_t stack);
/* Sets the first failure; returns it (0: none) with its sentence. */
int machine_fail(struct machine *m, int code, const char *words);
int machine_error(const struct machine *m, struct err *e);

#endif
