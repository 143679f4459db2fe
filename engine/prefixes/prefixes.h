/* Kept prefixes: computed beginnings of conversations, for other conversations that begin the same
 * way.
 *
 * An entry is an unused context that shares the memory of the context it was made from. A turn
 * whose ids begin like an entry's takes over the entry's context. No memory is copied until one of
 * the two writes. A row's numbers do not depend on the other rows of its batch, so the answer is
 * the same as if everything were computed again.
 *
 * If contexts of the model can go back to any position, the entries are the leaves of a tree of
 * texts, and a text that continues an entry replaces it. If contexts can go back only to
 * checkpoints (sliding windows, recurrent states), each entry is one checkpoint.
 *
 * Memory of entries is spare (context_budget.h): if any context needs memory, the least recently
 * used entry is freed. Pinned entries stay.
 *
 * Any thread may call these functions. They take the context budget's lock, which protects all
 * fields.
 */
#ifndef MOEFS_ENGINE_PREFIXES_PREFIXES_H
#define MOEFS_ENGINE_PREFIXES_PREFIXES_H

#include "engine/compute/context.h"
#include "engine/compute/step.h"
#include "engine/model.h"
#include "engine/prefixes/evicted.h"

enum {
	PREFIX_LEAST = 16,    /* least tokens of an entry: fewer are quickly computed again */
	PREFIX_SHARE = 128,   /* most bytes of params/share_with */
	PREFIX_LOOK = 24,     /* most ids in prefix_found.look */
	PREFIXES_MOST = 1024, /* most entries per model */
};

/* Only contexts with equal keys are shared. */
struct prefix_key {
	uint32_t owner; /* of the session; with -o share=all the same for all sessions */
	char share[PREFIX_SHARE];
	uint64_t weights; /* checksum of the weights */
	struct losses losses;
	bool long_text; /* see context.h; prefixes_offer takes the context's */
};

struct prefix {
	struct prefix *next;
	uint64_t id; /* never reused */
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
	bool goes_back; /* contexts can go back to any position */
	struct context_spare spare;
	struct prefix *first; /* the most recently used */
	uint32_t count;
	uint64_t next_id;
	struct evicted evicted;
};

/* config and budget must outlive p. */
void prefixes_init(struct prefixes *p, struct context_budget *budget, const struct config *config,
		   enum kv_type type);
void prefixes_free(struct prefixes *p);

/* Why not more of a prompt was found. */
enum prefix_reason {
	PREFIX_ALL,	   /* all was found */
	PREFIX_NONE,	   /* no text of this owner begins the same way */
	PREFIX_EVICTED,	   /* more of the text was kept once, but was evicted */
	PREFIX_DIFFERS,	   /* the texts differ */
	PREFIX_LOSSES,	   /* the same text was computed with other lossy params */
	PREFIX_WEIGHTS,	   /* … with other weights */
	PREFIX_LONG,	   /* … in a text beyond (or within) rope_limit */
	PREFIX_CHECKPOINT, /* there are only states of earlier positions */
	PREFIX_GIVEN_UP,   /* the session had to give up its context */
	PREFIX_DISK_FULL,  /* … and there was no room on disk */
	PREFIX_DISK_LOST,  /* … and the copy on disk cannot be used */
	PREFIX_PRIVATE,	   /* the session does not share */
};

struct prefix_found {
	size_t positions; /* positions taken over; 0: none */
	uint64_t id;	  /* of the entry */
	/* The most similar text of this owner: its ids from index `common` on. Empty if that text
	 * was evicted. */
	size_t common;
	uint32_t look[PREFIX_LOOK];
	size_t look_count;
	enum prefix_reason reason; /* up to PREFIX_LONG: why the prefix ends at `common` */
};
/* Finds the longest kept prefix of ids[0, count - 1). (The last id is always computed, for its
 * logits.) If it is longer than `least` positions, `to`, which must be empty, takes it over. */
void prefixes_find(struct prefixes *p, const struct prefix_key *key, const struct token_list *ids,
		   size_t least, struct context *to, struct prefix_found *found);
/* How many positions prefixes_find would take over; 0: none. Changes nothing. */
size_t prefixes_reach(struct prefixes *p, const struct prefix_key *key,
		      const struct token_list *ids);
/* Compares ids[wanted] with a text computed with the key `computed`. Sets in *found where they
 * begin to differ (`common`), the text's ids there, and the reason why no more can be reused. */
void prefixes_look(const struct token_list *have, const struct prefix_key *computed,
		   const struct prefix_key *key, size_t common, size_t wanted,
		   struct prefix_found *found);
/* The length of the common beginning of two lists of ids. */
size_t prefixes_common(const struct token_list *a, const struct token_list *b);
/* Makes an entry from an unused context and returns its id; 0: none was made. owner: may inspect
 * the entry; text_bytes: length of its text. */
uint64_t prefixes_offer(struct prefixes *p, const struct prefix_key *key, uint32_t owner,
			struct context *from, uint64_t text_bytes);

/* ---- for the owner: inspecting and changing entries ---- */

/* Finds the entry with the smallest id that is at least `id`; false: there is none. This function
 * and prefixes_named set `sessions` to 0, since the sessions that share an entry are unknown here.
 */
bool prefixes_next(struct prefixes *p, uint64_t id, struct model_prefix *out);
/* Finds the entry with this name. */
bool prefixes_named(struct prefixes *p, const char *name, struct model_prefix *out);
/* Copies the entry's ids. -ENOENT, -ENOMEM. */
int prefixes_ids(struct prefixes *p, uint64_t id, struct token_list *out, struct err *e);
/* -ENOENT: no such entry. remove: -EBUSY if it is pinned. pin: -ENOSPC if pinned entries would hold
 * more than half of the context budget. */
int prefixes_remove(struct prefixes *p, uint64_t id, struct err *e);
int prefixes_touch(struct prefixes *p, uint64_t id, struct err *e);
int prefixes_pin(struct prefixes *p, uint64_t id, bool pinned, struct err *e);

#endif
