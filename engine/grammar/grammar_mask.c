/* Masks: the machine walks the vocabulary's tree.
 *
 * A walk from a state does not know the caller of the state's rule. The tokens found within the
 * rule, and within rules that it calls, are valid for every caller and are cached. A token that
 * ends the rule and continues leaves an exit, from which the walk resumes on the actual stack:
 * for a JSON string these are the tokens with a quote inside, a few thousand of 152 K. */
#include "engine/grammar/grammar_build.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- loops ---- */

/* A state that takes any byte of some groups and stays the same (the inside of a string),
 * or counts them, takes whole branches of the vocabulary at once if no other group occurs below. */

enum {
	REACH_MAX = 32, /* bytes of look-ahead in a bounded repetition */
	REACH_ENDLESS = 255,
};

/* The state that each group of bytes leads to; STATE_DEAD if its bytes lead to several. */
static void mask_find_groups(struct grammar *g, uint32_t state, uint32_t to[BYTE_GROUPS])
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

/* Characters beyond ASCII by their bytes (table 3-7 of the Unicode standard), without U+2028 to
 * 203F. */
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

/* The state that all bytes of a range lead to; STATE_DEAD if there are several. */
static uint32_t mask_next_of_all(struct machine *m, uint32_t state, const uint8_t range[2])
{
	uint32_t to = machine_next(m, state, m->class_of[range[0]]);
	/* Classes are ranges of bytes. */
	for (uint32_t class = m->class_of[range[0]]; class < m->class_of[range[1]]; class ++)
		if (to == STATE_DEAD || machine_next(m, state, class + 1) != to)
			return STATE_DEAD;
	return to;
}

/* Whether all characters beyond ASCII lead to one state. */
static bool mask_leads_beyond(struct machine *m, uint32_t from, uint32_t to)
{
	for (int i = 0; i < BEYOND; i++) {
		uint32_t at = from;
		for (uint32_t k = 0; k < beyond[i].count && at != STATE_DEAD; k++)
			at = mask_next_of_all(m, at, beyond[i].bytes[k]);
		if (at != to)
			return false;
	}
	return true;
}

/* Finds the state that most groups lead to. */
static void mask_find_loop(struct grammar *g, uint32_t state)
{
	uint32_t to[BYTE_GROUPS], along = STATE_DEAD;
	uint64_t loop = 0;
	if (g->machine.levels[state].looped)
		return;
	mask_find_groups(g, state, to);
	for (int i = 0; i < BYTE_GROUPS; i++) {
		if (to[i] == STATE_DEAD || to[i] == along)
			continue;
		uint64_t groups = 0;
		for (int k = 0; k < BYTE_GROUPS; k++)
			groups |= (uint64_t)(to[k] == to[i]) << k;
		if (__builtin_popcountll(groups) > __builtin_popcountll(loop)) {
			loop = groups;
			along = to[i];
		}
	}
	if (along != STATE_DEAD && mask_leads_beyond(&g->machine, state, along))
		loop |= (uint64_t)1 << GROUP_BEYOND;
	struct machine_level *l = &g->machine.levels[state];
	l->looped = true;
	l->loop = loop;
	l->along = along;
}

/* How many bytes of the loop's groups can follow: endless if they lead to the state itself, else
 * as long as the next states take the same groups. */
static void mask_look_ahead(struct grammar *g, uint32_t state)
{
	const struct machine *m = &g->machine;
	uint32_t reach = 1, at = state;
	mask_find_loop(g, state);
	uint64_t loop = m->levels[state].loop;
	while (loop && reach < REACH_MAX) {
		uint32_t next = m->levels[at].along;
		if (next == at)
			reach = REACH_ENDLESS;
		mask_find_loop(g, next);
		if (reach == REACH_ENDLESS || loop & ~m->levels[next].loop)
			break;
		reach++;
		at = next;
	}
	g->machine.levels[state].reach = (uint8_t)reach;
}

/* Whether every token below a node may follow from a state, as far as known without walking. */
static bool mask_loop_takes(struct grammar *g, const struct token_node *n, uint32_t state)
{
	if (!g->machine.levels[state].reach)
		mask_look_ahead(g, state);
	const struct machine_level *l = &g->machine.levels[state];
	uint64_t more = n->groups & ~l->loop;
	if (n->well && l->loop >> GROUP_BEYOND)
		more &= GROUPS_ASCII;
	return !more && (l->reach == REACH_ENDLESS || n->height <= l->reach);
}

