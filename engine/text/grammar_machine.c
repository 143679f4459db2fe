#include "engine/text/grammar_machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	WORK_MAX = 1 << 28,    /* nodes looked at in a machine's life: seconds at most */
	ENTERED_MAX = 1 << 12, /* rules that one byte may enter */
};

int machine_fail(struct machine *m, int code, const char *words)
{
	if (!m->failed)
		m->failed = err_set(&m->error, code, "%s", words);
	return m->failed;
}

static int out_of_memory(struct machine *m)
{
	return machine_fail(m, ENOMEM, "out of memory for a grammar");
}

static int too_large(struct machine *m)
{
	return machine_fail(m, E2BIG,
			    "the grammar has too many states; make it simpler, or its bounds "
			    "smaller");
}

/* ---- states: sets of nodes ---- */

/* Adds a node, or where it leads without a byte, to the set that is being made. */
static void find(struct machine *m, uint32_t from)
{
	const struct grammar_nodes *n = &m->nodes;
	uint32_t left = 0;
	m->todo[left++] = from;
	while (left) {
		uint32_t at = m->todo[--left];
		const struct node *x = &n->nodes[at];
		if (m->seen[at] == m->mark || !x->live)
			continue;
		m->seen[at] = m->mark;
		m->work++;
		if (x->kind != NODE_SPLIT)
			m->found[m->found_count++] = at;
		if (x->kind == NODE_SPLIT)
			m->todo[left++] = x->other;
		if (x->kind == NODE_SPLIT || (x->kind == NODE_CALL && n->rules[x->other].empties))
			m->todo[left++] = x->next;
	}
}

static void find_nothing(struct machine *m)
{
	m->found_count = 0;
	if (!++m->mark) {
		memset(m->seen, 0, m->nodes.count * sizeof *m->seen);
		m->mark = 1;
	}
}

static int by_number(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
	return (a > b) - (a < b);
}

static uint32_t sum_of(const uint32_t *set, uint32_t n)
{
	uint64_t sum = n;
	for (uint32_t i = 0; i < n; i++)
		sum = (sum ^ set[i]) * 0x9e3779b97f4a7c15u, sum ^= sum >> 31;
	return (uint32_t)(sum >> 32);
}

static uint32_t *place_of_set(struct machine *m, const uint32_t *set, uint32_t n)
{
	uint32_t i = sum_of(set, n) & (m->by_set_room - 1);
	for (; m->by_set[i]; i = (i + 1) & (m->by_set_room - 1)) {
		const struct level *l = &m->levels[m->by_set[i]];
		if (l->set_count == n && !memcmp(m->sets + l->set, set, n * sizeof *set))
			break;
	}
	return &m->by_set[i];
}

static bool grow_by_set(struct machine *m)
{
	uint32_t room = m->by_set_room ? 2 * m->by_set_room : 256;
	uint32_t *wider = calloc(room, sizeof *wider);
	if (!wider)
		return false;
	free(m->by_set);
	m->by_set = wider;
	m->by_set_room = room;
	for (uint32_t i = 1; i < m->level_count; i++)
		*place_of_set(m, m->sets + m->levels[i].set, m->levels[i].set_count) = i;
	return true;
}

static bool grow_sets(struct machine *m, uint32_t n)
{
	while (m->set_room - m->set_count < n) {
		uint32_t *sets = grown(m->sets, m->set_room, &m->set_room, sizeof *sets);
		if (!sets)
			return false;
		m->sets = sets;
	}
	return true;
}

static bool grow_rows(struct machine *m)
{
	size_t need = (size_t)(m->level_count + 1) * m->classes;
	if (need <= m->row_room)
		return true;
	size_t room = 2 * need + 1024;
	uint32_t *rows = realloc(m->rows, room * sizeof *rows);
	if (!rows)
		return false;
	m->rows = rows;
	m->row_room = room;
	return true;
}

