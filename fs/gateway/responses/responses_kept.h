/* The newest responses, so that another can go on from one of them by its name. They lie in this
 * process's memory, bounded in their number and bytes; whoever's they are has them alone. Any
 * thread. */
#ifndef MOEFS_FS_GATEWAY_RESPONSES_RESPONSES_KEPT_H
#define MOEFS_FS_GATEWAY_RESPONSES_RESPONSES_KEPT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

/* How many, and of how many bytes together, are gone on from. */
enum { RESPONSES_KEPT = 256, RESPONSES_BYTES = 64 << 20 };

enum kept_text {
	KEPT_RESPONSE, /* as it was given */
	KEPT_MESSAGES, /* the conversation up to its answer, as messages.json has it */
	KEPT_INPUT,    /* the items of its request */
	KEPT_TEXTS,
};

struct responses_kept;

/* NULL: out of memory. */
struct responses_kept *responses_kept_create(size_t most, size_t bytes);
void responses_kept_free(struct responses_kept *k); /* NULL is fine */
/* Under an id without resp_; the objects are borrowed, and written down. One that is larger than
 * all that may be kept is not; nor is one that there is no memory for. */
void responses_kept_put(struct responses_kept *k, size_t key, const char *id,
			json_object *const texts[KEPT_TEXTS]);
/* A new object, or NULL. */
json_object *responses_kept_get(struct responses_kept *k, size_t key, const char *id,
				enum kept_text which);
bool responses_kept_remove(struct responses_kept *k, size_t key, const char *id);

#endif
