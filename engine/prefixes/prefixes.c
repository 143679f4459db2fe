/* The entries and their order of use. See prefixes.h. */
#include "engine/prefixes/prefixes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xxhash.h>

/* ---- the list; the budget's lock is held ---- */

static void prefix_take_out(struct prefixes *p, struct prefix *x)
{
	struct prefix **at = &p->first;
	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	x->next = NULL;
	p->count--;
}

static void prefix_put_first(struct prefixes *p, struct prefix *x)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	x->used_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	x->next = p->first;
	p->first = x;
	p->count++;
}

static void prefix_use(struct prefixes *p, struct prefix *x)
{
	prefix_take_out(p, x);
	prefix_put_first(p, x);
}

/* The least recently used entry that is not pinned; NULL: none. */
static struct prefix *prefix_oldest(const struct prefixes *p)
{
	struct prefix *oldest = NULL;
	for (struct prefix *x = p->first; x; x = x->next)
		if (!x->pinned)
			oldest = x;
	return oldest;
}

static struct prefix *prefix_with(const struct prefixes *p, uint64_t id)
{
	struct prefix *x = p->first;
	while (x && x->id != id)
		x = x->next;
	return x;
}

/* Call this after entries were added, removed or pinned: the entries count as spare while one of
 * them can be freed. */
static void prefixes_set_spare(struct prefixes *p)
{
	if (prefix_oldest(p))
		context_spare_last(p->budget, &p->spare);
	else
		context_spare_none(p->budget, &p->spare);
}

/* ---- giving memory back ---- */

/* A hash of the key. */
static uint64_t prefix_key_hash(const struct prefix_key *k)
{
	uint64_t numbers[] = {k->owner, k->weights, k->losses.experts_per_token, k->losses.steered,
			      k->long_text};
	return XXH3_64bits_withSeed(k->share, strlen(k->share),
				    XXH3_64bits(numbers, sizeof numbers));
}

/* The lock is held. */
static void prefix_evict(struct prefixes *p, struct prefix *x)
{
	evicted_note(&p->evicted, prefix_key_hash(&x->key), &x->context.tokens, p->goes_back);
	prefix_take_out(p, x);
}

/* Frees an entry and those linked to it. Call it without the lock. NULL is fine. */
static void prefix_free(struct prefix *x)
{
	for (struct prefix *next; x; x = next) {
		next = x->next;
		context_free(&x->context);
		free(x);
	}
}

/* The callback of context_spare: frees the least recently used entry. Freeing a context takes the
 * lock, so the lock is released meanwhile. Another thread that finds no spare memory at that moment
 * may get -ENOSPC. */
static void prefixes_give_way(struct context_spare *spare)
{
	struct prefixes *p = (void *)((char *)spare - offsetof(struct prefixes, spare));
	struct prefix *oldest = prefix_oldest(p);
	prefix_evict(p, oldest);
	prefixes_set_spare(p);
	struct context_budget *budget = p->budget;
	pthread_mutex_unlock(&budget->lock);
	prefix_free(oldest);
	pthread_mutex_lock(&budget->lock);
}

void prefixes_init(struct prefixes *p, struct context_budget *budget, const struct config *config,
		   enum kv_type type)
{
	struct context x;
	context_init(&x, budget, config, type);
	*p = (struct prefixes){
		.budget = budget,
		.config = config,
		.type = type,
		.goes_back = !x.recurrent.bytes && !x.kv[KV_WINDOWED].used,
		.spare.give_way = prefixes_give_way,
		.next_id = 1,
	};
}

void prefixes_free(struct prefixes *p)
{
	if (!p->budget)
		return;
	pthread_mutex_lock(&p->budget->lock);
	context_spare_none(p->budget, &p->spare);
	struct prefix *all = p->first;
	p->first = NULL;
	p->count = 0;
	pthread_mutex_unlock(&p->budget->lock);
	prefix_free(all);
}

/* ---- finding ---- */

static bool prefix_same_owner(const struct prefix_key *a, const struct prefix_key *b)
{
	return a->owner == b->owner && !strcmp(a->share, b->share);
}

static bool prefix_same_key(const struct prefix_key *a, const struct prefix_key *b)
{
	return prefix_same_owner(a, b) && a->weights == b->weights &&
	       a->long_text == b->long_text && step_same_losses(&a->losses, &b->losses);
}

