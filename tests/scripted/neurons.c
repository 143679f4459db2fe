/* The feed-forward of each layer. See weights.h.
 *
 * A neuron is silu(gate) * up. That of a gram: gate is how many more signs agree than a threshold,
 * which the constant subtracts; up falls by as much as gate rises, so that their product is flat
 * where as many agree as should. So how well a code is met hardly matters, and errors do not grow
 * from layer to layer. Other neurons' gates are the constant alone, and their ups one sign: they
 * take it away, or carry it. The norm before all of them keeps the parts' signs at 1. */
#include "tests/scripted/tensors.h"

#include <string.h>

enum { LINEAR = 2 * CODE_SIGNS }; /* neurons that take away or carry, the first of each layer */

/* Of 256 signs: what a gate begins at, and what it should meet; noise takes a little of it. */
static const float threshold = 184, met = 250;
static const float fires = met - threshold;
static const float open_gate = 8; /* of a neuron that fires everywhere: silu of it is 8 */

static void put(float *row, uint32_t part, const struct code *c, float strength)
{
	float v[CODE_SIGNS];
	code_vector(c, v);
	for (uint32_t i = 0; i < CODE_SIGNS; i++)
		row[part + i] += strength * v[i];
}

/* To a column of the matrix that leads back. */
static void put_down(const struct neurons *n, uint32_t neuron, uint32_t part, const struct code *c,
		     float strength)
{
	float v[CODE_SIGNS];
	code_vector(c, v);
	for (uint32_t i = 0; i < CODE_SIGNS; i++)
		n->down[(size_t)(part + i) * n->count + neuron] += strength * v[i];
}

static void constant_rows(const struct neurons *n, const struct scripted *s, uint32_t neuron,
			  float gate, float up)
{
	const struct code *c = &s->codes->constant;
	put(n->gate + (size_t)neuron * SCRIPTED_HIDDEN, PART_CONSTANT, c, gate / CODE_SIGNS);
	put(n->up + (size_t)neuron * SCRIPTED_HIDDEN, PART_CONSTANT, c, up / CODE_SIGNS);
}

/* One more neuron that adds a sign of a part to another part. */
static void carry(const struct neurons *n, const struct scripted *s, uint32_t neuron, uint32_t from,
		  uint32_t to, float strength)
{
	constant_rows(n, s, neuron, open_gate, 0);
	n->up[(size_t)neuron * SCRIPTED_HIDDEN + from] = 1;
	n->down[(size_t)to * n->count + neuron] += strength / open_gate;
}

/* What a gram that says nothing itself has said by its second half is no news. */
static void add_gram(const struct neurons *n, const struct scripted *s, uint32_t neuron,
		     size_t gram)
{
	const struct gram *g = &s->grams->list[gram];
	const struct code *left = &s->codes->grams[g->left], *right = &s->codes->grams[g->right];
	float *gate = n->gate + (size_t)neuron * SCRIPTED_HIDDEN;
	float *up = n->up + (size_t)neuron * SCRIPTED_HIDDEN;
	int64_t before = s->grams->list[g->right].next;
	put(gate, PART_FETCHED, left, 1);
	put(gate, PART_KNOWN, right, 1);
	put(up, PART_FETCHED, left, -1 / fires);
	put(up, PART_KNOWN, right, -1 / fires);
	constant_rows(n, s, neuron, -threshold, (met + fires) / fires);
	put_down(n, neuron, PART_KNOWN, &s->codes->grams[gram], 1 / fires);
	if (g->next == before)
		return;
	if (g->next >= 0)
		put_down(n, neuron, PART_SAID, &s->codes->tokens[g->next], SCRIPTED_SAID / fires);
	if (before >= 0)
		put_down(n, neuron, PART_SAID, &s->codes->tokens[before], -SCRIPTED_SAID / fires);
}

uint32_t scripted_neurons(const struct scripted *s)
{
	uint32_t of[GRAMS_LEVELS + 1] = {0}, most = 0;
	for (size_t i = 0; i < s->grams->count; i++)
		of[s->grams->list[i].level]++;
	for (uint32_t level = 1; level <= s->grams->levels; level++)
		most = of[level] > most ? of[level] : most;
	/* Whole groups, so that no format of weights is in the way. */
	return (LINEAR + most + CODE_SIGNS - 1) / CODE_SIGNS * CODE_SIGNS;
}

void neurons_fill(const struct neurons *n, const struct scripted *s, uint32_t layer)
{
	bool last = layer == s->grams->levels;
	size_t bytes = (size_t)n->count * SCRIPTED_HIDDEN * sizeof(float);
	uint32_t neuron = LINEAR;
	memset(n->gate, 0, bytes);
	memset(n->up, 0, bytes);
	memset(n->down, 0, bytes);
	for (uint32_t i = 0; i < CODE_SIGNS; i++) {
		carry(n, s, i, PART_KNOWN + i, PART_KNOWN + i, -1);
		if (last)
			carry(n, s, CODE_SIGNS + i, PART_SAID + i, PART_KNOWN + i,
			      1 / SCRIPTED_SAID);
		else
			carry(n, s, CODE_SIGNS + i, PART_FETCHED + i, PART_FETCHED + i, -1);
	}
	for (size_t i = 0; i < s->grams->count && !last; i++)
		if (s->grams->list[i].level == layer + 1)
			add_gram(n, s, neuron++, i);
}
