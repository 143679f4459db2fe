/* Byte-pair merging (Sennrich et al. 2016): a word begins as single bytes, and the neighbours whose
 * pair has the lowest rank are replaced by the pair's product, the leftmost first among equals,
 * until no pair has a merge. In a vocabulary of pieces a word begins as characters; a character
 * without a token is not merged by rank and becomes the tokens of its bytes.
 *
 * Searching the lowest pair again after each merge takes O(n^2), and a word may be a whole file
 * without a space. So the symbols are a doubly linked list and the pairs wait in a heap. A pair
 * that a neighbour's merge destroys stays in the heap; when it is popped and the symbols have
 * changed, it is dropped. */
#include "engine/tokenizer/bpe.h"

#include "engine/tokenizer/token.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

enum { NOWHERE = UINT32_MAX, SYMBOL_GONE = UINT32_MAX, SYMBOL_UNKNOWN = UINT32_MAX - 1 };

struct bpe_symbol {
	uint32_t id; /* SYMBOL_GONE: merged into the one before; SYMBOL_UNKNOWN: no token */
	uint32_t previous, next;
};

struct bpe_candidate {
	uint32_t position; /* of the left symbol */
	struct bpe_merge merge;
};

struct bpe_work {
	struct bpe_symbol *symbols; /* by the byte that each begins at */
	size_t symbol_capacity;
	struct bpe_candidate *heap; /* the next to merge is heap[0] */
	size_t heap_count, heap_capacity;
	const _Atomic bool *stop;
	/* The current word, and the merges to use. */
	const struct vocabulary *vocabulary;
	const struct bpe_merges *merges;
	const char *word;
	uint32_t length;
};

/* --- the table of merges --- */

void bpe_merges_free(struct bpe_merges *m)
{
	free(m->slots);
	free(m->by_score);
	*m = (struct bpe_merges){0};
}

/* The slot of a pair, or the free one where it would go. */
static struct bpe_merge *bpe_slot_of(const struct bpe_merges *m, uint32_t left, uint32_t right)
{
	uint64_t pair = (uint64_t)left << 32 | right;
	size_t mask = m->slot_count - 1;
	size_t i = XXH3_64bits_withSeed(&pair, sizeof pair, m->seed) & mask;
	while (m->slots[i].rank != MERGE_NONE &&
	       (m->slots[i].left != left || m->slots[i].right != right))
		i = (i + 1) & mask;
	return &m->slots[i];
}

/* Doubles the slots. The table grows with the valid merges that are read: a file can claim a
 * merge in two bytes. */
static int bpe_grow_table(struct bpe_merges *m, struct err *e)
{
	struct bpe_merges larger = {.slot_count = m->slot_count ? 2 * m->slot_count : 16,
				    .count = m->count,
				    .seed = m->seed};
	larger.slots = malloc(larger.slot_count * sizeof *larger.slots);
	if (!larger.slots)
		return err_set(e, ENOMEM, "out of memory for more than %zu merges", m->count);
	for (size_t i = 0; i < larger.slot_count; i++)
		larger.slots[i].rank = MERGE_NONE;
	for (size_t i = 0; i < m->slot_count; i++)
		if (m->slots[i].rank != MERGE_NONE)
			*bpe_slot_of(&larger, m->slots[i].left, m->slots[i].right) = m->slots[i];
	free(m->slots);
	*m = larger;
	return 0;
}

int bpe_merges_add(struct bpe_merges *m, struct bpe_merge merge, struct err *e)
{
	if (m->count >= m->slot_count / 3 * 2) {
		int rc = bpe_grow_table(m, e);
		if (rc < 0)
			return rc;
	}
	struct bpe_merge *slot = bpe_slot_of(m, merge.left, merge.right);
	m->count += slot->rank == MERGE_NONE;
	*slot = merge;
	return 0;
}

/* --- the heap --- */

static bool bpe_before(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
	if (a->merge.rank != b->merge.rank)
		return a->merge.rank < b->merge.rank;
	return a->position < b->position;
}

