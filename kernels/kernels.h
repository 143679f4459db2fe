/* The kernels' tables: arithmetic on arrays, one table of functions per instruction set.
 *
 * Kernels allocate nothing, read no files and keep no state but the table chosen at start.
 * kernels_scalar is the reference, written to be read; every other table agrees with it bit for
 * bit, which the tests check, so a model's text does not depend on the machine (promise 2). Rules
 * that make it so:
 *   - compiled with -ffp-contract=off; every fused multiply-add is written as one;
 *   - a float sum over k has 16 virtual lanes (element i goes to lane i mod 16) and then one tree:
 *     lane l += lane l + 8, then + 4, + 2, + 1; "dot" below always means this order;
 *   - the integer dot of a TQ group is exact; groups are summed in ascending order with
 *         y = fmaf((float)I_g, s_g * a_g, y),
 *     s_g the weight group's norm, a_g the input group's scale times the codebook's gain;
 *   - so is that of a block of 32 columns, or of each 16 of it if they have scales of their own;
 *     blocks and their halves are summed in ascending order with
 *         y = fmaf((float)I, s · a, y), and then, if the format has offsets,
 *         y = fmaf(m, a · (float)S, y),
 *     s and m the weights' scale and offset, a the input's scale, S the sum of its q;
 *   - one exp for vector bodies and tails: scalar_exp() of scalar.h, operation by operation;
 *   - a result for one token never depends on which other tokens are computed with it.
 *
 * Arrays are row-major; `n`, `k`, `rows` count elements. Pointers may be unaligned unless said.
 */
#ifndef MOEFS_KERNELS_KERNELS_H
#define MOEFS_KERNELS_KERNELS_H

#include "kernels/delta.h"
#include "kernels/format.h"
#include "kernels/tc_errors.h"
#include "kernels/tq.h"

enum { KV_BLOCK = 64 }; /* positions in one block of key-value memory */
/* The form in which keys and values are kept: floats of 32 or 16 bits, or codes (kv_codes.h): both
 * of 8 bits, both of 4, or keys of 8 and values of 4. */
enum kv_type { KV_F32, KV_F16, KV_Q8, KV_Q4, KV_Q8Q4, KV_TYPES };
/* Bounds for heads kept as codes: the most elements of a head, and the number of which a latent's
 * width must be a multiple. */
enum { KV_CODES_WIDEST = 1024, KV_CODES_LATENT = 16 };
bool kv_type_codes(enum kv_type type);
const char *kv_type_name(enum kv_type type); /* the name for -o kv=, or "f32" */
/* Bytes of one element, the unit of offsets in a block; 1 for codes. */
size_t kv_type_element(enum kv_type type);
/* Bytes of the keys, or of the values, of one key-value head in a block. latent_dim: as in struct
 * attention; heads with a latent have no values. */
size_t kv_key_bytes(enum kv_type type, uint32_t head_dim, uint32_t latent_dim);
size_t kv_value_bytes(enum kv_type type, uint32_t head_dim);
/* Calls `each` for the arrays that keys, or values, consist of in a block, one after the other. An
 * array has `rows` adjacent rows of `elements` (kv_type_element), of which the first `used` belong
 * to positions before `held`. */
typedef void kv_rows_fn(void *ctx, size_t rows, size_t elements, size_t used);
void kv_key_rows(enum kv_type type, uint32_t head_dim, uint32_t latent_dim, size_t held,
		 kv_rows_fn *each, void *ctx);
void kv_value_rows(enum kv_type type, uint32_t head_dim, size_t held, kv_rows_fn *each, void *ctx);
/* Positions in one span of attention. Each span is computed by itself, then all spans are
 * joined. */
enum { ATTENTION_SPAN = 256 };

/* Increase this when any function gives other bits for the same inputs: keys, values and states
 * that were saved with another version are then computed again. 1: attention is joined from spans,
 * and the gates of delta nets do not use the C library's exp. */
enum { KERNELS_ARITHMETIC = 1 };

/* The inputs of one matrix product: tokens of width k. The engine fills f. The other forms are
 * computed from f when the first matrix needs them (format_input). */
