#include "engine/grammar/grammar_machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- states of a rule: sets of nodes, made when first needed ---- */

enum { WORK_MAX = 1 << 28 }; /* nodes visited in a machine's life: seconds at most */

int machine_fail(struct machine *m, int code, const char *words)
{
	if (!m->failed)
		m->failed = err_set(&m->error, code, "%s", words);
	return m->failed;
}

static int machine_no_memory(struct machine *m)
{
	return machine_fail(m, ENOMEM, "out of memory for a grammar");
}

int machine_error(const struct machine *m, struct err *e)
{
	if (m->failed && e)
		*e = m->error;
	return m->failed;
}

/* Adds a node and the nodes that it leads to without a byte to the set being made. */
static void machine_find(struct machine *m, uint32_t from)
{
	const struct grammar_nodes *n = &m->nodes;
	uint32_t left = 0;
	m->todo[left++] = from;
	while (left) {
		uint32_t at = m->todo[--left];
		const struct grammar_node *x = &n->nodes[at];
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

static void machine_find_nothing(struct machine *m)
{
	m->found_count = 0;
	if (!++m->mark) {
		memset(m->seen, 0, m->nodes.count * sizeof *m->seen);
		m->mark = 1;
	}
}

static int machine_by_number(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
	return (a > b) - (a < b);
}

static uint32_t *machine_place_of_set(struct machine *m, const uint32_t *set, uint32_t n)
{
	uint64_t hash = n;
	for (uint32_t i = 0; i < n; i++)
		hash = (hash ^ set[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 31;
	uint32_t i = (uint32_t)(hash >> 32) & (m->by_set_room - 1);
	for (; m->by_set[i]; i = (i + 1) & (m->by_set_room - 1)) {
		const struct machine_level *l = &m->levels[m->by_set[i]];
		if (l->set_count == n && !memcmp(m->sets + l->set, set, n * sizeof *set))
			break;
	}
	return &m->by_set[i];
}

static bool machine_grow_by_set(struct machine *m)
{
	uint32_t room = m->by_set_room ? 2 * m->by_set_room : 256;
	uint32_t *wider = calloc(room, sizeof *wider);
	if (!wider)
		return false;
	free(m->by_set);
	m->by_set = wider;
	m->by_set_room = room;
	for (uint32_t i = 1; i < m->level_count; i++)
		*machine_place_of_set(m, m->sets + m->levels[i].set, m->levels[i].set_count) = i;
	return true;
}

static bool machine_grow_sets(struct machine *m, uint32_t n)
{
	while (m->set_room - m->set_count < n) {
		uint32_t *sets = grammar_grown(m->sets, m->set_room, &m->set_room, sizeof *sets);
		if (!sets)
			return false;
		m->sets = sets;
	}
	return true;
}

static bool machine_grow_rows(struct machine *m)
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

/* A new state for the nodes found. */
static uint32_t machine_add_level(struct machine *m)
{
	uint32_t n = m->found_count, id = m->level_count;
	if (id >= GRAMMAR_MAX_STATES || m->set_count + n > GRAMMAR_MAX_SETS ||
	    (size_t)(id + 1) * m->classes > GRAMMAR_MAX_ROWS || m->work > WORK_MAX) {
		machine_fail(m, E2BIG,
			     "the grammar has too many states; simplify it, or use smaller bounds");
		return STATE_DEAD;
	}
	struct machine_level *levels = grammar_grown(m->levels, id, &m->level_room, sizeof *levels);
	if (levels)
		m->levels = levels;
	if (!levels || !machine_grow_sets(m, n) || !machine_grow_rows(m)) {
		machine_no_memory(m);
		return STATE_DEAD;
	}
	struct machine_level *l = &m->levels[id];
	*l = (struct machine_level){.set = m->set_count, .set_count = n};
	if (n)
		memcpy(m->sets + m->set_count, m->found, n * sizeof *m->found);
	m->set_count += n;
	m->level_count++;
	for (uint32_t c = 0; c < m->classes; c++)
		m->rows[(size_t)id * m->classes + c] = n ? STATE_UNKNOWN : STATE_DEAD;
	for (uint32_t i = 0; i < n; i++) {
		const struct grammar_node *x = &m->nodes.nodes[m->found[i]];
		l->ends |= x->kind == NODE_END;
		l->more |= x->kind != NODE_END;
	}
	return id;
}

static void machine_add_calls(struct machine *m, uint32_t state);

/* The state for the nodes found. */
static uint32_t machine_level_of_found(struct machine *m)
{
	if (!m->found_count || m->failed)
		return STATE_DEAD;
	if (2 * m->level_count >= m->by_set_room && !machine_grow_by_set(m)) {
		machine_no_memory(m);
		return STATE_DEAD;
	}
	qsort(m->found, m->found_count, sizeof *m->found, machine_by_number);
	uint32_t *place = machine_place_of_set(m, m->found, m->found_count);
	if (*place)
		return *place;
	uint32_t made = machine_add_level(m);
	if (m->failed)
		return STATE_DEAD;
	*place = made;
	machine_add_calls(m, made);
	return made;
}

static bool machine_takes(const struct machine *m, uint32_t node, uint8_t byte)
{
	const struct grammar_node *x = &m->nodes.nodes[node];
	return x->kind == NODE_BYTES && x->least <= byte && byte <= x->most;
}

uint32_t machine_next(struct machine *m, uint32_t state, uint32_t class)
{
	uint32_t next = m->rows[(size_t)state * m->classes + class], count = 0, first = 0;
	if (next != STATE_UNKNOWN || m->failed)
		return m->failed ? STATE_DEAD : next;
	const struct machine_level *l = &m->levels[state];
	uint8_t byte = m->byte_of[class];
	m->work += l->set_count;
	for (uint32_t i = 0; i < l->set_count; i++)
		if (machine_takes(m, m->sets[l->set + i], byte) && !count++)
			first = i;
	/* Most bytes are taken by one node: the state that it leads to is kept. */
	uint32_t node = count == 1 ? m->sets[l->set + first] : 0;
	if (count == 1)
		next = m->alone[node];
	if (next == STATE_UNKNOWN) {
		machine_find_nothing(m);
		for (uint32_t i = first; count && i < l->set_count; i++)
			if (machine_takes(m, m->sets[l->set + i], byte))
				machine_find(m, m->nodes.nodes[m->sets[l->set + i]].next);
		next = machine_level_of_found(m);
		if (count == 1)
			m->alone[node] = next;
	}
	m->rows[(size_t)state * m->classes + class] = next;
	return next;
}

/* ---- calls ---- */

static bool machine_has_call(const struct machine *m, uint32_t from, uint32_t rule)
{
	for (uint32_t i = from; i < m->calls_count; i++)
		if (m->calls[i].rule == rule)
			return true;
	return false;
}

/* Lists the called rules only: the states after them may have calls themselves. */
static void machine_add_calls(struct machine *m, uint32_t state)
{
	uint32_t first = m->calls_count, set = m->levels[state].set;
	for (uint32_t i = 0; i < m->levels[state].set_count; i++) {
		const struct grammar_node *x = &m->nodes.nodes[m->sets[set + i]];
		if (x->kind != NODE_CALL || machine_has_call(m, first, x->other))
			continue;
		struct machine_call *calls =
			grammar_grown(m->calls, m->calls_count, &m->calls_room, sizeof *calls);
		if (!calls) {
			machine_no_memory(m);
			return;
		}
		m->calls = calls;
		m->calls[m->calls_count++] = (struct machine_call){x->other, STATE_UNKNOWN};
	}
	m->levels[state].calls = first;
	m->levels[state].call_count = m->calls_count - first;
}

/* The state after the calls of one rule from a state; `call` is an index in the state's calls.
 * STATE_DEAD: the caller ends with the call. */
static uint32_t machine_after(struct machine *m, uint32_t state, uint32_t call)
{
	const struct machine_level *l = &m->levels[state];
	if (m->calls[call].after != STATE_UNKNOWN)
		return m->calls[call].after;
	machine_find_nothing(m);
	for (uint32_t i = 0; i < l->set_count; i++) {
		const struct grammar_node *x = &m->nodes.nodes[m->sets[l->set + i]];
		if (x->kind == NODE_CALL && x->other == m->calls[call].rule)
			machine_find(m, x->next);
	}
	bool ends = m->found_count == 1 && m->nodes.nodes[m->found[0]].kind == NODE_END;
	uint32_t after = ends ? STATE_DEAD : machine_level_of_found(m);
	m->calls[call].after = after; /* the list may have moved */
	return after;
}

uint32_t machine_start(struct machine *m, uint32_t rule)
{
	if (m->starts[rule] == STATE_UNKNOWN) {
		machine_find_nothing(m);
		machine_find(m, m->nodes.rules[rule].start);
		m->starts[rule] = machine_level_of_found(m);
	}
	return m->starts[rule];
}

enum { ENTERED_MAX = 1 << 12 }; /* rules that one byte may enter */

/* ---- stacks ---- */

static uint32_t machine_push(struct machine *m, uint32_t after, uint32_t below)
{
	if (after == STATE_DEAD || m->failed)
		return below;
	uint32_t *place = grammar_triple_find(&m->by_stack, (struct triple){after, below, 0});
	if (place && *place != TRIPLE_NEW)
		return *place;
	if (m->stack_count >= GRAMMAR_MAX_STACKS) {
		machine_fail(m, E2BIG, "the text nests too deeply for the grammar");
		return below;
	}
	struct stack *stacks =
		grammar_grown(m->stacks, m->stack_count, &m->stack_room, sizeof *stacks);
	if (!place || !stacks) {
		machine_no_memory(m);
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

static void machine_too_ambiguous(struct machine *m)
{
	machine_fail(m, E2BIG,
		     "the grammar is too ambiguous: too many of its alternatives "
		     "begin the same way");
}

static void machine_add_spot(struct machine *m, struct spots *to, struct spot p)
{
	for (uint32_t i = 0; i < to->count; i++)
		if (to->at[i].state == p.state && to->at[i].stack == p.stack)
			return;
	if (to->count == GRAMMAR_MAX_SPOTS)
		machine_too_ambiguous(m);
	else
		to->at[to->count++] = p;
}

/* Steps within the rule and the rules that it calls first: at most GRAMMAR_MAX_LEFT deep. */
static void machine_step_in(struct machine *m, struct spot from, uint8_t byte, struct spots *to)
{
	uint32_t next = machine_next(m, from.state, m->class_of[byte]);
	if (next != STATE_DEAD)
		machine_add_spot(m, to, (struct spot){next, from.stack});
	for (uint32_t i = 0; i < m->levels[from.state].call_count && !m->failed; i++) {
		uint32_t call = m->levels[from.state].calls + i, rule = m->calls[call].rule;
		if (!nodes_rule_begins(&m->nodes.rules[rule], byte))
			continue;
		if (++m->entered > ENTERED_MAX)
			machine_too_ambiguous(m);
		uint32_t after = machine_after(m, from.state, call), start = machine_start(m, rule);
		machine_step_in(m, (struct spot){start, machine_push(m, after, from.stack)}, byte,
				to);
	}
}

void machine_step(struct machine *m, struct spot from, uint8_t byte, struct spots *to)
{
	m->entered = 0;
	while (!m->failed) {
		machine_step_in(m, from, byte, to);
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

/* Bytes that no node distinguishes are one class. */
static void machine_find_classes(struct machine *m)
{
	bool cut[257] = {[0] = true};
	for (uint32_t i = 0; i < m->nodes.count; i++) {
		const struct grammar_node *x = &m->nodes.nodes[i];
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
	machine_find_classes(m);
	m->seen = calloc(m->nodes.count, sizeof *m->seen);
	m->todo = malloc((2 * (size_t)m->nodes.count + 1) * sizeof *m->todo);
	m->found = malloc(m->nodes.count * sizeof *m->found);
	m->alone = malloc(m->nodes.count * sizeof *m->alone);
	m->starts = malloc(m->nodes.rule_count * sizeof *m->starts);
	m->stacks = calloc(64, sizeof *m->stacks);
	m->stack_room = 64;
	m->stack_count = STACK_END + 1;
	if (!m->seen || !m->todo || !m->found || !m->alone || !m->starts || !m->stacks)
		machine_no_memory(m);
	if (!m->failed) {
		memset(m->alone, 0xff, m->nodes.count * sizeof *m->alone);
		memset(m->starts, 0xff, m->nodes.rule_count * sizeof *m->starts);
		machine_find_nothing(m);
		machine_add_level(m); /* STATE_DEAD, the state without nodes */
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
	grammar_triple_free(&m->by_stack);
	free(m->seen);
	free(m->todo);
	free(m->found);
	free(m->alone);
	*m = (struct machine){0};
}