/* A new level of the nodes found. */
static uint32_t add_level(struct machine *m)
{
	uint32_t n = m->found_count, id = m->level_count;
	if (id >= GRAMMAR_MAX_STATES || m->set_count + n > GRAMMAR_MAX_SETS ||
	    (size_t)(id + 1) * m->classes > GRAMMAR_MAX_ROWS || m->work > WORK_MAX) {
		too_large(m);
		return STATE_DEAD;
	}
	struct level *levels = grown(m->levels, id, &m->level_room, sizeof *levels);
	if (levels)
		m->levels = levels;
	if (!levels || !grow_sets(m, n) || !grow_rows(m)) {
		out_of_memory(m);
		return STATE_DEAD;
	}
	struct level *l = &m->levels[id];
	*l = (struct level){.set = m->set_count, .set_count = n};
	if (n)
		memcpy(m->sets + m->set_count, m->found, n * sizeof *m->found);
	m->set_count += n;
	m->level_count++;
	for (uint32_t c = 0; c < m->classes; c++)
		m->rows[(size_t)id * m->classes + c] = n ? STATE_UNKNOWN : STATE_DEAD;
	for (uint32_t i = 0; i < n; i++) {
		const struct node *x = &m->nodes.nodes[m->found[i]];
		l->ends |= x->kind == NODE_END;
		l->more |= x->kind != NODE_END;
	}
	return id;
}

static void add_calls(struct machine *m, uint32_t state);

/* The level of the nodes found. */
static uint32_t level_of_found(struct machine *m)
{
	if (!m->found_count || m->failed)
		return STATE_DEAD;
	if (2 * m->level_count >= m->by_set_room && !grow_by_set(m)) {
		out_of_memory(m);
		return STATE_DEAD;
	}
	qsort(m->found, m->found_count, sizeof *m->found, by_number);
	uint32_t *place = place_of_set(m, m->found, m->found_count);
	if (*place)
		return *place;
	uint32_t made = add_level(m);
	if (m->failed)
		return STATE_DEAD;
	*place = made;
	add_calls(m, made);
	return made;
}

uint32_t machine_next(struct machine *m, uint32_t state, uint32_t class)
{
	uint32_t next = m->rows[(size_t)state * m->classes + class];
	if (next != STATE_UNKNOWN || m->failed)
		return m->failed ? STATE_DEAD : next;
	const struct level *l = &m->levels[state];
	uint8_t byte = m->byte_of[class];
	find_nothing(m);
	m->work += l->set_count;
	for (uint32_t i = 0; i < l->set_count; i++) {
		const struct node *x = &m->nodes.nodes[m->sets[l->set + i]];
		if (x->kind == NODE_BYTES && x->least <= byte && byte <= x->most)
			find(m, x->next);
	}
	next = level_of_found(m);
	m->rows[(size_t)state * m->classes + class] = next;
	return next;
}

/* ---- calls ---- */

/* What follows the calls of one rule from a level, all of them together. */
static uint32_t state_after(struct machine *m, uint32_t state, uint32_t rule)
{
	const struct level *l = &m->levels[state];
	find_nothing(m);
	for (uint32_t i = 0; i < l->set_count; i++) {
		const struct node *x = &m->nodes.nodes[m->sets[l->set + i]];
		if (x->kind == NODE_CALL && x->other == rule)
			find(m, x->next);
	}
	if (m->found_count == 1 && m->nodes.nodes[m->found[0]].kind == NODE_END)
		return STATE_DEAD;
	return level_of_found(m);
}

static bool has_call(const struct machine *m, uint32_t from, uint32_t rule)
{
	for (uint32_t i = from; i < m->calls_count; i++)
		if (m->calls[i].rule == rule)
			return true;
	return false;
}

/* First the rules, since what is found after one may be a level that has calls itself. */
static void add_calls(struct machine *m, uint32_t state)
{
	uint32_t first = m->calls_count, set = m->levels[state].set;
	for (uint32_t i = 0; i < m->levels[state].set_count; i++) {
		const struct node *x = &m->nodes.nodes[m->sets[set + i]];
		if (x->kind != NODE_CALL || has_call(m, first, x->other))
			continue;
		struct level_call *calls =
			grown(m->calls, m->calls_count, &m->calls_room, sizeof *calls);
		if (!calls) {
			out_of_memory(m);
			return;
		}
		m->calls = calls;
		m->calls[m->calls_count++] = (struct level_call){x->other, STATE_UNKNOWN};
	}
	m->levels[state].calls = first;
	m->levels[state].call_count = m->calls_count - first;
}