size_t prefixes_common(const struct token_list *a, const struct token_list *b)
{
	size_t n = a->count < b->count ? a->count : b->count, i = 0;
	while (i < n && a->ids[i] == b->ids[i])
		i++;
	return i;
}

/* How many positions a context can take over from an entry with `common` equal ids. */
static size_t prefix_reach(const struct prefixes *p, const struct prefix *x, size_t common,
			   size_t wanted)
{
	size_t reach = common < wanted ? common : wanted - 1;
	return p->goes_back || reach == x->context.tokens.count ? reach : 0;
}

void prefixes_look(const struct token_list *have, const struct prefix_key *computed,
		   const struct prefix_key *key, size_t common, size_t wanted,
		   struct prefix_found *found)
{
	found->common = common;
	found->look_count = 0;
	for (size_t i = common; i < have->count && found->look_count < PREFIX_LOOK; i++)
		found->look[found->look_count++] = have->ids[i];
	found->reason = computed->weights != key->weights		     ? PREFIX_WEIGHTS
			: !step_same_losses(&computed->losses, &key->losses) ? PREFIX_LOSSES
			: computed->long_text != key->long_text		     ? PREFIX_LONG
			: common < have->count && common + 1 < wanted	     ? PREFIX_DIFFERS
									     : PREFIX_ALL;
}

/* Finds the entry with the most usable positions, *reach. The lock is held. */
static struct prefix *prefix_best(const struct prefixes *p, const struct prefix_key *key,
				  const struct token_list *ids, size_t *reach,
				  struct prefix_found *found)
{
	struct prefix *best = NULL;
	for (struct prefix *x = p->first; x; x = x->next) {
		if (!prefix_same_owner(&x->key, key))
			continue;
		size_t common = prefixes_common(&x->context.tokens, ids);
		size_t here =
			prefix_same_key(&x->key, key) ? prefix_reach(p, x, common, ids->count) : 0;
		if (common > found->common)
			prefixes_look(&x->context.tokens, &x->key, key, common, ids->count, found);
		if (here > *reach) {
			*reach = here;
			best = x;
		}
	}
	return best;
}

/* Notes in *found if more of the text was kept earlier but was evicted. The lock is held. */
static void prefix_look_evicted(const struct prefixes *p, const struct prefix_key *key,
				const struct token_list *ids, struct prefix_found *found)
{
	size_t least = found->common < PREFIX_LEAST ? PREFIX_LEAST - 1 : found->common;
	size_t positions = evicted_find(&p->evicted, prefix_key_hash(key), ids, least);
	if (!positions)
		return;
	found->common = positions;
	found->look_count = 0;
	found->reason = PREFIX_EVICTED;
}

size_t prefixes_reach(struct prefixes *p, const struct prefix_key *key,
		      const struct token_list *ids)
{
	size_t reach = PREFIX_LEAST - 1;
	struct prefix_found found = {.reason = PREFIX_NONE};
	pthread_mutex_lock(&p->budget->lock);
	bool any = prefix_best(p, key, ids, &reach, &found);
	pthread_mutex_unlock(&p->budget->lock);
	return any ? reach : 0;
}

void prefixes_find(struct prefixes *p, const struct prefix_key *key, const struct token_list *ids,
		   size_t least, struct context *to, struct prefix_found *found)
{
	struct err ignored; /* after an error the text is computed */
	size_t reach = least > PREFIX_LEAST ? least : PREFIX_LEAST - 1;
	*found = (struct prefix_found){.reason = PREFIX_NONE};
	pthread_mutex_lock(&p->budget->lock);
	struct prefix *best = prefix_best(p, key, ids, &reach, found);
	prefix_look_evicted(p, key, ids, found);
	int failed = best ? context_fork(to, &best->context, &ignored) : 0;
	if (best) {
		prefix_use(p, best);
		found->id = best->id;
	}
	pthread_mutex_unlock(&p->budget->lock);
	if (best)
		found->positions = context_rollback(to, failed ? 0 : reach);
}

/* ---- keeping ---- */

/* Finds an entry that has all of this text already. Or sets *continued to the entry that this text
 * continues. The lock is held. */
