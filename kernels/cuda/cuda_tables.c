/* Tables and shapes of launches for the kernels of cards (cuda_tables.h). */
#include "kernels/cuda/cuda_tables.h"
#include "kernels/cuda/cuda_attention.h"
#include "kernels/cuda/cuda_codes.h"
#include "kernels/block.h"
#include "kernels/tc.h"

const char *cuda_kernel_name(enum cuda_kernel k)
{
#define CUDA_NAME(name, operands) #name,
	static const char *const names[] = {CUDA_KERNELS(CUDA_NAME)};
#undef CUDA_NAME
	return names[k];
}

static uint32_t cuda_sign_word(const float signs[32])
{
	uint32_t word = 0;

	for (uint32_t i = 0; i < 32; i++)
		word |= (uint32_t)(signs[i] > 0) << i;
	return word;
}

void cuda_fill_signs(struct cuda_signs *signs)
{
	for (size_t w = 0; w < 4; w++) {
		signs->first[w] = cuda_sign_word(tq_signs1 + 32 * w);
		signs->second[w] = cuda_sign_word(tq_signs2 + 32 * w);
	}
}

void cuda_fill_pairs(uint16_t pairs[CUDA_PAIRS])
{
	const struct tc_codebook *book = tc_codebook(3);

	for (uint32_t i = 0; i < CUDA_PAIRS; i++) {
		const uint8_t first = (uint8_t)tc_code(book, i & 127),
			      second = (uint8_t)tc_code(book, i >> 3);
		pairs[i] = (uint16_t)(first | second << 8);
	}
}

/* Sixteen numbers in four words, 64 added to each. */
static void cuda_fill_nibbles(uint32_t to[4], const int8_t table[TC_NIBBLE])
{
	for (size_t w = 0; w < 4; w++) {
		to[w] = 0;
		for (size_t i = 0; i < 4; i++)
			to[w] |= (uint32_t)(table[4 * w + i] + TC_OFFSET) << 8 * i;
	}
}

void cuda_fill_trellis(struct cuda_trellis *t, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);

	cuda_fill_nibbles(t->newest, book->newest);
	cuda_fill_nibbles(t->before, book->before);
	t->gain = book->gain;
}

/* ---- launches ---- */

enum cuda_kernel cuda_product_kernel(enum format format, uint32_t n)
{
	const uint32_t first = format == FORMAT_TC3    ? cuda_tc3_product_1_number
			       : format == FORMAT_TC4  ? cuda_tc4_product_1_number
			       : format == FORMAT_Q4_K ? cuda_q4_k_product_1_number
						       : CUDA_KERNEL_COUNT;
	uint32_t more = 0;

	if (first == CUDA_KERNEL_COUNT)
		return CUDA_KERNEL_COUNT;
	while (1U << more < n)
		more++;
	return (enum cuda_kernel)(first + more);
}

uint32_t cuda_product_groups(enum format format, uint32_t cols)
{
	return format == FORMAT_Q4_K ? cols / (BLOCK * CUDA_K_BLOCKS) : (uint32_t)tq_groups(cols);
}

static uint32_t cuda_parts(uint32_t n, uint32_t each)
{
	return (n + each - 1) / each;
}

struct cuda_grid cuda_prepare_grid(enum cuda_kernel k, const struct cuda_prepare *p)
{
	const uint32_t warps = 4, width = k == cuda_tq_prepare_number ? TQ_GROUP : BLOCK;
	const struct cuda_grid g = {cuda_parts(p->n * cuda_parts(p->k, width), warps), 1,
				    warps * CUDA_WARP, 0};
	return g;
}

/* Tiles at once, so that every processor has a block of threads and no block more threads than its
 * kernel may: TC3's pairs are made once for each block. */
static uint32_t cuda_product_tiles(uint32_t all, uint32_t n, uint32_t pass, uint32_t processors)
{
	const uint32_t threads = n <= 2 ? 1024 : n == 4 ? 512 : 256, most = threads / (pass * CUDA_ROWS);
	const uint32_t wanted = cuda_parts(all, processors);

	return wanted < most ? wanted : most;
}

struct cuda_grid cuda_product_grid(enum cuda_kernel k, struct cuda_product *p, uint32_t matrices,
				   uint32_t processors)
{
	const bool q4 = k >= cuda_q4_k_product_1_number, pairs = k < cuda_tc4_product_1_number;
	const uint32_t first = q4      ? cuda_q4_k_product_1_number
			       : pairs ? cuda_tc3_product_1_number
				       : cuda_tc4_product_1_number;
	const uint32_t n = 1U << (k - first), most = q4 ? 32 : 16;
	const uint32_t items = q4 ? p->groups * CUDA_K_BLOCKS : p->groups;
	const uint32_t tiles = cuda_parts(p->rows, CUDA_ROWS);
	uint32_t pass = items < most ? items + items % 2 : most;
	struct cuda_grid g = {0, matrices, 0, 0};

	pass = pass < n ? n : pass;
	p->tiles = q4 ? 1 : cuda_product_tiles(tiles * matrices, n, pass, processors);
	g.threads = p->tiles * pass * CUDA_ROWS;
	g.shared = (n + (q4 ? 2 : 1)) * g.threads * (uint32_t)sizeof(float) +
		   (pairs ? CUDA_PAIRS * CUDA_COPIES * (uint32_t)sizeof(uint16_t) : 0);
	g.x = cuda_parts(tiles, p->tiles);
	if (pairs) {
		const uint32_t at_once = cuda_parts(processors, matrices);
		g.x = g.x < at_once ? g.x : at_once;
	}
	return g;
}

enum { CUDA_THREADS = 256 }; /* of a block, where nothing asks for another number */

static uint32_t cuda_whole_warps(uint32_t threads)
{
	return cuda_parts(threads, CUDA_WARP) * CUDA_WARP;
}

struct cuda_grid cuda_norms_grid(const struct cuda_norms *p)
{
	const uint32_t wanted = cuda_whole_warps(p->n);
	const struct cuda_grid g = {p->rows, 1, wanted < CUDA_THREADS ? wanted : CUDA_THREADS,
				    (p->n + 1) * (uint32_t)sizeof(float)};
	return g;
}

struct cuda_grid cuda_items_grid(size_t n)
{
	const struct cuda_grid g = {(uint32_t)((n + CUDA_THREADS - 1) / CUDA_THREADS), 1,
				    CUDA_THREADS, 0};
	return g;
}

struct cuda_grid cuda_choice_grid(const struct cuda_choice *p)
{
	const struct cuda_grid g = {p->rows, 1, cuda_whole_warps(p->experts),
				    (2 * p->experts + 2) * (uint32_t)sizeof(float)};
	return g;
}

struct cuda_grid cuda_spans_grid(const struct cuda_attention *p, uint32_t spans)
{
	const uint32_t floats = CUDA_SPAN + CUDA_SPAN / CUDA_WARP + 3 * CUDA_SPAN_BLOCKS + 1;
	const struct cuda_grid g = {spans, p->n * p->heads, CUDA_SPAN,
				    (floats + p->head_dim) * (uint32_t)sizeof(float)};
	return g;
}

struct cuda_grid cuda_join_grid(const struct cuda_attention *p)
{
	const uint32_t wanted = cuda_whole_warps(p->head_dim);
	const struct cuda_grid g = {p->n * p->heads, 1,
				    wanted < CUDA_THREADS ? wanted : CUDA_THREADS, 0};
	return g;
}