struct input {
	uint32_t k;
	const float *f; /* [tokens][k] */
	/* From tq_prepare, or NULL. */
	const int8_t *q;    /* [tokens][tq_groups(k)][128], in tq_prepare's order */
	const float *scale; /* [tokens][tq_groups(k)] */
	/* From block_prepare, or NULL. */
	struct block_input {
		const int8_t *q;    /* [tokens][k] */
		const float *scale; /* [tokens][k / 32] */
		const int16_t *sum; /* [tokens][k / 16]: sums of 16 elements of q */
	} block;
};

/* One token's attention to positions 0 … length-1, for the query heads that share one key-value
 * head (grouped-query attention). Block b holds positions 64b … 64b+63. At the given element
 * offsets each block has keys [head_dim][64] (lanes are positions) and values [64][head_dim], or
 * their codes, in the layout of kv_codes.h. */
struct attention {
	enum kv_type type;
	uint32_t head_dim, heads; /* heads: query heads of the group */
	uint32_t length;	  /* >= 1; positions visible to this token */
	float scale;		  /* of the scores, usually head_dim^-0.5 */
	const void *const *blocks;
	size_t key_offset, value_offset; /* in elements (kv_type_element) */
	/* Not 0: a token sees only this many positions, the last of which is its own. The memory of
	 * earlier positions, and of blocks with only such positions, may hold anything. */
	uint32_t window;
	/* Not 0 (latent attention): values are the first latent_dim elements of keys, at most
	 * LATENT_DIM, and are not stored separately. Outputs have this width, too. */
	uint32_t latent_dim;
	/* For a latent: its values are also stored as rows, [64][latent_dim] at value_offset, with
	 * the same numbers. If false, values are extracted from the keys for each group of heads
	 * that reads a block together. */
	bool latent_rows;
	const float *sinks; /* [heads], or NULL: a score without a value in each softmax */
};
enum { LATENT_DIM = 512 };

/* Operands of add_products, in floats. */
struct add_products {
	const float *a; /* a[r · a_row + t · a_step] */
	size_t a_row, a_step;
	const float *b; /* [n][ldb] */
	size_t ldb;
	size_t rows, cols, n;
};

typedef void convolve_fn(float *y, const float *w, const float *bias, const float *const *taps,
			 uint32_t width, uint32_t channels, uint32_t c0, uint32_t c1);
/* Index keys of a block, with which sparse attention chooses positions: count keys of dim numbers,
 * [dim][count], so that lanes are keys. */
struct index_keys {
	enum kv_type type;
	uint32_t dim, count;
	const void *keys, *next; /* next: the keys of the next call, or again these */
	bool positive; /* only a head's positive results count */
};
/* One token's index queries: q[heads][dim], a weight for each head, and groups of heads / groups
 * heads, each with its own scores. */
struct index_queries {
	const float *q, *weight;
	uint32_t heads, groups;
};

typedef void multiply_fn(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n);

struct kernels {
	const char *name; /* "scalar", "avx2" … "neon" … */

	/* y[t · ldy + r] = Σ_k w[r][k] · x[tokens[t]][k] for r in [row0, row1), t in [0, n). tokens
	 * == NULL means 0 … n-1. row0 is a multiple of TILE_ROWS; row1 is also one, or the number
	 * of rows. One function per format. x->k is the matrix's cols, and x has the form given by
	 * format_input. */
	multiply_fn *multiply[FORMAT_COUNT];

	/* One token's input in 8 bits: each group of 128 is zero-padded, rotated and rounded (to
	 * nearest even) to q = x / max|x| · 127, scale = max|x| / 127 (0 for a zero group). A
	 * group with a NaN or an infinity gets scale NaN, so every product with it is NaN. q's
	 * order is that of tq_input_place. */
	void (*tq_prepare)(int8_t *q, float *scale, const float *x, uint32_t k);
	/* One token's input in 8 bits by blocks of 32 columns; k is a multiple of 32. q = x /
	 * max|x| · 127 to nearest even, scale = max|x| / 127 (0 for a block of zeros), and sum has
	 * the sum of each 16 of q. A block with a NaN or an infinity gets zeros and scale NaN. */
	void (*block_prepare)(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k);
	/* The same result as tq_quantise_row of tq.h, bit for bit, but fast for many rows. */
	bool (*tq_quantise_row)(uint8_t *packed, float *norms, const float *row, uint32_t cols,
				uint32_t bits, enum tq_gain gain);