enum {
	VISITED_MAX = 1 << 24, /* nodes of one mask: a tenth of a second */
	BRANCH_LEAST = 8,      /* tokens below a node that make looking ahead worthwhile */
	FEW = 32,	       /* at most one token of 32 is set: listed */
	EXPLORED_MAX = 1024,   /* states explored in advance; */
	PREPARED_MAX = 24,     /* masks made of them, */
	WIDE = 16,	       /* if 16 groups loop: such walks are long */
};

static size_t mask_words(const struct grammar_tokens *t)
{
	return ((size_t)grammar_places(t) + 63) / 64;
}

static void mask_no_memory(struct grammar *g)
{
	machine_fail(&g->machine, ENOMEM, "out of memory for the masks of a grammar");
}

/* ---- walking ---- */

static void mask_allow(struct grammar *g, uint32_t first, uint32_t count)
{
	uint32_t i = first, end = first + count;
	while (i < end) { /* all bits of one word */
		uint32_t n = 64 - (i & 63) < end - i ? 64 - (i & 63) : end - i;
		g->bits[i >> 6] |= (n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) << (i & 63);
		i += n;
	}
}

static void mask_add_exit(struct grammar *g, uint32_t node)
{
	uint32_t *exits = grammar_grown(g->exits, g->exit_count, &g->exit_room, sizeof *exits);
	if (!exits) {
		mask_no_memory(g);
		return;
	}
	g->exits = exits;
	g->exits[g->exit_count++] = node;
}

static void mask_walk(struct grammar *g, const struct grammar_tokens *t, uint32_t top);

/* The text reaches a node at position p: its tokens may follow. True: tokens below may follow,
 * too. */
static bool mask_arrive(struct grammar *g, const struct grammar_tokens *t, uint32_t i,
			struct spot p)
{
	const struct token_node *n = &t->nodes[i];
	bool known = g->machine.levels[p.state].reach; /* or worth it */
	if (n->end == i + 1 ||
	    ((known || n->tokens >= BRANCH_LEAST) && mask_loop_takes(g, n, p.state))) {
		mask_allow(g, n->first, n->tokens);
		return false;
	}
	if (n[1].first > n->first)
		mask_allow(g, n->first, n[1].first - n->first);
	if (p.stack == STACK_ANY && g->machine.levels[p.state].ends)
		mask_add_exit(g, i);
	g->path[n->depth] = p;
	return true;
}

/* This byte enters or leaves rules. If there are several ways, each is walked by itself. */
static bool mask_arrive_by_step(struct grammar *g, const struct grammar_tokens *t, uint32_t i)
{
	struct spots to = {0};
	const struct token_node *n = &t->nodes[i];
	machine_step(&g->machine, g->path[n->depth - 1], n->byte, &to);
	for (uint32_t k = 0; k + 1 < to.count && !g->machine.failed; k++)
		if (mask_arrive(g, t, i, to.at[k]))
			mask_walk(g, t, i);
	return to.count && mask_arrive(g, t, i, to.at[to.count - 1]);
}

/* Walks the tree below a node, from position path[its depth]. */
static void mask_walk(struct grammar *g, const struct grammar_tokens *t, uint32_t top)
{
	struct machine *m = &g->machine;
	uint32_t end = t->nodes[top].end, i = top + 1;
	while (i < end && !m->failed) {
		const struct token_node *n = &t->nodes[i];
		struct spot from = g->path[n->depth - 1];
		const struct machine_level *l = &m->levels[from.state];
		bool on;
		if (++g->visited > VISITED_MAX)
			machine_fail(m, E2BIG, "the grammar is too ambiguous for masks");
		if (l->call_count || (l->ends && from.stack > STACK_END)) {
			on = mask_arrive_by_step(g, t, i);
		} else {
			uint32_t next = machine_next(m, from.state, m->class_of[n->byte]);
			on = next != STATE_DEAD &&
			     mask_arrive(g, t, i, (struct spot){next, from.stack});
		}
		i = on ? i + 1 : n->end;
	}
}

/* ---- masks of rules ---- */

/* There are hundreds of small masks, freed all at once: separate allocations would each keep a
 * page. */
enum { MASK_BLOCK = 4096 - 4 * sizeof(size_t) };
struct mask_block {
	struct mask_block *next;
	size_t room;
	uint64_t words[];
};

