/* The hash of n-grams. See ngram_hash.h. */
#include "engine/family/ngram_hash.h"

/* splitmix64 (Steele, Lea and Flood 2014). */
static const uint64_t gamma_step = UINT64_C(0x9E3779B97F4A7C15);
static uint64_t ngram_mix(uint64_t x)
{
	x += gamma_step;
	x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
	return x ^ x >> 31;
}

static bool ngram_is_prime(uint64_t n)
{
	if (n < 4 || n % 2 == 0)
		return n == 2 || n == 3;
	for (uint64_t d = 3; d * d <= n; d += 2)
		if (n % d == 0)
			return false;
	return true;
}

static uint64_t ngram_next_prime(uint64_t after)
{
	do
		after++;
	while (!ngram_is_prime(after));
	return after;
}

void ngram_hash_make(struct ngram_hash *h, const struct ngram_sizes *n, uint32_t table)
{
	*h = (struct ngram_hash){.size = n->size,
				 .heads = n->heads,
				 .rows = (n->size - 1) * n->heads,
				 .end = n->end};
	/* An odd multiplier for each token of an n-gram, small enough that products do not
	 * overflow. */
	uint64_t bound = (uint64_t)INT64_MAX / n->vocabulary / 2;
	for (uint32_t i = 0; i < n->size; i++)
		h->multiplier[i] = 2 * (ngram_mix(n->seed + UINT64_C(10007) * table +
						  gamma_step * (i + 1)) %
					(bound ? bound : 1)) +
				   1;
	/* Primes increase over all tables. */
	uint64_t prime = n->base - 1;
	for (uint32_t i = 0; i < table * h->rows; i++)
		prime = ngram_next_prime(prime);
	for (uint32_t i = 0; i < h->rows; i++) {
		prime = ngram_next_prime(prime);
		h->prime[i] = prime;
		h->offset[i] = h->table_rows;
		h->table_rows += prime;
	}
	h->table_rows = (h->table_rows + n->divisor - 1) / n->divisor * n->divisor;
}

void ngram_hash_set(struct ngram_hash *h, const struct ngram_sizes *n, const uint64_t *multiplier,
		    const uint64_t *prime, uint64_t table_rows)
{
	uint64_t offset = 0;
	*h = (struct ngram_hash){.size = n->size,
				 .heads = n->heads,
				 .rows = (n->size - 1) * n->heads,
				 .end = n->end,
				 .table_rows = table_rows};
	for (uint32_t i = 0; i < n->size; i++)
		h->multiplier[i] = multiplier[i];
	for (uint32_t i = 0; i < h->rows; i++) {
		h->prime[i] = prime[i];
		h->offset[i] = offset;
		offset += prime[i];
	}
}

void ngram_hash_rows(const struct ngram_hash *h, uint32_t token, const uint32_t *before,
		     uint32_t count, uint64_t *rows)
{
	uint64_t mixed = token * h->multiplier[0];
	bool ended = false;
	for (uint32_t n = 2; n <= h->size; n++) {
		ended = ended || n - 2 >= count || before[n - 2] == h->end;
		mixed ^= (ended ? h->end : before[n - 2]) * h->multiplier[n - 1];
		for (uint32_t i = (n - 2) * h->heads; i < (n - 1) * h->heads; i++)
			rows[i] = mixed % h->prime[i] + h->offset[i];
	}
}
