/* Embeddings of n-grams (Qwen 4): tables of up to hundreds of gigabytes, of which a token reads a
 * few rows. They are never loaded or converted: rows are read from the source's own files, in
 * whatever type it has. Which rows a batch needs is known when it begins, so they are asked for at
 * once and come while earlier layers are computed. What was read stays in the system's page cache.
 *
 * So a model with such tables needs its source while it is loaded.
 *
 * Not here: which rows a token has (family/ngram_hash.h); what becomes of them (ngram_layer.c). */
#ifndef MOEFS_ENGINE_COMPUTE_NGRAMS_H
#define MOEFS_ENGINE_COMPUTE_NGRAMS_H

#include "engine/family/sources.h"

struct ngram_tables;

struct ngram_counts {
	uint64_t rows;	 /* read */
	uint64_t waited; /* of these not in memory when they were needed */
	uint64_t bytes;	 /* of all tables */
};

/* Opens the tables in the source of a model that has some. -ENOENT, -EINVAL in words: the source is
 * gone, or not what the config says. */
int ngrams_open(struct ngram_tables **out, const struct config *c, const char *path, struct err *e);
void ngrams_close(struct ngram_tables *t); /* NULL is fine */

/* Asks the system for rows; returns at once. */
void ngrams_ahead(const struct ngram_tables *t, uint32_t table, const uint64_t *rows,
		  uint32_t count);
/* out[count][numbers of a row] = these rows. Adds to *waited how many were not in memory. Any thread.
 * -EIO in words. */
int ngrams_read(struct ngram_tables *t, uint32_t table, const uint64_t *rows, uint32_t count,
		float *out, uint32_t *waited, struct err *e);
struct ngram_counts ngrams_counts(const struct ngram_tables *t);
/* How many bytes of the tables are in memory: what the page cache holds of a sample of their pages,
 * times what the sample stands for. Reads nothing. */
uint64_t ngrams_resident(const struct ngram_tables *t);

#endif
