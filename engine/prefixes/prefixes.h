/* Kept prefixes: what conversations have computed, for others that begin alike.
 *
 * An entry is a context at rest that shares the memory of the context that it was offered by. A
 * turn whose ids begin like an entry's takes over what it has computed: no memory is copied before
 * one of the two writes. Since a row's numbers do not depend on the other rows of its batch, the
 * text is the same as if all of it were computed again.
 *
 * Where a context can go back to any position, an entry is one end of the tree that the texts form,
 * and a text that continues an entry takes its place. Where a window or a recurrent state can only
 * go back to checkpoints, an entry is one checkpoint.
 *
 * Memory of entries is spare (context_budget.h): the entry that was used longest ago gives way to
 * whatever any context needs. Pinned entries stay.
 *
 * Threads: any. All fields are under the context budget's lock, which the functions take.
 */
#ifndef MOEFS_ENGINE_PREFIXES_PREFIXES_H
#define MOEFS_ENGINE_PREFIXES_PREFIXES_H

#include "engine/compute/context.h"
#include "engine/compute/step.h"
#include "engine/model.h"
#include "engine/prefixes/evicted.h"

enum {
	PREFIX_LEAST = 16, /* tokens: less is computed again in a moment */
	PREFIX_SHARE = 128,	 /* bytes of params/share_with */
	PREFIX_LOOK = 24,	 /* ids of each side that prefix_found shows */
	PREFIXES_MOST = 1024, /* entries of a model */
};

/* Only contexts with equal keys are shared. */
struct prefix_key {
	uint32_t owner; /* of the session; the same for all with -o share=all */
	char share[PREFIX_SHARE];
	uint64_t weights; /* their sum */
	struct losses losses;
	bool long_text; /* context.h; prefixes_offer takes the context's own */
};

struct prefix {
	struct prefix *next;
	uint64_t id; /* never given again */
	uint32_t owner;
	struct prefix_key key;
	struct context context;
	uint64_t hash; /* of the ids */
	uint64_t text_bytes;
	uint64_t used_ns; /* CLOCK_REALTIME */
	bool pinned;
};

struct prefixes {
	struct context_budget *budget;
	const struct config *config;
	enum kv_type type;
	bool goes_back; /* contexts go back to any position */
	struct context_spare spare;
	struct prefix *first; /* the one that was used last */
	uint32_t count;
	uint64_t next_id;
	struct evicted evicted;
};

/* config and budget outlive p. */
void prefixes_init(struct prefixes *p, struct context_budget *budget, const struct config *config,
		   enum kv_type type);
void prefixes_free(struct prefixes *p);

/* Why not all of a prompt was found. */
enum prefix_reason {
	PREFIX_ALL,	   /* it was */
	PREFIX_NONE,	   /* no text of this owner begins alike */
	PREFIX_EVICTED,	   /* the same text was kept for longer, and its memory was needed */
	PREFIX_DIFFERS,	   /* the texts part */
	PREFIX_LOSSES,	   /* the same text was computed with other params */
	PREFIX_WEIGHTS,	   /* or by other weights */
	PREFIX_LONG,	   /* or as part of a longer or shorter text, which the model turns otherwise */
	PREFIX_CHECKPOINT, /* the states that are kept are of earlier positions */
	PREFIX_GIVEN_UP,   /* the session had to give up its context */
	PREFIX_DISK_FULL,  /* and there was no room for it on disk */
	PREFIX_DISK_LOST,  /* and what was written to disk cannot be used */
	PREFIX_PRIVATE,	   /* the session shares nothing */
};

struct prefix_found {
	size_t positions; /* that were taken over; 0: none */
	uint64_t id;	  /* of the entry */
	/* The text of this owner that is most alike: its ids from `common` on; none of one that was
	 * evicted. */
	size_t common;
	uint32_t look[PREFIX_LOOK];
	size_t look_count;
	enum prefix_reason reason; /* of those before PREFIX_CHECKPOINT: why it parts there */
};
/* Finds what is kept of ids[0, count - 1): the last id is always computed, for its logits. If that
 * is more than `least` positions, `to`, which holds nothing, takes it over. */
void prefixes_find(struct prefixes *p, const struct prefix_key *key, const struct token_list *ids,
		   size_t least, struct context *to, struct prefix_found *found);
/* How many positions prefixes_find would take over; 0: none. Changes nothing. */
size_t prefixes_reach(struct prefixes *p, const struct prefix_key *key,
		      const struct token_list *ids);
/* Notes in *found how ids[wanted] compare with a text that was computed with this key: where they
 * part (`common`), what the text has there, and whether that is why it is of no further use. */
void prefixes_look(const struct token_list *have, const struct prefix_key *computed,
		   const struct prefix_key *key, size_t common, size_t wanted,
		   struct prefix_found *found);
/* How many ids at the beginning of both lists are equal. */
size_t prefixes_common(const struct token_list *a, const struct token_list *b);
/* Keeps what the context, which is at rest, has computed; returns the id of its entry, 0: none is
 * kept. owner: who may look at it; text_bytes: of its text. */
uint64_t prefixes_offer(struct prefixes *p, const struct prefix_key *key, uint32_t owner,
			struct context *from, uint64_t text_bytes);

/* ---- looking, and what its owner may do ---- */

/* Finds the entry with the smallest id that is at least `id`. Returns false if there is none. What
 * these two find says 0 sessions: which sessions share an entry is not known here. */
bool prefixes_next(struct prefixes *p, uint64_t id, struct model_prefix *out);
/* Finds the entry that has this name. */
bool prefixes_named(struct prefixes *p, const char *name, struct model_prefix *out);
/* A copy of its ids; -ENOENT, -ENOMEM in words. */
int prefixes_ids(struct prefixes *p, uint64_t id, struct token_list *out, struct err *e);
/* -ENOENT; remove: -EBUSY if it is pinned; pin: -ENOSPC if pinned entries would hold more than half
 * of the contexts' budget. In words. */
int prefixes_remove(struct prefixes *p, uint64_t id, struct err *e);
int prefixes_touch(struct prefixes *p, uint64_t id, struct err *e);
int prefixes_pin(struct prefixes *p, uint64_t id, bool pinned, struct err *e);

#endif