static int bpe_heap_push(struct bpe_work *w, struct bpe_candidate c, struct err *e)
{
	if (w->heap_count == w->heap_capacity) {
		size_t capacity = 2 * w->heap_capacity + 64;
		struct bpe_candidate *heap = realloc(w->heap, capacity * sizeof *heap);
		if (!heap)
			return err_set(e, ENOMEM, "out of memory for tokenizing a long word");
		w->heap = heap;
		w->heap_capacity = capacity;
	}
	size_t i = w->heap_count++;
	for (; i > 0 && bpe_before(&c, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = c;
	return 0;
}

static struct bpe_candidate bpe_heap_pop(struct bpe_work *w)
{
	struct bpe_candidate top = w->heap[0], last = w->heap[--w->heap_count];
	size_t i = 0;
	for (size_t child = 1; child < w->heap_count; child = 2 * i + 1) {
		if (child + 1 < w->heap_count && bpe_before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!bpe_before(&w->heap[child], &last))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return top;
}

/* --- merging --- */

struct bpe_work *bpe_work_new(const _Atomic bool *stop)
{
	struct bpe_work *w = calloc(1, sizeof *w);
	if (w)
		w->stop = stop;
	return w;
}

void bpe_work_free(struct bpe_work *w)
{
	if (!w)
		return;
	free(w->symbols);
	free(w->heap);
	free(w);
}

/* Finds the token that two neighbours spell together. */
static bool bpe_find_by_score(const struct bpe_work *w, uint32_t position, struct bpe_merge *merge)
{
	const struct bpe_symbol *left = &w->symbols[position], *right = &w->symbols[left->next];
	uint32_t n = (right->next == NOWHERE ? w->length : right->next) - position;
	if (n > w->vocabulary->longest)
		return false;
	int64_t product = vocabulary_find(w->vocabulary, w->word + position, n);
	if (product < 0)
		return false;
	*merge = (struct bpe_merge){left->id, right->id, (uint32_t)product,
				    w->merges->by_score[product]};
	return true;
}

/* Queues the pair at a position if the pair has a merge. */
static int bpe_queue_pair(struct bpe_work *w, uint32_t position, struct err *e)
{
	if (position == NOWHERE || w->symbols[position].next == NOWHERE)
		return 0;
	struct bpe_candidate c = {.position = position};
	if (w->merges->by_score)
		return bpe_find_by_score(w, position, &c.merge) ? bpe_heap_push(w, c, e) : 0;
	if (w->merges->count == 0) /* and no slots */
		return 0;
	const struct bpe_symbol *left = &w->symbols[position];
	c.merge = *bpe_slot_of(w->merges, left->id, w->symbols[left->next].id);
	return c.merge.rank == MERGE_NONE ? 0 : bpe_heap_push(w, c, e);
}

static int bpe_no_token(char byte, struct err *e)
{
	return err_set(e, EINVAL, "the tokenizer has no token for the byte 0x%02x of the text",
		       (unsigned)(uint8_t)byte);
}

/* Divides the word into its smallest symbols. */
static int bpe_begin_word(struct bpe_work *w, struct err *e)
{
	if (w->length > w->symbol_capacity) {
		size_t capacity = (size_t)w->length * 2;
		struct bpe_symbol *symbols = realloc(w->symbols, capacity * sizeof *symbols);
		if (!symbols)
			return err_set(e, ENOMEM, "out of memory for tokenizing a word of %u bytes",
				       w->length);
		w->symbols = symbols;
		w->symbol_capacity = capacity;
	}
	w->heap_count = 0;
	bool bytes = w->vocabulary->spelling == SPELLED_BYTES;
	uint32_t previous = NOWHERE, next;
	for (uint32_t i = 0; i < w->length; previous = i, i = next) {
		size_t n = 1;
		int64_t id = w->vocabulary->byte_id[(uint8_t)w->word[i]];
		if (bytes && id < 0)
			return bpe_no_token(w->word[i], e);
		if (!bytes && (uint8_t)w->word[i] >= 0x80) {
			utf8_decode(w->word + i, &n);
			id = vocabulary_find(w->vocabulary, w->word + i, n);
		}
		next = i + (uint32_t)n;
		w->symbols[i] = (struct bpe_symbol){id < 0 ? SYMBOL_UNKNOWN : (uint32_t)id,
						    previous, next < w->length ? next : NOWHERE};
	}
	return 0;
}

/* Carries out a merge if its pair still stands, else drops it. (A symbol of unknown id never
 * changes while it exists.) */
static int bpe_merge_pair(struct bpe_work *w, const struct bpe_candidate *c, struct err *e)
{
	struct bpe_symbol *left = &w->symbols[c->position];
	if (left->id != c->merge.left || left->next == NOWHERE ||
	    w->symbols[left->next].id != c->merge.right)
		return 0;
	struct bpe_symbol *right = &w->symbols[left->next];
	left->id = c->merge.product;
	left->next = right->next;
	right->id = SYMBOL_GONE;
	if (left->next != NOWHERE)
		w->symbols[left->next].previous = c->position;
	int rc = bpe_queue_pair(w, left->previous, e);
	return rc < 0 ? rc : bpe_queue_pair(w, c->position, e);
}

/* Appends the ids of the symbol at a position. */
static int bpe_take_symbol(const struct bpe_work *w, uint32_t position, struct token_list *ids,
			   struct err *e)
{
	const struct bpe_symbol *s = &w->symbols[position];
	if (s->id != SYMBOL_UNKNOWN)
		return token_list_append(ids, &s->id, 1, e);
	uint32_t end = s->next == NOWHERE ? w->length : s->next;
	int rc = 0;
	for (uint32_t i = position; rc == 0 && i < end; i++) {
		int32_t id = w->vocabulary->fallback_id[(uint8_t)w->word[i]];
		rc = id < 0 ? bpe_no_token(w->word[i], e)
			    : token_list_append(ids, &(uint32_t){(uint32_t)id}, 1, e);
	}
	return rc;
}

int bpe_encode(const struct vocabulary *v, const struct bpe_merges *m, struct bpe_work *w,
	       const char *word, size_t n, struct token_list *ids, struct err *e)
{
	if (n == 0)
		return 0;
	w->vocabulary = v;
	w->merges = m;
	w->word = word;
	w->length = (uint32_t)n;
	int rc = bpe_begin_word(w, e);
	for (uint32_t i = 0; rc == 0 && i != NOWHERE && !token_stop_asked(w->stop);
	     i = w->symbols[i].next)
		rc = bpe_queue_pair(w, i, e);
	while (rc == 0 && w->heap_count > 0 && !token_stop_asked(w->stop)) {
		struct bpe_candidate c = bpe_heap_pop(w);
		rc = bpe_merge_pair(w, &c, e);
	}
	if (rc == 0 && token_stop_asked(w->stop))
		return token_stop_error(e);
	for (uint32_t i = 0; rc == 0 && i != NOWHERE; i = w->symbols[i].next)
		rc = bpe_take_symbol(w, i, ids, e);
	return rc;
}