static struct prefix *prefix_like(const struct prefixes *p, const struct prefix_key *key,
				  const struct token_list *ids, bool *continued)
{
	for (struct prefix *x = p->first; x; x = x->next) {
		if (!prefix_same_key(&x->key, key))
			continue;
		const struct token_list *has = &x->context.tokens;
		size_t common = prefixes_common(has, ids);
		bool whole = p->goes_back ? common == ids->count
					  : common == ids->count && common == has->count;
		*continued = p->goes_back && !x->pinned && common == has->count && !whole;
		if (whole || *continued)
			return x;
	}
	*continued = false;
	return NULL;
}

/* Creates an entry that is in no list yet. NULL: out of memory. */
static struct prefix *prefix_new(struct prefixes *p, const struct prefix_key *key, uint32_t owner,
				 const struct token_list *ids, uint64_t text_bytes)
{
	struct prefix *x = calloc(1, sizeof *x);
	if (!x)
		return NULL;
	*x = (struct prefix){
		.owner = owner,
		.key = *key,
		.hash = XXH3_64bits(ids->ids, ids->count * sizeof *ids->ids),
		.text_bytes = text_bytes,
	};
	context_init(&x->context, p->budget, p->config, p->type);
	return x;
}

/* Removes the entries that must go before a new one is added, and returns them, linked by next:
 * entries of other weights, and the oldest ones if there are too many. With recurrent states, their
 * memory is limited, too: half of the budget stays for states and checkpoints of sessions. The lock
 * is held. */
static struct prefix *prefixes_make_place(struct prefixes *p, const struct prefix *new)
{
	struct prefix *gone = NULL, *next;
	uint64_t state = new->context.recurrent.bytes;
	uint64_t most = state ? atomic_load(&p->budget->limit) / 2 / state : PREFIXES_MOST;
	most = most < PREFIXES_MOST ? most : PREFIXES_MOST;
	for (struct prefix *x = p->first; x; x = next) {
		next = x->next;
		if (x->key.weights == new->key.weights)
			continue;
		prefix_take_out(p, x);
		x->next = gone;
		gone = x;
	}
	struct prefix *oldest;
	while (p->count >= most && (oldest = prefix_oldest(p))) {
		prefix_evict(p, oldest);
		oldest->next = gone;
		gone = oldest;
	}
	return gone;
}

/* Adds a new entry, which replaces the entry that it continues. Returns the removed entries. The
 * lock is held. */
static struct prefix *prefix_insert(struct prefixes *p, struct prefix *x, struct prefix *continued)
{
	x->id = continued ? continued->id : p->next_id++;
	if (continued)
		prefix_take_out(p, continued);
	struct prefix *gone = prefixes_make_place(p, x);
	if (continued) {
		continued->next = gone;
		gone = continued;
	}
	prefix_put_first(p, x);
	prefixes_set_spare(p);
	return gone;
}

uint64_t prefixes_offer(struct prefixes *p, const struct prefix_key *key, uint32_t owner,
			struct context *from, uint64_t text_bytes)
{
	struct err ignored; /* after an error the text is computed again */
	struct prefix_key own = *key;
	own.long_text = from->long_text;
	if (from->tokens.count < PREFIX_LEAST || recurrent_stale(&from->recurrent))
		return 0;
	struct prefix *new = prefix_new(p, &own, owner, &from->tokens, text_bytes), *gone = new;
	bool continued;
	uint64_t id = 0;
	pthread_mutex_lock(&p->budget->lock);
	struct prefix *old = prefix_like(p, &own, &from->tokens, &continued);
	if (old && !continued) {
		prefix_use(p, old);
		id = old->id;
	} else if (new && !context_fork(&new->context, from, &ignored)) {
		gone = prefix_insert(p, new, old);
		id = new->id;
	}
	pthread_mutex_unlock(&p->budget->lock);
	prefix_free(gone);
	return id;
}

/* ---- for the owner: inspecting and changing entries ---- */

static void prefix_print_name(const struct prefix *x, char name[MODEL_PREFIX_NAME])
{
	(void)snprintf(name, MODEL_PREFIX_NAME, "%zu-%016" PRIx64, x->context.tokens.count,
		       x->hash);
}