	/* The same results as tc_quantise_row and tc_encode of tc.h, bit for bit, but fast for many
	 * rows. */
	bool (*tc_quantise_row)(uint8_t *packed, float *norms, const float *row, uint32_t cols,
				uint32_t bits);
	void (*tc_encode)(uint8_t *packed, float *factor, const float *y, size_t groups,
			  uint32_t bits);
	/* The same results as tc_choose and tc_improve of tc_errors.h, bit for bit. */
	void (*tc_choose)(uint8_t symbol[TQ_GROUP], const struct tc_group *g,
			  const float weight[TQ_GROUP], const float aimed[TQ_GROUP],
			  const float target[TQ_GROUP], float norm);
	bool (*tc_improve)(uint8_t symbol[TQ_GROUP], float pull[TQ_GROUP], const struct tc_group *g,
			   float norm, float least);

	/* y = x / sqrt(mean(x²) + eps) · w   (Zhang and Sennrich 2019), rounded as
	 * (x · (1 / sqrtf(…))) · w, the sum in dot order; y may be x. */
	void (*rmsnorm)(float *y, const float *x, const float *w, uint32_t n, float eps);
	/* Rotates pairs (x[i], x[i + half]) of one head by angle i. cos and sin are [half]. The
	 * head's elements from 2·half on are unchanged (partial rotary factor). Su et al. 2021,
	 * NeoX order. a' = fmaf(a, cos, -(b · sin)), b' = fmaf(b, cos, a · sin). */
	void (*rope)(float *x, const float *cos, const float *sin, uint32_t half);
	/* gate[i] = silu(gate[i]) · up[i], silu(x) = x / (1 + exp(-x)). */
	void (*silu_mul)(float *gate, const float *up, size_t n);
	/* gate[i] = gelu(gate[i]) · up[i], with the tanh form of gelu: x / (1 + exp(-2u)) with u =
	 * √(2/π) · (x + .044715 x³). -2u is computed as x · fmaf(GELU_CUBE, x · x, GELU_LINE)
	 * (Hendrycks and Gimpel 2016). */
	void (*gelu_mul)(float *gate, const float *up, size_t n);
	/* With g = min(gate[i], limit) and u = up[i] clamped to -limit … limit: gate[i] = (u + 1) ·
	 * (g / (1 + exp(-alpha · g))), as in gpt-oss. */
	void (*swiglu_clamped)(float *gate, const float *up, size_t n, float alpha, float limit);
	/* x[i] = cap · tanh(x[i] / cap): cap · (1 - 2 / (1 + exp(x[i] · (2 / cap)))). */
	void (*softcap)(float *x, size_t n, float cap);
	/* x = exp(x - max) / Σ, over n elements; the sum in dot order. */
	void (*softmax)(float *x, size_t n);
	void (*add)(float *y, const float *x, size_t n);		 /* y += x */
	void (*add_scaled)(float *y, float a, const float *x, size_t n); /* y = fmaf(a, x, y) */
	/* y[r · ldy + c] = fmaf(a[r][t], b[t][c], y[r · ldy + c]) over t ascending, for all rows
	 * and columns; y overlaps neither a nor b. */
	void (*add_products)(float *y, size_t ldy, const struct add_products *p);

