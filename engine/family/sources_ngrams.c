/* The tensors of n-gram tables: shards of rows, and the constants of the hash. They are not in the
 * plan or the store, but read from the published files. See sources.h. */
#include "engine/family/sources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMBEDDING "ple.ple_embedding."

/* The layer of a table. */
static uint32_t sources_ngram_layer(const struct config *c, uint32_t table)
{
	uint32_t layer = 0;
	while (layer + 1 < c->layers && c->layer[layer].ngrams != table + 1)
		layer++;
	return layer;
}

static const struct package_tensor *sources_ngram_tensor(const struct sources *s, uint32_t table,
							 const char *rest)
{
	char name[256];
	(void)snprintf(name, sizeof name, "%slayers.%u." EMBEDDING "%s", s->stem,
		       sources_ngram_layer(s->config, table), rest);
	return package_find(s->package, name);
}

int sources_find_shard(const struct sources *s, uint32_t table, uint32_t shard, struct source *out)
{
	const struct config *c = s->config;
	const struct package_tensor *t;
	char name[64];
	(void)snprintf(name, sizeof name, "ngram_embedding.shard_%u.weight", shard);
	if (c->gguf) /* one tensor has all rows */
		t = shard ? NULL : package_find(s->package, "per_layer_token_embd.weight");
	else
		t = sources_ngram_tensor(s, table, name);
	if (!t)
		return -ENOENT;
	*out = (struct source){.tensor = t,
			       .rows = (uint32_t)package_rows(t),
			       .cols = c->ngrams.dim / c->ngrams.hash[table].rows,
			       .format = package_read_format(t)};
	return 0;
}

/* ---- checks ---- */

static void sources_know(struct sources *s, const struct package_tensor *t)
{
	s->used[t - package_tensor(s->package, 0)] = true;
	s->floats[t - package_tensor(s->package, 0)] = true; /* see sources.h */
}

static int sources_check_shards(struct sources *s, uint32_t table, struct err *e)
{
	const struct ngram_hash *h = &s->config->ngrams.hash[table];
	uint64_t rows = 0;
	struct source shard;
	for (uint32_t i = 0; !sources_find_shard(s, table, i, &shard); i++) {
		const struct package_tensor *t = shard.tensor;
		if (t->dims != 2 || t->shape[1] != shard.cols || !t->shape[0] ||
		    t->shape[0] > UINT32_MAX)
			return err_set(e, EINVAL,
				       "tensor %s does not have rows of %u numbers, which config.json "
				       "makes of an n-gram",
				       t->name, shard.cols);
		if (!t->parts)
			return err_set(e, ENOTSUP, "tensor %s is of type %s, which is not read",
				       t->name, t->type);
		sources_know(s, t);
		rows += t->shape[0];
	}
	if (!rows)
		return err_set(e, ENOENT,
			       "the checkpoint has no table of n-grams, which a %s model needs; is "
			       "the download complete?",
			       s->config->model_type);
	if (rows != h->table_rows)
		return err_set(e, EINVAL,
			       "the table of n-grams has %llu rows, but config.json makes it %llu: is "
			       "the download complete?",
			       (unsigned long long)rows, (unsigned long long)h->table_rows);
	return 0;
}

/* Checks that a tensor of constants, if present, has these values. */
static int sources_check_constants(struct sources *s, uint32_t table, const char *rest,
				   const uint64_t *want, uint32_t count, struct err *e)
{
	const struct package_tensor *t = sources_ngram_tensor(s, table, rest);
	uint64_t have[NGRAM_ROWS];
	if (!t)
		return 0;
	sources_know(s, t);
	if (t->dims != 1 || t->shape[0] != count || strcmp(t->type, "I64") != 0 ||
	    t->part[0].bytes != count * sizeof *have)
		return err_set(e, EINVAL, "tensor %s is not a list of %u numbers of type I64",
			       t->name, count);
	int failed = package_read_part(s->package, t, 0, 0, 1, have, e);
	if (!failed && memcmp(have, want, count * sizeof *have) != 0)
		failed = err_set(e, EINVAL,
				 "tensor %s does not hold the constants that config.json gives; "
				 "with them, wrong rows of the table would be read",
				 t->name);
	return failed;
}

int sources_check_ngrams(struct sources *s, struct err *e)
{
	int failed = 0;
	for (uint32_t i = 0; i < s->config->ngrams.tables && !failed; i++) {
		const struct ngram_hash *h = &s->config->ngrams.hash[i];
		failed = sources_check_shards(s, i, e);
		if (!failed && !s->config->gguf)
			failed = sources_check_constants(s, i, "layer_multipliers", h->multiplier,
							 h->size, e);
		if (!failed && !s->config->gguf)
			failed = sources_check_constants(s, i, "ngram_heads_vocab_sizes", h->prime,
							 h->rows, e);
		if (!failed && !s->config->gguf)
			failed = sources_check_constants(s, i, "ngram_heads_offsets", h->offset,
							 h->rows, e);
	}
	return failed;
}
