/* The weights of a scripted model: a Qwen2 of one head that computes grams (grams.h).
 *
 * The residual stream has four parts of 128: what a position is known by (at first its token's
 * code), what it has fetched, a constant, and the code of what comes next.
 *
 * Layer l fetches from where the first halves of grams of level l + 1 end: queries and keys are
 * biases alone, which the rotary positions turn so that they meet at just that distance. Then each
 * gram of level l + 1 is a neuron of the feed-forward, which fires where its halves' codes stand in
 * the first two parts, and puts the gram's code in the first part, and what it says in the fourth
 * in place of what its second half said. Other neurons take away what was there and what was
 * fetched. The last layer fetches nothing and carries the fourth part to the first, for the head,
 * which is tied. A weaker code beneath it, of a bias, says that the answer ends, where nothing else
 * is said.
 *
 * Margins are wide: a gram's codes agree in 256 signs, and what is taken for another agrees in at
 * most 172, which no format that weights are stored in makes up for. What is next is so much
 * likelier than all else that the temperature hardly matters. */
#ifndef MOEFS_TESTS_SCRIPTED_WEIGHTS_H
#define MOEFS_TESTS_SCRIPTED_WEIGHTS_H

#include "tests/scripted/codes.h"

enum { SCRIPTED_HIDDEN = 4 * CODE_SIGNS, SCRIPTED_CONTEXT = 32768 };
#define SCRIPTED_ROPE_THETA 10000.0

struct scripted {
	const struct grams *grams;
	const struct codes *codes;
	uint32_t vocabulary, end; /* end: the token that ends an answer */
};
uint32_t scripted_layers(const struct scripted *s);
uint32_t scripted_neurons(const struct scripted *s); /* of each layer: intermediate_size */
/* Writes model.safetensors, in BF16. */
int scripted_write(const struct scripted *s, const char *path, struct err *e);

#endif
