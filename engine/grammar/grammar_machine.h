/* A grammar as it reads: byte by byte, with a stack of rules to return to.
 *
 * Within one rule the places where a reader may stand become one state of an automaton without
 * choices, made when first needed (Rabin and Scott 1959); what a rule calls has a state of its own
 * on top of a stack. Stacks are lists that share what lies below, so to copy where a text stands is
 * to copy a few numbers. Where a text may stand on several stacks at once (alternatives that begin
 * alike), all are followed.
 *
 * All memory is bounded: GRAMMAR_MAX_STATES with at most GRAMMAR_MAX_ROWS numbers of where they
 * go, GRAMMAR_MAX_SETS of what they are, GRAMMAR_MAX_STACKS: 56 MB that no usual grammar comes
 * near. A machine that met a bound has failed, and stays so: nothing is true of what it says then.
 * For one thread at a time. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_MACHINE_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_MACHINE_H

#include "engine/grammar/grammar_nodes.h"

enum {
	GRAMMAR_MAX_STATES = 1 << 16,
	GRAMMAR_MAX_ROWS = 1 << 22,
	GRAMMAR_MAX_SETS = 1 << 22,
	GRAMMAR_MAX_STACKS = 1 << 19,
	GRAMMAR_MAX_SPOTS = 32, /* stacks that a text may stand on at once */
};

#define STATE_UNKNOWN UINT32_MAX
enum { STATE_DEAD, STACK_ANY = 0, STACK_END = 1 };
/* STACK_ANY is below what is not known, STACK_END below everything. */

struct machine_call {
	uint32_t rule, after; /* the state to return to; STATE_DEAD: what called it ends with it */
};
struct machine_level {
	uint32_t set, set_count; /* nodes, in sets */
	uint32_t calls, call_count;
	bool ends; /* the rule may end here */
	bool more; /* and may go on */
	/* Of grammar_mask.c: */
	bool looped;	/* this is known: */
	uint64_t loop;	/* groups of bytes that all lead to one state, */
	uint32_t along; /* this one */
	uint8_t reach;	/* any so many bytes of the groups can follow; 0: not known yet */
	uint32_t mask;	/* 0: none yet */
};
struct stack {
	uint32_t after, below;
};
struct machine {
	struct grammar_nodes nodes;
	uint8_t class_of[256], byte_of[256]; /* bytes that all nodes take alike */
	uint32_t classes;
	struct machine_level *levels;
	uint32_t level_count, level_room;
	uint32_t *rows; /* [levels][classes]: where it goes; STATE_UNKNOWN */
	size_t row_room;
	uint32_t *sets;
	uint32_t set_count, set_room;
	uint32_t *by_set; /* levels by their sets; open addressing, 0: free */
	uint32_t by_set_room;
	struct machine_call *calls;
	uint32_t calls_count, calls_room;
	uint32_t *starts; /* [rules]: the state that each begins with */
	struct stack *stacks;
	uint32_t stack_count, stack_room;
	struct triple_table by_stack;
	uint32_t *seen, *todo, *found; /* scratch of a step, each of [nodes] and more */
	uint32_t *alone; /* [nodes]: the state that each leads to by itself; STATE_UNKNOWN */
	uint32_t mark, found_count;
	uint32_t entered; /* rules, by this step */
	uint64_t work;	  /* nodes looked at to make states */
	int failed;	  /* 0 or a negative errno, with the sentence in error */
	struct err error;
};

/* Takes what nodes_build made, also where it fails. */
int machine_init(struct machine *m, struct grammar_nodes *n, struct err *e);
void machine_free(struct machine *m);

/* Where a text stands; copied as it is. */
struct spot {
	uint32_t state, stack;
};
struct spots {
	uint32_t count;
	struct spot at[GRAMMAR_MAX_SPOTS];
};

void machine_begin(struct machine *m, struct spots *p);
/* From one place by one byte: appends where that may lead. */
void machine_step(struct machine *m, struct spot from, uint8_t byte, struct spots *to);
/* From all of them by bytes; false: no text goes on like this. */
bool machine_read(struct machine *m, struct spots *p, const char *bytes, size_t n);
bool machine_may_end(const struct machine *m, const struct spots *p);
bool machine_may_go_on(const struct machine *m, const struct spots *p);

/* The state after a byte within the rule; STATE_DEAD: none. */
uint32_t machine_next(struct machine *m, uint32_t state, uint32_t class);
/* The state that a rule begins with. */
uint32_t machine_start(struct machine *m, uint32_t rule);
/* Where it goes on once a rule has ended: takes the top off a stack that is neither ANY nor END. */
struct spot machine_return(const struct machine *m, uint32_t stack);
/* The first failure counts; and what it was, 0: none. */
int machine_fail(struct machine *m, int code, const char *words);
int machine_error(const struct machine *m, struct err *e);

#endif