/* The lock is held. */
static void prefix_describe(const struct prefix *x, struct model_prefix *out)
{
	*out = (struct model_prefix){
		.id = x->id,
		.owner = x->owner,
		.pinned = x->pinned,
		.text_bytes = x->text_bytes,
		.own_bytes = context_own_bytes(&x->context),
		.used_ns = x->used_ns,
	};
	prefix_print_name(x, out->name);
}

bool prefixes_next(struct prefixes *p, uint64_t id, struct model_prefix *out)
{
	const struct prefix *least = NULL;
	pthread_mutex_lock(&p->budget->lock);
	for (const struct prefix *x = p->first; x; x = x->next)
		if (x->id >= id && (!least || x->id < least->id))
			least = x;
	if (least)
		prefix_describe(least, out);
	pthread_mutex_unlock(&p->budget->lock);
	return least;
}

bool prefixes_named(struct prefixes *p, const char *name, struct model_prefix *out)
{
	char printed[MODEL_PREFIX_NAME];
	pthread_mutex_lock(&p->budget->lock);
	const struct prefix *x = p->first;
	for (; x; x = x->next) {
		prefix_print_name(x, printed);
		if (!strcmp(printed, name))
			break;
	}
	if (x)
		prefix_describe(x, out);
	pthread_mutex_unlock(&p->budget->lock);
	return x;
}

static int prefix_gone(struct err *e)
{
	return err_set(e, ENOENT, "this prefix is no longer kept");
}

int prefixes_ids(struct prefixes *p, uint64_t id, struct token_list *out, struct err *e)
{
	pthread_mutex_lock(&p->budget->lock);
	const struct prefix *x = prefix_with(p, id);
	int failed = x ? token_list_append(out, x->context.tokens.ids, x->context.tokens.count, e)
		       : prefix_gone(e);
	pthread_mutex_unlock(&p->budget->lock);
	return failed;
}

int prefixes_remove(struct prefixes *p, uint64_t id, struct err *e)
{
	pthread_mutex_lock(&p->budget->lock);
	struct prefix *x = prefix_with(p, id);
	int failed = !x		 ? prefix_gone(e)
		     : x->pinned ? err_set(e, EBUSY, "this prefix is pinned; chmod -t it first")
				 : 0;
	if (!failed) {
		prefix_take_out(p, x);
		prefixes_set_spare(p);
	}
	pthread_mutex_unlock(&p->budget->lock);
	if (!failed)
		prefix_free(x);
	return failed;
}

int prefixes_touch(struct prefixes *p, uint64_t id, struct err *e)
{
	pthread_mutex_lock(&p->budget->lock);
	struct prefix *x = prefix_with(p, id);
	if (x)
		prefix_use(p, x);
	pthread_mutex_unlock(&p->budget->lock);
	return x ? 0 : prefix_gone(e);
}

/* The bytes of an entry, as if it shared no memory. The lock is held. */
static uint64_t prefix_full_bytes(const struct prefix *x)
{
	uint64_t bytes = x->context.recurrent.bytes;
	for (int kind = 0; kind < KV_KINDS; kind++)
		bytes += (uint64_t)(x->context.kv[kind].count - x->context.kv[kind].from) *
			 x->context.kv[kind].bytes;
	return bytes;
}

static int prefix_check_pinned(const struct prefixes *p, const struct prefix *new, struct err *e)
{
	uint64_t bytes = prefix_full_bytes(new), most = atomic_load(&p->budget->limit) / 2;
	for (const struct prefix *x = p->first; x; x = x->next)
		bytes += x->pinned && x != new ? prefix_full_bytes(x) : 0;
	return bytes <= most ? 0
			     : err_set(e, ENOSPC,
				       "pinned prefixes may hold half of the contexts' budget, "
				       "%.1f MB; this would make them %.1f MB",
				       (double)most / 1e6, (double)bytes / 1e6);
}

int prefixes_pin(struct prefixes *p, uint64_t id, bool pinned, struct err *e)
{
	pthread_mutex_lock(&p->budget->lock);
	struct prefix *x = prefix_with(p, id);
	int failed = !x ? prefix_gone(e) : pinned && !x->pinned ? prefix_check_pinned(p, x, e) : 0;
	if (!failed) {
		x->pinned = pinned;
		prefixes_set_spare(p);
	}
	pthread_mutex_unlock(&p->budget->lock);
	return failed;
}
