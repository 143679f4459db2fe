/* The states of a rule: sets of the places where a reader may stand, made when first needed. */
#include "engine/grammar/grammar_machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORK_MAX = 1 << 28 }; /* nodes looked at in a machine's life: seconds at most */

int machine_fail(struct machine *m, int code, const char *words)
{
	if (!m->failed)
		m->failed = err_set(&m->error, code, "%s", words);
	return m->failed;
}

int machine_error(const struct machine *m, struct err *e)
{
	if (m->failed && e)
		*e = m->error;
	return m->failed;
}

static int too_large(struct machine *m)
{
	return machine_fail(m, E2BIG,
			    "the grammar has too many states; make it simpler, or its bounds "
			    "smaller");
}

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
		machine_fail(m, ENOMEM, "out of memory for a grammar");
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
		machine_fail(m, ENOMEM, "out of memory for a grammar");
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

/* What one node alone leads to; most bytes are taken by one. */
static uint32_t state_of_node(struct machine *m, uint32_t node)
{
	if (m->alone[node] == STATE_UNKNOWN) {
		find_nothing(m);
		find(m, m->nodes.nodes[node].next);
		uint32_t state = level_of_found(m);
		m->alone[node] = state;
	}
	return m->alone[node];
}

static bool takes(const struct machine *m, uint32_t node, uint8_t byte)
{
	const struct node *x = &m->nodes.nodes[node];
	return x->kind == NODE_BYTES && x->least <= byte && byte <= x->most;
}

uint32_t machine_next(struct machine *m, uint32_t state, uint32_t class)
{
	uint32_t next = m->rows[(size_t)state * m->classes + class], count = 0, first = 0;
	if (next != STATE_UNKNOWN || m->failed)
		return m->failed ? STATE_DEAD : next;
	const struct level *l = &m->levels[state];
	uint8_t byte = m->byte_of[class];
	m->work += l->set_count;
	for (uint32_t i = 0; i < l->set_count; i++)
		if (takes(m, m->sets[l->set + i], byte) && !count++)
			first = i;
	if (count == 1) {
		next = state_of_node(m, m->sets[l->set + first]);
	} else {
		find_nothing(m);
		for (uint32_t i = first; count && i < l->set_count; i++)
			if (takes(m, m->sets[l->set + i], byte))
				find(m, m->nodes.nodes[m->sets[l->set + i]].next);
		next = level_of_found(m);
	}
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
			machine_fail(m, ENOMEM, "out of memory for a grammar");
			return;
		}
		m->calls = calls;
		m->calls[m->calls_count++] = (struct level_call){x->other, STATE_UNKNOWN};
	}
	m->levels[state].calls = first;
	m->levels[state].call_count = m->calls_count - first;
}

uint32_t machine_after(struct machine *m, uint32_t state, uint32_t call)
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

void levels_begin(struct machine *m)
{
	find_nothing(m);
	add_level(m);
}