static uint32_t after_call(struct machine *m, uint32_t state, uint32_t call)
{
	if (m->calls[call].after == STATE_UNKNOWN) {
		uint32_t after = state_after(m, state, m->calls[call].rule);
		m->calls[call].after = after;
	}
	return m->calls[call].after;
}

uint32_t machine_start(struct machine *m, uint32_t rule)
{
	if (m->starts[rule] == STATE_UNKNOWN) {
		find_nothing(m);
		find(m, m->nodes.rules[rule].start);
		uint32_t start = level_of_found(m);
		m->starts[rule] = start;
	}
	return m->starts[rule];
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

struct place machine_return(const struct machine *m, uint32_t stack)
{
	return (struct place){m->stacks[stack].after, m->stacks[stack].below};
}

/* ---- reading ---- */

static void too_ambiguous(struct machine *m)
{
	machine_fail(m, E2BIG,
		     "the grammar is too ambiguous: too many of its alternatives begin alike");
}

static void add_place(struct machine *m, struct places *to, struct place p)
{
	for (uint32_t i = 0; i < to->count; i++)
		if (to->at[i].state == p.state && to->at[i].stack == p.stack)
			return;
	if (to->count == GRAMMAR_MAX_PLACES)
		too_ambiguous(m);
	else
		to->at[to->count++] = p;
}

/* Within the rule, and in those that it calls first: GRAMMAR_MAX_LEFT deep at most. */
static void step_in(struct machine *m, struct place from, uint8_t byte, struct places *to)
{
	uint32_t next = machine_next(m, from.state, m->class_of[byte]);
	if (next != STATE_DEAD)
		add_place(m, to, (struct place){next, from.stack});
	for (uint32_t i = 0; i < m->levels[from.state].call_count && !m->failed; i++) {
		uint32_t call = m->levels[from.state].calls + i, rule = m->calls[call].rule;
		if (!rule_begins(&m->nodes.rules[rule], byte))
			continue;
		if (++m->entered > ENTERED_MAX)
			too_ambiguous(m);
		uint32_t after = after_call(m, from.state, call), start = machine_start(m, rule);
		step_in(m, (struct place){start, push(m, after, from.stack)}, byte, to);
	}
}

void machine_step(struct machine *m, struct place from, uint8_t byte, struct places *to)
{
	m->entered = 0;
	while (!m->failed) {
		step_in(m, from, byte, to);
		if (!m->levels[from.state].ends || from.stack <= STACK_END)
			return;
		from = machine_return(m, from.stack);
	}
}

bool machine_read(struct machine *m, struct places *p, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n && p->count; i++) {
		struct places to = {0};
		for (uint32_t k = 0; k < p->count; k++)
			machine_step(m, p->at[k], (uint8_t)bytes[i], &to);
		*p = to;
	}
	return p->count && !m->failed;
}

void machine_begin(struct machine *m, struct places *p)
{
	*p = (struct places){.count = 1, .at = {{machine_start(m, 0), STACK_END}}};
}

bool machine_may_end(const struct machine *m, const struct places *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		struct place at = p->at[i];
		while (m->levels[at.state].ends && at.stack != STACK_END)
			at = machine_return(m, at.stack);
		if (m->levels[at.state].ends)
			return true;
	}
	return false;
}

bool machine_may_go_on(const struct machine *m, const struct places *p)
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
	m->starts = malloc(m->nodes.rule_count * sizeof *m->starts);
	m->stacks = calloc(64, sizeof *m->stacks);
	m->stack_room = 64;
	m->stack_count = STACK_END + 1;
	if (!m->seen || !m->todo || !m->found || !m->starts || !m->stacks)
		out_of_memory(m);
	if (!m->failed) {
		memset(m->starts, 0xff, m->nodes.rule_count * sizeof *m->starts);
		add_level(m); /* STATE_DEAD: no node at all */
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
	*m = (struct machine){0};
}
