/* The measured loss of a store against its checkpoint (admin/loss_compare.h), in a small file
 * `loss` in the store's folder. */
#ifndef MOEFS_ENGINE_MODEL_STORE_LOSS_H
#define MOEFS_ENGINE_MODEL_STORE_LOSS_H

#include "cache/err.h"
#include "cache/store.h"

struct store_loss {
	double kl;	 /* mean KL divergence per token, in nats … */
	double error;	 /* … and its standard error over tokens */
	double same;	 /* fraction of tokens after which the most probable token is the same */
	uint32_t tokens; /* 0: the loss is unknown */
};

/* Reads the loss of the store with this key. -ENOENT: there is no file, or it is damaged or of
 * another store.
 */
int store_loss_read(struct store_loss *out, const char *folder, const struct store_key *key,
		    struct err *e);
/* Replaces the file. After an error the old file is unchanged. */
int store_loss_write(const struct store_loss *l, const char *folder, const struct store_key *key,
		     struct err *e);

#endif
