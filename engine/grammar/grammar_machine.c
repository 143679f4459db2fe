#include "engine/grammar/grammar_machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ENTERED_MAX = 1 << 12 }; /* rules that one byte may enter */

static int out_of_memory(struct machine *m)
{
	return machine_fail(m, ENOMEM, "out of memory for a grammar");
}

/* ---- stacks ---- */

static uint32_t push(struct machine *m, uint32_t after, uint32_t below)
{
	if (after == STATE_DEAD || m->failed)
		return below;
	uint32_t *place = triple_find(&m->by_stack, (struct triple){after, below, 0});
	if (place && *place != TRIPLE_NEW)
		return *place;
	if (m->stack_count >= GRAMMAR_MAX_STACKS) {
		machine_fail(m, E2BIG, "the text nests too deep for its grammar");
		return below;
	}
	struct stack *stacks = grown(m->stacks, m->stack_count, &m->stack_room, sizeof *stacks);
	if (!place || !stacks) {
		out_of_memory(m);
		return below;
	}
	m->stacks = stacks;
	m->stacks[m->stack_count] = (struct stack){after, below};
	*place = m->stack_count;
	return m->stack_count++;
}

struct spot machine_return(const struct machine *m, uint32_t stack)
{
	return (struct spot){m->stacks[stack].after, m->stacks[stack].below};
}

/* ---- reading ---- */

static void too_ambiguous(struct machine *m)
{
	machine_fail(m, E2BIG,
		     "the grammar is too ambiguous: too many of its alternatives begin alike");
}

static void add_place(struct machine *m, struct spots *to, struct spot p)
{
	for (uint32_t i = 0; i < to->count; i++)
		if (to->at[i].state == p.state && to->at[i].stack == p.stack)
			return;
	if (to->count == GRAMMAR_MAX_SPOTS)
		too_ambiguous(m);
	else
		to->at[to->count++] = p;
}

/* Within the rule, and in those that it calls first: GRAMMAR_MAX_LEFT deep at most. */
static void step_in(struct machine *m, struct spot from, uint8_t byte, struct spots *to)
{
	uint32_t next = machine_next(m, from.state, m->class_of[byte]);
	if (next != STATE_DEAD)
		add_place(m, to, (struct spot){next, from.stack});
	for (uint32_t i = 0; i < m->levels[from.state].call_count && !m->failed; i++) {
		uint32_t call = m->levels[from.state].calls + i, rule = m->calls[call].rule;
		if (!rule_begins(&m->nodes.rules[rule], byte))
			continue;
		if (++m->entered > ENTERED_MAX)
			too_ambiguous(m);
		uint32_t after = machine_after(m, from.state, call), start = machine_start(m, rule);
		step_in(m, (struct spot){start, push(m, after, from.stack)}, byte, to);
	}
}

void machine_step(struct machine *m, struct spot from, uint8_t byte, struct spots *to)
{
	m->entered = 0;
	while (!m->failed) {
		step_in(m, from, byte, to);
		if (!m->levels[from.state].ends || from.stack <= STACK_END)
			return;
		from = machine_return(m, from.stack);
	}
}

bool machine_read(struct machine *m, struct spots *p, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n && p->count; i++) {
		struct spots to = {0};
		for (uint32_t k = 0; k < p->count; k++)
			machine_step(m, p->at[k], (uint8_t)bytes[i], &to);
		*p = to;
	}
	return p->count && !m->failed;
}

void machine_begin(struct machine *m, struct spots *p)
{
	*p = (struct spots){.count = 1, .at = {{machine_start(m, 0), STACK_END}}};
}

bool machine_may_end(const struct machine *m, const struct spots *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		struct spot at = p->at[i];
		while (m->levels[at.state].ends && at.stack != STACK_END)
			at = machine_return(m, at.stack);
		if (m->levels[at.state].ends)
			return true;
	}
	return false;
}

bool machine_may_go_on(const struct machine *m, const struct spots *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (m->levels[p->at[i].state].more || p->at[i].stack != STACK_END)
			return true;
	return false;
}

/* ---- life ---- */

/* Bytes that no node tells apart are one class. */
static void find_classes(struct machine *m)
{
	bool cut[257] = {[0] = true};
	for (uint32_t i = 0; i < m->nodes.count; i++) {
		const struct node *x = &m->nodes.nodes[i];
		if (x->kind == NODE_BYTES && x->live)
			cut[x->least] = cut[x->most + 1] = true;
	}
	for (uint32_t i = 0; i < 256; i++) {
		if (cut[i])
			m->byte_of[m->classes++] = (uint8_t)i;
		m->class_of[i] = (uint8_t)(m->classes - 1);
	}
}

int machine_init(struct machine *m, struct grammar_nodes *n, struct err *e)
{
	*m = (struct machine){.nodes = *n};
	*n = (struct grammar_nodes){0};
	find_classes(m);
	m->seen = calloc(m->nodes.count, sizeof *m->seen);
	m->todo = malloc((2 * (size_t)m->nodes.count + 1) * sizeof *m->todo);
	m->found = malloc(m->nodes.count * sizeof *m->found);
	m->alone = malloc(m->nodes.count * sizeof *m->alone);
	m->starts = malloc(m->nodes.rule_count * sizeof *m->starts);
	m->stacks = calloc(64, sizeof *m->stacks);
	m->stack_room = 64;
	m->stack_count = STACK_END + 1;
	if (!m->seen || !m->todo || !m->found || !m->alone || !m->starts || !m->stacks)
		out_of_memory(m);
	if (!m->failed) {
		memset(m->alone, 0xff, m->nodes.count * sizeof *m->alone);
		memset(m->starts, 0xff, m->nodes.rule_count * sizeof *m->starts);
		levels_begin(m);
		machine_start(m, 0);
	}
	if (!m->failed)
		return 0;
	if (e)
		*e = m->error;
	int failed = m->failed;
	machine_free(m);
	return failed;
}

void machine_free(struct machine *m)
{
	nodes_free(&m->nodes);
	free(m->levels);
	free(m->rows);
	free(m->sets);
	free(m->by_set);
	free(m->calls);
	free(m->starts);
	free(m->stacks);
	triple_free(&m->by_stack);
	free(m->seen);
	free(m->todo);
	free(m->found);
	free(m->alone);
	*m = (struct machine){0};
}
