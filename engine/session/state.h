/* A session as a file (session.h): what all of its parts have in common.
 *
 * Little-endian, one after the other (README.md of this folder has the same for other readers):
 *
 *     struct state_head
 *     texts     records: struct state_record, then its bytes
 *     context   as compute/context_save.h has it
 *     u64       XXH3-64 of all bytes before
 *
 * Who writes one is not trusted: nothing of it is used for anything before its sum is right, sizes
 * are bounded before memory is taken, and that memory is the contexts'.
 */
#ifndef MOEFS_ENGINE_SESSION_STATE_H
#define MOEFS_ENGINE_SESSION_STATE_H

#include "engine/session/session_state.h"
#include "engine/json/text_out.h"

#define STATE_MAGIC "moefs\nST" /* the newline does not survive what takes it for a text */
enum {
	STATE_VERSION = 2,	      /* 1 is read, too: it has 0 in place of `arithmetic` */
	STATE_TEXTS_MOST = 256 << 20, /* bytes of records: texts of other files have bounds below */
};

struct state_head {
	char magic[8];
	uint32_t version;
	uint8_t exact; /* the recipe's; 0 or 1 */
	/* What keys and values are kept in: 0: floats, as wide as `exact` says; else the number of
	 * their type. Of another type, the context is left out as well. */
	uint8_t kv;
	/* KERNELS_ARITHMETIC of who computed the context. Of another, the context is left out, and
	 * its texts are computed again. */
	uint16_t arithmetic;
	uint64_t bytes; /* of the whole file */
	uint64_t texts_bytes, context_bytes;
	uint64_t config_sum;	    /* model_identity.h */
	uint64_t weights_sum;	    /* that the context was computed with; 0: there is none */
	char quant[24];		    /* the recipe's name, zero-padded */
	char model[96];		    /* the model's, cut if need be, zero-padded; for words alone */
	uint32_t experts_per_token; /* the losses that the context was computed with */
	float drop_missing;
	uint64_t sum; /* XXH3-64 of the bytes before */
};
struct state_record {
	char name[32]; /* zero-padded */
	uint64_t bytes;
};

/* Fills in the fields of the head that depend on the model only. */
void state_identify(const struct model *m, struct state_head *h);
/* The weights that the model computes with, or will; false: that is not known before it is loaded.
 */
bool state_weights(const struct model *m, uint64_t *sum);

/* state_saved.c, for session_save: the saved state's memory; then of the session as it is. */
int saved_new(struct saved **out, struct err *e);
int saved_take(struct saved *v, struct session *s, struct err *e);
/* Moves everything into a new session that no other thread knows, without bytes between. The
 * context is shared, and nothing is taken from the context budget. Afterwards *v can only be
 * closed. -ENOMEM in words. */
int saved_give(struct saved *v, struct session *to, struct err *e);
/* session_state_bytes */
uint64_t saved_bytes_of(const struct session *s);

/* state_restored.c, for session_restore. restored_hold locks it, so that it is not fed until
 * restored_release, which is called also after an error; an error: it is not complete.
 * restored_give then gives it to a session, once. */
int restored_hold(struct restored *r, struct err *e);
int restored_give(struct restored *r, struct session *s, struct err *e);
void restored_release(struct restored *r);

/* state_parts.c: the parts that are not computed and not params. */
struct state_part {
	const char *name;
	void (*put)(const struct session *s, struct text_out *out);
	int (*take)(struct session *to, const char *bytes, size_t n, struct err *e);
};
extern const struct state_part state_parts[];
extern const size_t state_part_count;

/* state_texts.c: appends the records of a session at rest, or counts them; takes them, all or none,
 * into a new session that no other thread knows. -EINVAL, -ENOMEM in words. */
void state_texts_write(const struct session *s, struct text_out *out);
int state_texts_read(struct session *to, const char *texts, size_t n, struct err *e);
/* Exchanges all that the records are of; then frees what `other` has. */
void state_texts_swap(struct session *s, struct session *other);
void state_texts_free(struct session *other);

#endif
