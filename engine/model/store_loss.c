/* The file `loss`: one line of text,
 *   moefs-loss 1 KL ERROR SAME TOKENS FINGERPRINT FINGERPRINT RECIPE
 * with the store's key at its end. */
#include "engine/model/store_loss.h"
#include "cache/store_files.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOSS_FILE "loss"
enum { LOSS_MOST = 256 };

static int store_loss_key(const struct store_key *key, char text[LOSS_MOST])
{
	return snprintf(text, LOSS_MOST, "%016" PRIx64 " %016" PRIx64 " %.*s\n",
			key->fingerprint[0], key->fingerprint[1], (int)sizeof key->recipe,
			key->recipe);
}

static bool store_loss_parse(struct store_loss *out, const char *text, const struct store_key *key)
{
	char of[LOSS_MOST];
	int at = 0;
	(void)store_loss_key(key, of);
	return sscanf(text, "moefs-loss 1 %lf %lf %lf %" SCNu32 " %n", &out->kl, &out->error,
		      &out->same, &out->tokens, &at) == 4 &&
	       at > 0 && out->tokens && isfinite(out->kl) && isfinite(out->error) &&
	       isfinite(out->same) && !strcmp(text + at, of);
}

int store_loss_read(struct store_loss *out, const char *folder, const struct store_key *key,
		    struct err *e)
{
	uint8_t *bytes;
	size_t n;
	char text[LOSS_MOST + 1] = "";
	int failed = store_small_file_read(&bytes, &n, LOSS_MOST, folder, LOSS_FILE, e);
	if (!failed) {
		memcpy(text, bytes, n);
		free(bytes);
	}
	if (!failed && !store_loss_parse(out, text, key))
		failed = err_set(e, ENOENT, "%s/" LOSS_FILE ": is of another store", folder);
	if (failed)
		*out = (struct store_loss){0};
	return failed;
}

int store_loss_write(const struct store_loss *l, const char *folder, const struct store_key *key,
		     struct err *e)
{
	char text[LOSS_MOST], of[LOSS_MOST];
	(void)store_loss_key(key, of);
	int n = snprintf(text, sizeof text, "moefs-loss 1 %.9g %.9g %.9g %" PRIu32 " %s", l->kl,
			 l->error, l->same, l->tokens, of);
	if (n < 0 || (size_t)n >= sizeof text)
		return err_set(e, EINVAL, "%s: a key too long", folder);
	return store_small_file_write(text, (size_t)n, folder, LOSS_FILE, LOSS_FILE ".new", e);
}