	/* Writes one position's key and value (each [head_dim], one key-value head) into its block.
	 * value == NULL: only the key. latent_dim: as in struct attention. For codes, each part of
	 * a key or value (kv_codes.h) is rounded by itself. A key's part of n columns is rotated
	 * first: multiplied by the signs of tq.h, then transformed (Walsh-Hadamard, without
	 * division). Let m be the largest magnitude of the part.
	 *   - 8 bits: scale = F16(m / 127), code = y · (1 / scale) to the nearest, even of two, and
	 *     within ±127.
	 *   - 4 bits: scale = F16(m / 120). Each 32 columns (or the part, if it is smaller) with
	 *     largest magnitude l have a factor f: l · (1 / scale) / 15 rounded up, at most 8.
	 *     code = fmaf(y, (1 / scale) / (2 f), 7.5) rounded likewise and within 0 … 15, which
	 *     means (2 code - 15) · f.
	 * If the scale is 0, all codes are zeros. If the scale is infinite or m is not a number,
	 * all codes are zeros and the scale is NaN. Then every score with this key, and every sum
	 * with this value in the part's columns, is NaN. */
	void (*kv_put)(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		       uint32_t slot, const float *key, const float *value, uint32_t head_dim,
		       uint32_t latent_dim);
	/* Attention of one token. q is [heads][head_dim], out is as wide or [heads][latent_dim].
	 * Softmax over the positions that the token sees. Positions from length on and before the
	 * window are ignored, whatever their slots hold. Blocks and spans with only such positions
	 * are skipped.
	 *
	 * Each span of ATTENTION_SPAN absolute positions gives a maximum m, a sum s and value sums
	 * v[], by online softmax (Milakov and Gimelshein 2018) over its blocks of 64 in ascending
	 * order. They begin as m = -inf, s = 0, v = 0. With sinks, the first span that the token
	 * sees begins with m = the head's sink and s = 1. For the positions j of a block
	 *     p[j] = fmaf(q[d], key[d][j], p[j]) over d ascending from 0, then p[j] · scale,
	 *     m' = the largest of m and of all p[j]; a NaN is ignored,
	 *     e[j] = exp(p[j] - m'), r = exp(m - m'),
	 *     s = fmaf(s, r, Σ e[j]), the sum in dot order, where j goes to lane j mod 16,
	 *     v[d] = v[d] · r, and then fmaf(e[j], value[j][d], v[d]) over j ascending,
	 *     m = m'.
	 * The spans are joined in ascending order. The first one is taken unchanged: M = m, S = s,
	 * O = v. With each later one
	 *     f = exp(-|m - M|); where m > M, a = f, b = 1, M' = m; else a = 1, b = f, M' = M;
	 *     S = fmaf(S, a, s · b), O[d] = fmaf(O[d], a, v[d] · b), M = M',
	 * and finally out[d] = O[d] / S. So the result depends neither on the chunking nor on which
	 * thread computes a span. Joining is not associative: no other order gives the same bits.
	 *
	 * Codes are not computed block by block: a span's scores all come before its values.
	 *   - A query is rotated like keys, and each part of it is rounded to codes: y · (127 / m),
	 *     m its largest magnitude, with scale a = m · (scale / (127 n)), n the part's columns.
	 *     (Zeros if m < 2^-100 or m is infinite; a NaN gives a = NaN.)
	 *   - p[j] = fmaf((float)I · a, scale of the key's part at j, p[j]) over the parts in
	 *     ascending order from 0; I is the exact dot of their codes.
	 *   - M = the largest of m and of all p[j], e[j] = exp(p[j] - M), r = exp(m - M),
	 *     s = fmaf(s, r, Σ e[j]) in dot order over the span, where s is 0 or the sink's 1.
	 *   - For each part of the values, w[j] = e[j] · scale of the value's part at j (0 where
	 *     e[j] is 0 or NaN), W the largest; u[j] = w[j] · (16383 / W) to the nearest, and
	 *     v[d] = (float)(Σ u[j] · code[j][d]) · (W / 16383), the sum exact. v is 0 where
	 *     W < 2^-100, and NaN where W is infinite or one of w[j] is NaN.
	 * Values of a latent are also rotated: after the division by S, a head's output is rotated
	 * back, each part transformed, multiplied by the signs, and then by 1 / n. */
	void (*attend)(float *out, const float *q, const struct attention *a);
	/* The same result as attend, bit for bit, for n >= 1 successive tokens. Token t sees
	 * positions 0 … a->length + t - 1 within the window, and its heads begin at t · stride in q
	 * and out; in out stride counts heads of latent_dim, if that is not 0. The tokens share the
	 * reads of keys and values. */
	void (*attend_tokens)(float *out, const float *q, size_t stride, const struct attention *a,
			      uint32_t n);
	/* attend_tokens in two steps, with the same bits, so that threads can share one token's
	 * spans. attend_spans computes spans [span0, span1) of the same tokens. parts is [span1 -
	 * span0][n][heads], each of attention_part floats (attention.h). Parts of spans that a
	 * token does not see are unchanged. */
	void (*attend_spans)(float *parts, const float *q, size_t stride, const struct attention *a,
			     uint32_t n, uint32_t span0, uint32_t span1);
	/* attend_join joins these parts to joined[n][heads], the result of the spans before span0
	 * (anything for a token that sees none of them). It writes the outputs of tokens whose last
	 * span is among these to out, like attend_tokens. */
	void (*attend_join)(float *out, size_t stride, float *joined, const float *parts,
			    const struct attention *a, uint32_t n, uint32_t span0, uint32_t span1);

