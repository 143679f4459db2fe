/* Byte-pair merging: a word begins as its single bytes, and the pair of neighbours with the lowest
 * rank is replaced by its product, the leftmost first among equals, until no pair has a merge
 * (Sennrich et al. 2016).
 *
 * Looking for the lowest pair anew after each merge takes time O(n^2), and a word may be a whole
 * file without a space. So the symbols are a doubly linked list and the pairs wait in a heap. An
 * entry is not taken out when a neighbour's merge destroys its pair; it is dropped when its turn
 * comes and the symbols are no longer those it was made of. */
#include "engine/text/bpe.h"

#include "engine/text/stop.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

enum { NOWHERE = UINT32_MAX, SYMBOL_GONE = UINT32_MAX };

struct symbol {
	uint32_t id; /* SYMBOL_GONE: merged into the one before */
	uint32_t previous, next;
};

struct candidate {
	uint32_t position; /* of the left symbol */
	struct merge merge;
};

struct bpe_work {
	struct symbol *symbols; /* by the byte that each begins at */
	size_t symbol_capacity;
	struct candidate *heap; /* the next to merge is heap[0] */
	size_t heap_count, heap_capacity;
	const _Atomic bool *stop;
};

/* --- the table of merges --- */

void merges_free(struct merges *m)
{
	free(m->slots);
	*m = (struct merges){0};
}

/* The slot of a pair, or the free one where it would go. */
static struct merge *slot_of(const struct merges *m, uint32_t left, uint32_t right)
{
	uint64_t pair = (uint64_t)left << 32 | right;
	size_t mask = m->slot_count - 1;
	size_t i = XXH3_64bits_withSeed(&pair, sizeof pair, m->seed) & mask;
	while (m->slots[i].rank != MERGE_NONE &&
	       (m->slots[i].left != left || m->slots[i].right != right))
		i = (i + 1) & mask;
	return &m->slots[i];
}

/* Twice as many slots. The table grows with the merges that are found to be good: how many a file
 * says that it has, it says in two bytes each. */
static int grow(struct merges *m, struct err *e)
{
	struct merges larger = {.slot_count = m->slot_count ? 2 * m->slot_count : 16,
				.count = m->count,
				.seed = m->seed};
	larger.slots = malloc(larger.slot_count * sizeof *larger.slots);
	if (!larger.slots)
		return err_set(e, ENOMEM, "no memory for more than %zu merges", m->count);
	for (size_t i = 0; i < larger.slot_count; i++)
		larger.slots[i].rank = MERGE_NONE;
	for (size_t i = 0; i < m->slot_count; i++)
		if (m->slots[i].rank != MERGE_NONE)
			*slot_of(&larger, m->slots[i].left, m->slots[i].right) = m->slots[i];
	free(m->slots);
	*m = larger;
	return 0;
}

int merges_add(struct merges *m, struct merge merge, struct err *e)
{
	if (m->count >= m->slot_count / 3 * 2) {
		int rc = grow(m, e);
		if (rc < 0)
			return rc;
	}
	struct merge *slot = slot_of(m, merge.left, merge.right);
	m->count += slot->rank == MERGE_NONE;
	*slot = merge;
	return 0;
}

/* --- the heap --- */

static bool before(const struct candidate *a, const struct candidate *b)
{
	if (a->merge.rank != b->merge.rank)
		return a->merge.rank < b->merge.rank;
	return a->position < b->position;
}

static int heap_push(struct bpe_work *w, struct candidate c, struct err *e)
{
	if (w->heap_count == w->heap_capacity) {
		size_t capacity = 2 * w->heap_capacity + 64;
		struct candidate *heap = realloc(w->heap, capacity * sizeof *heap);
		if (!heap)
			return err_set(e, ENOMEM, "no memory to tokenize a long word");
		w->heap = heap;
		w->heap_capacity = capacity;
	}
	size_t i = w->heap_count++;
	for (; i > 0 && before(&c, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = c;
	return 0;
}

static struct candidate heap_pop(struct bpe_work *w)
{
	struct candidate top = w->heap[0], last = w->heap[--w->heap_count];
	size_t i = 0;
	for (size_t child = 1; child < w->heap_count; child = 2 * i + 1) {
		if (child + 1 < w->heap_count && before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!before(&w->heap[child], &last))
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

/* Queues the pair that begins at a position, if there is one and it has a merge. */
static int consider(struct bpe_work *w, const struct merges *m, uint32_t position, struct err *e)
{
	if (position == NOWHERE || w->symbols[position].next == NOWHERE)
		return 0;
	if (m->count == 0) /* and no slots */
		return 0;
	const struct symbol *left = &w->symbols[position];
	const struct merge *merge = slot_of(m, left->id, w->symbols[left->next].id);
	if (merge->rank == MERGE_NONE)
		return 0;
	return heap_push(w, (struct candidate){position, *merge}, e);
}

/* The word as single bytes. */
static int begin(const struct vocabulary *v, struct bpe_work *w, const char *word, uint32_t n,
		 struct err *e)
{
	if (n > w->symbol_capacity) {
		struct symbol *symbols = realloc(w->symbols, (size_t)n * 2 * sizeof *symbols);
		if (!symbols)
			return err_set(e, ENOMEM, "no memory to tokenize a word of %u bytes", n);
		w->symbols = symbols;
		w->symbol_capacity = (size_t)n * 2;
	}
	for (uint32_t i = 0; i < n; i++) {
		int32_t id = v->byte_id[(uint8_t)word[i]];
		if (id < 0)
			return err_set(e, EINVAL,
				       "the tokenizer has no token for the byte 0x%02x of the text",
				       (unsigned)(uint8_t)word[i]);
		w->symbols[i] = (struct symbol){(uint32_t)id, i > 0 ? i - 1 : NOWHERE,
						i + 1 < n ? i + 1 : NOWHERE};
	}
	w->heap_count = 0;
	return 0;
}

/* Carries out a merge whose pair still stands; drops it otherwise. */
static int apply(struct bpe_work *w, const struct merges *m, const struct candidate *c,
		 struct err *e)
{
	struct symbol *left = &w->symbols[c->position];
	if (left->id != c->merge.left || left->next == NOWHERE ||
	    w->symbols[left->next].id != c->merge.right)
		return 0;
	struct symbol *right = &w->symbols[left->next];
	left->id = c->merge.product;
	left->next = right->next;
	right->id = SYMBOL_GONE;
	if (left->next != NOWHERE)
		w->symbols[left->next].previous = c->position;
	int rc = consider(w, m, left->previous, e);
	return rc < 0 ? rc : consider(w, m, c->position, e);
}

int bpe_encode(const struct vocabulary *v, const struct merges *m, struct bpe_work *w,
	       const char *word, size_t n, struct token_list *ids, struct err *e)
{
	int rc = begin(v, w, word, (uint32_t)n, e);
	for (uint32_t i = 0; rc == 0 && i < n && !stop_asked(w->stop); i++)
		rc = consider(w, m, i, e);
	while (rc == 0 && w->heap_count > 0 && !stop_asked(w->stop)) {
		struct candidate c = heap_pop(w);
		rc = apply(w, m, &c, e);
	}
	if (rc == 0 && stop_asked(w->stop))
		return stop_error(e);
	for (uint32_t i = 0; rc == 0 && i < n; i = w->symbols[i].next) {
		rc = token_list_append(ids, &w->symbols[i].id, 1, e);
		if (w->symbols[i].next == NOWHERE)
			break;
	}
	return rc;
}