/* A mask larger than a block gets its own block, and the first block stays first. */
static struct mask_block *mask_add_block(struct grammar *g, size_t words)
{
	const size_t usual = MASK_BLOCK / sizeof(uint64_t), room = words > usual ? words : usual;
	struct mask_block *b = malloc(sizeof *b + room * sizeof *b->words);
	struct mask_block **at = words > usual && g->blocks ? &g->blocks->next : &g->blocks;
	if (!b)
		return NULL;
	*b = (struct mask_block){*at, room};
	*at = b;
	g->mask_bytes += sizeof *b + room * sizeof *b->words;
	return b;
}

static void *mask_allocate(struct grammar *g, size_t bytes)
{
	struct mask_block *b = g->blocks;
	size_t words = bytes / sizeof *b->words + 1;
	if ((!b || b->room < words) && !(b = mask_add_block(g, words)))
		return NULL;
	b->room -= words;
	return b->words + b->room;
}

void mask_forget(struct grammar *g)
{
	while (g->blocks) {
		struct mask_block *next = g->blocks->next;
		free(g->blocks);
		g->blocks = next;
	}
	for (uint32_t i = 0; i < g->machine.level_count; i++)
		g->machine.levels[i].mask = 0;
	g->mask_count = 1;
	g->mask_bytes = 0;
}