	/* y[i] = y[i] · sigmoid(x[i]), sigmoid(x) = 1 / (1 + exp(-x)) rounded before the product.
	 */
	void (*sigmoid_mul)(float *y, const float *x, size_t n);
	/* One token's causal depthwise convolution, channels [c0, c1): y[c] = s, where s is
	 * fmaf(w[i][c], taps[i][c], s) over i ascending from s = bias[c], or from 0 if bias is
	 * NULL. w is [width][channels], each tap [channels]; the first tap is the oldest, the last
	 * the token's own. width is 1 … CONV_WIDTH. y must not overlap a tap. */
	convolve_fn *conv;
	/* conv with y[c] = silu(s). */
	convolve_fn *conv_silu;
	/* x[i] = max(x[i], 0)². */
	void (*relu_squared)(float *x, size_t n);
	/* Decays of the rows of one head's state: y[i] = exp(-(factor · softplus(x[i] + bias[i]))).
	 * With z = x[i] + bias[i] and e = exp(-|z|), softplus(z) is max(z, 0) + 2s · (1 + s²/3 +
	 * s⁴/5 + … + s¹⁶/17), s = e / (2 + e): log1p by its inverse hyperbolic tangent, exact to
	 * 1e-7. */
	void (*delta_decay)(float *y, const float *x, const float *bias, float factor, size_t n);
	/* y = x · (scale / sqrtf(Σx² + eps)), the sum in dot order, the factor rounded before the
	 * product; y may be x. An infinite sum makes all of y NaN. */
	void (*l2norm)(float *y, const float *x, uint32_t n, float eps, float scale);
	/* The recurrence of delta.h for successive tokens of one value head, in columns [col0,
	 * col1) of its state. Columns do not influence each other, and the division of tokens into
	 * calls does not matter. For each token and column j
	 *     S[i][j] = decay · S[i][j] for all i (by row: decay[i]),
	 *     f = fmaf(S[i][j], k[i], f) over i ascending from 0, c = (v[j] - f) · beta
	 *     (DELTA_ADDS: c = v[j] · beta),
	 *     S[i][j] = fmaf(k[i], c, S[i][j]) for all i, and
	 *     out[j] = fmaf(S[i][j], q[i], out[j]) over i ascending from 0.
	 * There are outputs for all n tokens; the state afterwards is the one after d->commit
	 * tokens. One token reads whole rows in the order of memory, so threads that share heads
	 * rather than columns are faster. */
	void (*delta_steps)(const struct delta *d, uint32_t col0, uint32_t col1);

	/* Scores of one token's index queries: for each key j
	 *     p = fmaf(q[h][d], key[d][j], p) over d ascending from 0; if `positive`,
	 *     p = max(p, 0) (a NaN stays a NaN); s = fmaf(weight[h], p, s) over the heads of
	 *     group g ascending from 0; scores[g · stride + j] = s. */
	void (*index_scores)(float *scores, size_t stride, const struct index_keys *k,
			     const struct index_queries *q);

	/* Arranges blocks in memory, for format_arrange (block_layout.h). */
	const struct arrange_blocks *arrange;
};

extern const struct kernels kernels_scalar;
extern const struct kernels kernels_avx2;	/* x86-64 with AVX2, FMA and F16C */
extern const struct kernels kernels_avx512;	/* and AVX-512 F, BW, VL and DQ */
extern const struct kernels kernels_avx512vnni; /* and VNNI and VBMI */
extern const struct kernels kernels_avx512amx;	/* and AMX with INT8 */
extern const struct kernels kernels_neon;	/* AArch64 */
extern const struct kernels kernels_neondot;	/* and the dot product instructions */

/* Every table that this machine can run, NULL-terminated. The first is scalar, the last the
 * fastest. */
const struct kernels *const *kernels_available(void);
const struct kernels *kernels_fastest(void);
/* The fastest table, or the one named by the environment variable MOEFS_KERNELS (for comparisons).
 */
const struct kernels *kernels_best(void);

#endif
