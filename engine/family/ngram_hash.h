/* Which rows of an n-gram table belong to a token (Qwen 4): one for each head and each n from 2 on,
 * chosen by a hash of the token and the n - 1 tokens before it.
 *
 * The constants follow from the config (GGUF files have them as keys): a multiplier for each token
 * of an n-gram, and for each head a prime, which is its number of rows. The heads' rows are
 * contiguous. Checkpoints have the same constants as tensors; sources.c compares them. */
#ifndef MOEFS_ENGINE_FAMILY_NGRAM_HASH_H
#define MOEFS_ENGINE_FAMILY_NGRAM_HASH_H

#include <stdbool.h>
#include <stdint.h>

enum {
	NGRAM_TABLES = 8,	   /* most layers with a table */
	NGRAM_SIZE = 8,		   /* longest n-gram */
	NGRAM_ROWS = 64,	   /* most rows per token and table */
	NGRAM_BASE_MOST = 1 << 30, /* largest base from which primes are searched */
};

/* The values in a config. */
struct ngram_sizes {
	uint32_t vocabulary;
	uint32_t size;	/* the longest n; the shortest is 2 */
	uint32_t heads; /* rows per token for each n */
	uint64_t base, seed;
	uint32_t divisor; /* a table's rows are a multiple of this */
	uint32_t end;	  /* n-grams do not reach back beyond this token */
};

struct ngram_hash {
	uint32_t size, heads; /* as in the config */
	uint32_t rows;	      /* per token: heads · (size - 1), 2-grams first */
	uint64_t end;	      /* n-grams do not reach back beyond this token */
	uint64_t multiplier[NGRAM_SIZE];
	uint64_t prime[NGRAM_ROWS], offset[NGRAM_ROWS];
	uint64_t table_rows; /* in total, with padding */
};

/* Computes the constants of table number `table`. All sizes must be at least 1 and within the
 * limits above. */
void ngram_hash_make(struct ngram_hash *h, const struct ngram_sizes *n, uint32_t table);
/* The same with constants from a file: multiplier[n->size], prime[(n->size - 1) · n->heads], and
 * the number of rows of the table, which is at least the sum of the primes. */
void ngram_hash_set(struct ngram_hash *h, const struct ngram_sizes *n, const uint64_t *multiplier,
		    const uint64_t *prime, uint64_t table_rows);
/* Computes rows[h->rows] of a token. before: the tokens before it, the last one first, at most size
 * - 1. Positions before the text, and an end token with all before it, count as end tokens. */
void ngram_hash_rows(const struct ngram_hash *h, uint32_t token, const uint32_t *before,
		     uint32_t count, uint64_t *rows);

#endif
