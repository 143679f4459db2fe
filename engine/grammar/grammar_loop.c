/* What goes on alike: a state that takes any byte of some groups and is as before, such as the
 * inside of a text, or counts them, takes whole branches of a vocabulary at once if no other group
 * lies below. */
#include "engine/grammar/grammar_inside.h"

enum {
	REACH_MAX = 32, /* bytes that are looked ahead in a bounded repetition */
	REACH_ENDLESS = 255,
};

/* Where each group leads if all of its bytes lead to one state; else STATE_DEAD. */
static void find_groups(struct grammar *g, uint32_t state, uint32_t to[BYTE_GROUPS])
{
	struct machine *m = &g->machine;
	for (int i = 0; i < BYTE_GROUPS; i++)
		to[i] = STATE_UNKNOWN;
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t *group = &to[g->group_of[byte]];
		uint32_t next = machine_next(m, state, m->class_of[byte]);
		*group = *group == STATE_UNKNOWN || *group == next ? next : STATE_DEAD;
	}
	for (int i = 0; i < BYTE_GROUPS; i++)
		to[i] = to[i] == STATE_UNKNOWN ? STATE_DEAD : to[i];
}

static uint64_t groups_to(const uint32_t to[BYTE_GROUPS], uint32_t state)
{
	uint64_t groups = 0;
	for (int i = 0; i < BYTE_GROUPS; i++)
		groups |= (uint64_t)(to[i] == state) << i;
	return groups;
}

/* Characters beyond ASCII by their bytes (table 3-7 of the Unicode standard), U+2028 to 203F
 * aside. */
static const struct {
	uint32_t count;
	uint8_t bytes[4][2]; /* from, to */
} beyond[] = {
	{2, {{0xc2, 0xdf}, {0x80, 0xbf}}},
	{3, {{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}}},
	{3, {{0xe1, 0xe1}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{3, {{0xe2, 0xe2}, {0x80, 0x80}, {0x80, 0xa7}}},
	{3, {{0xe2, 0xe2}, {0x81, 0xbf}, {0x80, 0xbf}}},
	{3, {{0xe3, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{3, {{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}}},
	{3, {{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{4, {{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{4, {{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
	{4, {{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}},
};
enum { BEYOND = sizeof beyond / sizeof *beyond };

/* Where all bytes of a range lead if that is one state. */
static uint32_t next_of_all(struct machine *m, uint32_t state, const uint8_t range[2])
{
	uint32_t to = machine_next(m, state, m->class_of[range[0]]);
	/* Classes are ranges of bytes. */
	for (uint32_t class = m->class_of[range[0]]; class < m->class_of[range[1]]; class ++)
		if (to == STATE_DEAD || machine_next(m, state, class + 1) != to)
			return STATE_DEAD;
	return to;
}

/* Whether all characters beyond ASCII lead to one state. */
static bool leads_beyond(struct machine *m, uint32_t from, uint32_t to)
{
	for (int i = 0; i < BEYOND; i++) {
		uint32_t at = from;
		for (uint32_t k = 0; k < beyond[i].count && at != STATE_DEAD; k++)
			at = next_of_all(m, at, beyond[i].bytes[k]);
		if (at != to)
			return false;
	}
	return true;
}

/* The state that most groups lead to. */
static void find_loop(struct grammar *g, uint32_t state)
{
	uint32_t to[BYTE_GROUPS], along = STATE_DEAD;
	uint64_t loop = 0;
	if (g->machine.levels[state].looped)
		return;
	find_groups(g, state, to);
	for (int i = 0; i < BYTE_GROUPS; i++) {
		if (to[i] == STATE_DEAD || to[i] == along)
			continue;
		uint64_t groups = groups_to(to, to[i]);
		if (__builtin_popcountll(groups) > __builtin_popcountll(loop)) {
			loop = groups;
			along = to[i];
		}
	}
	if (along != STATE_DEAD && leads_beyond(&g->machine, state, along))
		loop |= (uint64_t)1 << GROUP_BEYOND;
	struct level *l = &g->machine.levels[state];
	l->looped = true;
	l->loop = loop;
	l->along = along;
}

/* How far bytes of the loop's groups go on: for ever where they lead to the state itself, else as
 * far as the states that follow take the same. */
static void look_ahead(struct grammar *g, uint32_t state)
{
	const struct machine *m = &g->machine;
	uint32_t reach = 1, at = state;
	find_loop(g, state);
	uint64_t loop = m->levels[state].loop;
	while (loop && reach < REACH_MAX) {
		uint32_t next = m->levels[at].along;
		if (next == at)
			reach = REACH_ENDLESS;
		find_loop(g, next);
		if (reach == REACH_ENDLESS || loop & ~m->levels[next].loop)
			break;
		reach++;
		at = next;
	}
	g->machine.levels[state].reach = (uint8_t)reach;
}

bool loop_takes(struct grammar *g, const struct token_node *n, uint32_t state)
{
	if (!g->machine.levels[state].reach)
		look_ahead(g, state);
	const struct level *l = &g->machine.levels[state];
	uint64_t more = n->groups & ~l->loop;
	if (n->well && l->loop >> GROUP_BEYOND)
		more &= GROUPS_ASCII;
	return !more && (l->reach == REACH_ENDLESS || n->height <= l->reach);
}

int loop_width(struct grammar *g, uint32_t state)
{
	find_loop(g, state);
	return __builtin_popcountll(g->machine.levels[state].loop);
}