/* Stores the result of a walk, compactly. */
static bool mask_keep(struct grammar *g, const struct grammar_tokens *t, struct local_mask *l)
{
	size_t words = mask_words(t), count = 0;
	for (size_t w = 0; w < words; w++)
		count += (size_t)__builtin_popcountll(g->bits[w]);
	if (count * FEW < t->vocabulary)
		l->ids = mask_allocate(g, count * sizeof *l->ids);
	else
		l->bits = mask_allocate(g, words * sizeof *l->bits);
	l->exits = mask_allocate(g, g->exit_count * sizeof *l->exits);
	if (!l->exits || (!l->ids && !l->bits))
		return false;
	if (g->exit_count)
		memcpy(l->exits, g->exits, g->exit_count * sizeof *l->exits);
	l->exit_count = g->exit_count;
	if (l->bits)
		memcpy(l->bits, g->bits, words * sizeof *l->bits);
	for (size_t w = 0; l->ids && w < words; w++)
		for (uint64_t left = g->bits[w]; left; left &= left - 1)
			l->ids[l->id_count++] =
				(uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(left);
	return true;
}

static void mask_make(struct grammar *g, const struct grammar_tokens *t, uint32_t state)
{
	struct local_mask l = {0};
	if (g->mask_bytes > GRAMMAR_MASK_BYTES)
		mask_forget(g);
	memset(g->bits, 0, mask_words(t) * sizeof *g->bits);
	g->exit_count = 0;
	g->path[0] = (struct spot){state, STACK_ANY};
	mask_walk(g, t, 0);
	struct local_mask *masks =
		grammar_grown(g->masks, g->mask_count, &g->mask_room, sizeof *masks);
	if (masks)
		g->masks = masks;
	if (!masks || !mask_keep(g, t, &l)) {
		mask_no_memory(g);
		return;
	}
	g->mask_bytes += sizeof l;
	g->machine.levels[state].mask = g->mask_count;
	g->masks[g->mask_count++] = l;
}

static void mask_add(const struct local_mask *l, uint64_t *mask, size_t words)
{
	for (size_t w = 0; l->bits && w < words; w++)
		mask[w] |= l->bits[w];
	for (uint32_t i = 0; i < l->id_count; i++)
		mask[l->ids[i] >> 6] |= (uint64_t)1 << (l->ids[i] & 63);
}

/* ---- masks of a text ---- */

/* Adds the mask of a position: the rule's own part, and from its exits the callers' parts. */
static void mask_of_spot(struct grammar *g, const struct grammar_tokens *t, struct spot p,
			 uint64_t *mask)
{
	const struct machine *m = &g->machine;
	for (;;) {
		if (!m->levels[p.state].mask)
			mask_make(g, t, p.state);
		if (m->failed)
			return;
		const struct local_mask *l = &g->masks[m->levels[p.state].mask];
		mask_add(l, mask, mask_words(t));
		if (p.stack == STACK_END)
			return;
		bool ends = m->levels[p.state].ends;
		p = machine_return(m, p.stack);
		memset(g->bits, 0, l->exit_count ? mask_words(t) * sizeof *g->bits : 0);
		for (uint32_t i = 0; i < l->exit_count && !m->failed; i++) {
			g->path[t->nodes[l->exits[i]].depth] = p;
			mask_walk(g, t, l->exits[i]);
		}
		for (size_t w = 0; l->exit_count && w < mask_words(t); w++)
			mask[w] |= g->bits[w];
		if (!ends)
			return;
	}
}

static bool mask_make_room(struct grammar *g, const struct grammar_tokens *t)
{
	if (!g->bits)
		g->bits = malloc((mask_words(t) + 1) * sizeof *g->bits);
	if (!g->bits)
		mask_no_memory(g);
	return g->bits;
}

/* Makes some of the states within reach of known states. */
static void mask_explore(struct grammar *g)
{
	struct machine *m = &g->machine;
	for (uint32_t r = 0; r < m->nodes.rule_count && r < EXPLORED_MAX && !m->failed; r++)
		machine_start(m, r);
	for (uint32_t i = 1; i < m->level_count && i < EXPLORED_MAX && !m->failed; i++)
		for (uint32_t c = 0; c < m->classes && !m->failed; c++)
			machine_next(m, i, c);
}

/* The lock is held. */
static void mask_prepare(struct grammar *g, const struct grammar_tokens *t)
{
	uint32_t prepared = 0;
	mask_explore(g);
	if (!mask_make_room(g, t))
		return;
	for (uint32_t i = 1; i < g->machine.level_count && i < EXPLORED_MAX; i++) {
		if (g->machine.failed || prepared == PREPARED_MAX)
			break;
		if (g->machine.levels[i].mask)
			continue;
		mask_find_loop(g, i);
		if (__builtin_popcountll(g->machine.levels[i].loop) < WIDE)
			continue;
		g->visited = 0;
		mask_make(g, t, i);
		prepared++;
	}
}

int grammar_prepare(struct grammar *g, const struct grammar_tokens *t, struct err *e)
{
	pthread_mutex_lock(&g->lock);
	mask_prepare(g, t);
	int failed = machine_error(&g->machine, e);
	pthread_mutex_unlock(&g->lock);
	return failed;
}

/* The lock is held, and `mask` is empty: adds what follows each position. */
static void mask_of_spots(struct grammar *g, const struct grammar_tokens *t, const struct spots *p,
			  uint64_t *mask)
{
	mask_make_room(g, t);
	g->visited = 0;
	for (uint32_t i = 0; i < p->count && !g->machine.failed; i++)
		mask_of_spot(g, t, p->at[i], mask);
	if (!g->machine.failed && machine_may_end(&g->machine, p))
		for (uint32_t i = t->text_count; i < grammar_places(t); i++)
			mask[i >> 6] |= (uint64_t)1 << (i & 63);
}

int grammar_mask(struct grammar *g, const struct grammar_tokens *t, const struct spots *p,
		 uint64_t *mask, uint32_t *allowed, struct err *e)
{
	size_t words = mask_words(t);
	memset(mask, 0, words * sizeof *mask);
	pthread_mutex_lock(&g->lock);
	mask_of_spots(g, t, p, mask);
	int failed = machine_error(&g->machine, e);
	pthread_mutex_unlock(&g->lock);
	*allowed = 0;
	for (size_t w = 0; w < words; w++)
		*allowed += (uint32_t)__builtin_popcountll(mask[w]);
	return failed;
}

/* ---- logits ---- */

/* Runs for each place whose bit is `set`. */
#define EACH_PLACE(t, mask, set, i)                                                                \
	for (uint32_t w_ = 0; w_ < mask_words(t); w_++)                                            \
		for (uint64_t left_ = (set) ? (mask)[w_] : ~(mask)[w_]; left_; left_ &= left_ - 1) \
			if (((i) = 64 * w_ + (uint32_t)__builtin_ctzll(left_)) < grammar_places(t))

void grammar_apply(const struct grammar_tokens *t, const uint64_t *mask, uint32_t allowed,
		   float *logits, float *scratch)
{
	uint32_t i, n = 0;
	if (allowed < t->vocabulary / 4) { /* few: they are put aside */
		EACH_PLACE(t, mask, true, i)
		scratch[n++] = logits[t->order[i]];
		for (uint32_t id = 0; id < t->vocabulary; id++)
			logits[id] = -INFINITY;
		n = 0;
		EACH_PLACE(t, mask, true, i)
		logits[t->order[i]] = scratch[n++];
		return;
	}
	EACH_PLACE(t, mask, false, i)
	logits[t->order[i]] = -INFINITY;
	for (i = 0; i < t->never_count; i++)
		logits[t->never[i]] = -INFINITY;
}
