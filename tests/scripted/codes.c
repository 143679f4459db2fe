#include "tests/scripted/codes.h"
#include "kernels/tq.h"

#include <errno.h>
#include <stdlib.h>

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15U;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
	z = (z ^ z >> 27) * 0x94d049bb133111ebU;
	return z ^ z >> 31;
}

static struct code draw_code(uint64_t *state)
{
	struct code c = {{draw(state), draw(state)}};
	return c;
}

static int alike(const struct code *a, const struct code *b)
{
	int differ = __builtin_popcountll(a->signs[0] ^ b->signs[0]) +
		     __builtin_popcountll(a->signs[1] ^ b->signs[1]);
	return CODE_SIGNS - 2 * differ;
}

/* Unlike those of all grams before it: what stands where changes from layer to layer. */
static struct code draw_unlike(const struct code *others, size_t count, uint64_t *state)
{
	struct code c = draw_code(state);
	for (size_t i = 0; i < count; i++)
		if (alike(&c, &others[i]) > CODES_ALIKE_MOST) {
			c = draw_code(state);
			i = (size_t)-1;
		}
	return c;
}

int codes_make(struct codes *c, const struct grams *g, uint32_t vocabulary, struct err *e)
{
	uint64_t state = 12;
	c->tokens = malloc(vocabulary * sizeof *c->tokens);
	c->grams = malloc((g->count + 1) * sizeof *c->grams);
	if (!c->tokens || !c->grams)
		return err_set(e, ENOMEM, "no memory for %u codes", vocabulary);
	c->constant = draw_code(&state);
	for (uint32_t i = 0; i < vocabulary; i++)
		c->tokens[i] = draw_code(&state);
	for (size_t i = 0; i < g->count; i++) {
		c->grams[i] = draw_unlike(c->grams, i, &state);
		if (g->list[i].level == 0)
			c->tokens[g->list[i].right] = c->grams[i];
	}
	return 0;
}

void code_vector(const struct code *c, float to[CODE_SIGNS])
{
	_Static_assert((int)CODE_SIGNS == (int)TQ_GROUP, "a code is a group");
	for (uint32_t i = 0; i < CODE_SIGNS; i++)
		to[i] = c->signs[i / 64] >> i % 64 & 1 ? 1.0F : -1.0F;
	tq_unrotate(to);
}

void codes_free(struct codes *c)
{
	free(c->grams);
	free(c->tokens);
	*c = (struct codes){0};
}
