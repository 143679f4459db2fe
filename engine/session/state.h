/* A session as a file (session.h): definitions for all parts of the file.
 *
 * The format, little-endian (this folder's README.md describes it for other programs):
 *
 *     struct state_head
 *     texts     records: struct state_record, then its bytes
 *     context   as compute/context_save.h has it
 *     u64       XXH3-64 of all bytes before
 *
 * The file is not trusted: its contents are used only after its checksum is verified, sizes are
 * checked before memory is allocated, and the memory counts in the context budget.
 */
#ifndef MOEFS_ENGINE_SESSION_STATE_H
#define MOEFS_ENGINE_SESSION_STATE_H

#include "engine/session/session_state.h"
#include "engine/json/text_out.h"

#define STATE_MAGIC "moefs\nST" /* the newline does not survive what takes it for a text */
enum {
	STATE_VERSION = 2,	      /* version 1 can be read, too: there `arithmetic` is 0 */
	STATE_TEXTS_MOST = 256 << 20, /* bytes of all records; each text has a lower limit */
};

struct state_head {
	char magic[8];
	uint32_t version;
	uint8_t exact; /* of the recipe; 0 or 1 */
	/* Type of keys and values. 0: floats, whose width follows from `exact`; else the number of
	 * the type. If the reader uses another type, it ignores the context. */
	uint8_t kv;
	/* KERNELS_ARITHMETIC of the program that computed the context. If the reader's is
	 * different, it ignores the context and computes the texts again. */
	uint16_t arithmetic;
	uint64_t bytes; /* of the whole file */
	uint64_t texts_bytes, context_bytes;
	uint64_t config_sum;  /* model_identity.h */
	uint64_t weights_sum; /* of the context; 0: there is no context */
	char quant[24];	      /* name of the recipe, zero-padded */
	char model[96];	      /* name of the model, zero-padded, perhaps cut; only for messages */
	uint32_t experts_per_token; /* this and the next: lossy params of the context */
	float drop_missing;
	uint64_t sum; /* XXH3-64 of the bytes before this field */
};
struct state_record {
	char name[32]; /* zero-padded */
	uint64_t bytes;
};

/* Fills the fields of the head that depend only on the model. */
void state_identify(const struct model *m, struct state_head *h);
/* The checksum of the model's weights; false: unknown until the model is loaded.
 */
bool state_weights(const struct model *m, uint64_t *sum);

/* state_saved.c, for session_save: saved_new allocates a saved state, saved_take fills it from the
 * session. */
int saved_new(struct saved **out, struct err *e);
int saved_take(struct saved *v, struct session *s, struct err *e);
/* Moves everything into a new session that no other thread knows, without writing bytes. The
 * context is shared and takes nothing from the context budget. Afterwards *v can only be closed.
 * -ENOMEM. */
int saved_give(struct saved *v, struct session *to, struct err *e);
/* session_state_bytes */
uint64_t saved_bytes_of(const struct session *s);

/* state_restored.c, for session_restore. restored_hold locks r against restored_feed; it fails if
 * bytes are missing. Call restored_release afterwards, also after an error. In between,
 * restored_give moves the state into a session, once. */
int restored_hold(struct restored *r, struct err *e);
int restored_give(struct restored *r, struct session *s, struct err *e);
void restored_release(struct restored *r);

/* state_parts.c: the parts of a state other than the context and the params. */
struct state_part {
	const char *name;
	void (*put)(const struct session *s, struct text_out *out);
	int (*take)(struct session *to, const char *bytes, size_t n, struct err *e);
};
extern const struct state_part state_parts[];
extern const size_t state_part_count;

/* state_texts.c. state_texts_write appends the records of a session without a turn in progress, or
 * counts their bytes. state_texts_read reads records into a new session that no other thread knows;
 * if it fails, drop that session. -EINVAL, -ENOMEM. */
void state_texts_write(const struct session *s, struct text_out *out);
int state_texts_read(struct session *to, const char *texts, size_t n, struct err *e);
/* state_texts_swap exchanges all data that is saved in records; state_texts_free frees this data of
 * `other`. */
void state_texts_swap(struct session *s, struct session *other);
void state_texts_free(struct session *other);

#endif
