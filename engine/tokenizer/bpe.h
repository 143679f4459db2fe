/* Merging a word's bytes, or characters, by rank (Sennrich et al. 2016) or by score (Kudo and
 * Richardson 2018). */
#ifndef MOEFS_ENGINE_TOKENIZER_BPE_H
#define MOEFS_ENGINE_TOKENIZER_BPE_H

#include "engine/tokenizer/token.h"
#include "engine/tokenizer/vocabulary.h"

#include <stdatomic.h>

struct bpe_merge {
	uint32_t left, right, product; /* ids */
	uint32_t rank;		       /* MERGE_NONE: the slot is free */
};
enum { MERGE_NONE = UINT32_MAX };
struct bpe_merges {
	struct bpe_merge *slots; /* hash table by (left, right), open addressing */
	size_t slot_count, count;
	uint64_t seed;
	/* Where there are no pairs but scores, or ranks of tokens: [vocabulary size], their order.
	 * Neighbours then merge to the token that they spell together, the lowest place first. */
	uint32_t *by_score;
};
/* Zero-initialise but for the seed. The last of equal pairs counts, as in Hugging Face. */
int bpe_merges_add(struct bpe_merges *m, struct bpe_merge merge, struct err *e);
void bpe_merges_free(struct bpe_merges *m);

struct bpe_work; /* memory for merging, reused from word to word */
struct bpe_work *bpe_work_new(const _Atomic bool *stop);
void bpe_work_free(struct bpe_work *w);
/* Appends the ids of one word of n bytes, in time O(n log n). -EINVAL: there is no token for a byte
 * of it. */
int bpe_encode(const struct vocabulary *v, const struct bpe_merges *m, struct bpe_work *w,
	       const char *word, size_t n, struct token_list *ids, struct err *e);

#endif
