/* What is known of a store's loss against its checkpoint (admin/loss_compare.h): a small file `loss`
 * in the store's folder. */
#ifndef MOEFS_ENGINE_MODEL_STORE_LOSS_H
#define MOEFS_ENGINE_MODEL_STORE_LOSS_H

#include "cache/err.h"
#include "cache/store.h"

struct store_loss {
	double kl;	 /* mean divergence after a token, in nats … */
	double error;	 /* … and its standard error over tokens */
	double same;	 /* share of tokens after which the likeliest one is the same */
	uint32_t tokens; /* 0: the loss is not known */
};

/* Of the store with this key; a file that is of another one, or damaged, counts as none (-ENOENT).
 */
int store_loss_read(struct store_loss *out, const char *folder, const struct store_key *key,
		    struct err *e);
/* Replaces the file. After a failure the old one is still there. */
int store_loss_write(const struct store_loss *l, const char *folder, const struct store_key *key,
		     struct err *e);

#endif
