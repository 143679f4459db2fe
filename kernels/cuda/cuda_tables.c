/* Tables and shapes of launches for the kernels of cards (cuda_tables.h). */
#include "kernels/cuda/cuda_tables.h"
#include "kernels/cuda/cuda_attention.h"
#include "kernels/cuda/cuda_blocks.h"
#include "kernels/cuda/cuda_codes.h"
#include "kernels/cuda/cuda_floats.h"
#include "kernels/cuda/cuda_vectors.h"
#include "kernels/block_layout.h"
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

/* Sixteen signed bytes in four words, `more` added to each. */
static void cuda_fill_bytes(uint32_t to[4], const int8_t table[16], int more)
{
	for (size_t w = 0; w < 4; w++) {
		to[w] = 0;
		for (size_t i = 0; i < 4; i++)
			to[w] |= (uint32_t)(uint8_t)(table[4 * w + i] + more) << 8 * i;
	}
}

void cuda_fill_trellis(struct cuda_trellis *t, enum format format)
{
	const uint32_t bits = format_tq_bits(format);
	const struct tc_codebook *book = tc_codebook(bits);

	t->bits = bits;
	if (format_is_trellis(format)) {
		cuda_fill_bytes(t->newest, book->newest, TC_OFFSET);
		cuda_fill_bytes(t->before, book->before, TC_OFFSET);
		t->gain = book->gain;
	} else {
		cuda_fill_bytes(t->newest, tq_codebook(bits)->integer, 0);
		t->gain = tq_codebook(bits)->gain;
	}
}

/* ---- launches ---- */

/* The kernels of products, and how many tokens their items have at most. */
#define CUDA_FEW_ROWS(name, format)                  \
	{cuda_##name##_product_1_number, format, 1, false}, \
	{cuda_##name##_product_8_number, format, 8, false},
#define CUDA_ALL_ROWS(name, format) \
	CUDA_FEW_ROWS(name, format) {cuda_##name##_product_32_number, format, 32, false},
#define CUDA_TC_ROWS(name, format) \
	CUDA_ALL_ROWS(name, format) {cuda_##name##_product_16_number, format, 16, false},
static const struct cuda_tokens {
	enum cuda_kernel kernel;
	enum format format; /* FORMAT_COUNT: of several products, of TC or with blocks */
	uint32_t tokens;
	bool blocks;
} cuda_tokens[] = {
	CUDA_TC_ROWS(tq, FORMAT_TQ4)
	CUDA_TC_ROWS(tc2, FORMAT_TC2)
	CUDA_TC_ROWS(tc3, FORMAT_TC3)
	CUDA_TC_ROWS(tc4, FORMAT_TC4)
	CUDA_ALL_ROWS(q8_0, FORMAT_Q8_0)
	CUDA_ALL_ROWS(q5_0, FORMAT_Q5_0)
	CUDA_ALL_ROWS(q4_k, FORMAT_Q4_K)
	CUDA_ALL_ROWS(q5_k, FORMAT_Q5_K)
	CUDA_ALL_ROWS(q6_k, FORMAT_Q6_K)
	CUDA_ALL_ROWS(fp4, FORMAT_MXFP4)
	CUDA_ALL_ROWS(iq4_nl, FORMAT_IQ4_NL)
	CUDA_ALL_ROWS(iq4_xs, FORMAT_IQ4_XS)
	CUDA_ALL_ROWS(q3_k, FORMAT_Q3_K)
	CUDA_ALL_ROWS(q2_k, FORMAT_Q2_K)
	CUDA_ALL_ROWS(affine4, FORMAT_AFFINE4)
	CUDA_ALL_ROWS(affine8, FORMAT_AFFINE8)
	CUDA_FEW_ROWS(affine, FORMAT_AFFINE5)
	CUDA_FEW_ROWS(f32, FORMAT_F32)
	CUDA_FEW_ROWS(f16, FORMAT_F16)
	CUDA_FEW_ROWS(bf16, FORMAT_BF16)
	{cuda_tc_products_1_number, FORMAT_COUNT, 1, false},
	{cuda_tc_products_8_number, FORMAT_COUNT, 8, false},
	{cuda_tc_products_16_number, FORMAT_COUNT, 16, false},
	{cuda_tc_products_32_number, FORMAT_COUNT, 32, false},
	{cuda_block_products_1_number, FORMAT_COUNT, 1, true},
	{cuda_block_products_8_number, FORMAT_COUNT, 8, true},
};
enum { CUDA_TOKENS = sizeof cuda_tokens / sizeof *cuda_tokens };

/* Those whose warps have a tile each. */
static const struct cuda_tokens cuda_tiles[] = {
	{cuda_tc3_tiles_8_number, FORMAT_TC3, 8, false},
	{cuda_tc3_tiles_32_number, FORMAT_TC3, 32, false},
	{cuda_tc4_tiles_8_number, FORMAT_TC4, 8, false},
	{cuda_tc4_tiles_32_number, FORMAT_TC4, 32, false},
};
enum { CUDA_TILES = sizeof cuda_tiles / sizeof *cuda_tiles };

/* The kernels of formats with blocks. Formats of one kernel are as its first one is but for codes' values, groups
 * and floats. */
static const struct cuda_block_kernels {
	enum format format, first;
	enum cuda_block_format number;
	bool common;
} cuda_block_kernels[] = {
	{FORMAT_Q8_0, FORMAT_Q8_0, CUDA_Q8_0, true},
	{FORMAT_Q5_0, FORMAT_Q5_0, CUDA_Q5_0, true},
	{FORMAT_Q4_K, FORMAT_Q4_K, CUDA_Q4_K, true},
	{FORMAT_Q5_K, FORMAT_Q5_K, CUDA_Q5_K, true},
	{FORMAT_Q6_K, FORMAT_Q6_K, CUDA_Q6_K, true},
	{FORMAT_MXFP4, FORMAT_MXFP4, CUDA_FP4, false},
	{FORMAT_MXFP4_GGUF, FORMAT_MXFP4, CUDA_FP4, false},
	{FORMAT_IQ4_NL, FORMAT_IQ4_NL, CUDA_IQ4_NL, false},
	{FORMAT_Q4_0, FORMAT_IQ4_NL, CUDA_IQ4_NL, false},
	{FORMAT_IQ4_XS, FORMAT_IQ4_XS, CUDA_IQ4_XS, false},
	{FORMAT_IQ3_S, FORMAT_IQ4_XS, CUDA_IQ4_XS, false},
	{FORMAT_Q3_K, FORMAT_Q3_K, CUDA_Q3_K, false},
	{FORMAT_Q2_K, FORMAT_Q2_K, CUDA_Q2_K, false},
	{FORMAT_AFFINE4, FORMAT_AFFINE4, CUDA_AFFINE4, false},
	{FORMAT_Q4_1, FORMAT_AFFINE4, CUDA_AFFINE4, false},
	{FORMAT_AFFINE8, FORMAT_AFFINE8, CUDA_AFFINE8, false},
	{FORMAT_AFFINE5, FORMAT_AFFINE5, CUDA_AFFINE, false},
	{FORMAT_AFFINE2, FORMAT_AFFINE5, CUDA_AFFINE, false},
	{FORMAT_AFFINE3, FORMAT_AFFINE5, CUDA_AFFINE, false},
	{FORMAT_AFFINE6, FORMAT_AFFINE5, CUDA_AFFINE, false},
	{FORMAT_Q5_1, FORMAT_AFFINE5, CUDA_AFFINE, false},
};

/* NULL: there is no kernel. */
static const struct cuda_block_kernels *cuda_kernels_of(enum format format)
{
	for (size_t i = 0; i < sizeof cuda_block_kernels / sizeof *cuda_block_kernels; i++)
		if (cuda_block_kernels[i].format == format)
			return &cuda_block_kernels[i];
	return NULL;
}

/* The format whose kernels multiply this one. */
static enum format cuda_multiplied_as(enum format format)
{
	const struct cuda_block_kernels *found = cuda_kernels_of(format);

	if (found)
		return found->first;
	return format_is_tq(format) && !format_is_trellis(format) ? FORMAT_TQ4 : format;
}

enum cuda_kernel cuda_product_kernel(enum format format, uint32_t most)
{
	const enum format first = cuda_multiplied_as(format);

	for (size_t i = 0; i < CUDA_TOKENS; i++)
		if (cuda_tokens[i].format == first && cuda_tokens[i].tokens == most)
			return cuda_tokens[i].kernel;
	return CUDA_KERNEL_COUNT;
}

/* Threads of a block for TC: more tokens and the tables of TC4 need more registers. */
static uint32_t cuda_tc_threads(enum format format, uint32_t tokens)
{
	return tokens == 1 || (format == FORMAT_TC3 && tokens <= 8) ? 1024 : 512;
}

/* Whether there are enough tiles to give one to each warp of the GPU. Half as many are enough: the others would
 * share the same tiles, which takes as long. */
static bool cuda_fills(enum format format, uint32_t most, size_t tiles, const struct cuda_room *room)
{
	return tiles >= room->processors * cuda_tc_threads(format, most) / CUDA_WARP / 2;
}

enum cuda_kernel cuda_kernel_for(enum format format, uint32_t most, size_t tiles,
				 const struct cuda_room *room)
{
	for (size_t i = 0; i < CUDA_TILES && cuda_fills(format, most, tiles, room); i++)
		if (cuda_tiles[i].format == format && cuda_tiles[i].tokens == most)
			return cuda_tiles[i].kernel;
	return cuda_product_kernel(format, most);
}

enum cuda_kernel cuda_products_kernel(const enum format *formats, uint32_t count, uint32_t most)
{
	const bool blocks = format_is_block(formats[0]);

	for (uint32_t i = 0; i < count; i++) {
		const struct cuda_block_kernels *found = cuda_kernels_of(formats[i]);
		const bool pairs_or_four = formats[i] == FORMAT_TC3 || formats[i] == FORMAT_TC4;
		if (!(blocks ? found && found->common : pairs_or_four) ||
		    cuda_product_kernel(formats[i], most) == CUDA_KERNEL_COUNT)
			return CUDA_KERNEL_COUNT;
	}
	for (size_t i = 0; i < CUDA_TOKENS; i++)
		if (cuda_tokens[i].format == FORMAT_COUNT && cuda_tokens[i].tokens == most &&
		    cuda_tokens[i].blocks == blocks)
			return cuda_tokens[i].kernel;
	return CUDA_KERNEL_COUNT;
}

bool cuda_table_type(enum cuda_number *type, enum format format)
{
	static const struct {
		enum format format;
		enum cuda_number type;
	} types[] = {{FORMAT_F32, CUDA_F32},	       {FORMAT_F16, CUDA_F16},
		     {FORMAT_BF16, CUDA_BF16},	       {FORMAT_Q8_0, CUDA_TABLE_Q8_0},
		     {FORMAT_Q4_0, CUDA_TABLE_Q4_0},   {FORMAT_Q4_1, CUDA_TABLE_Q4_1},
		     {FORMAT_Q5_0, CUDA_TABLE_Q5_0},   {FORMAT_Q5_1, CUDA_TABLE_Q5_1},
		     {FORMAT_Q2_K, CUDA_TABLE_Q2_K},   {FORMAT_Q3_K, CUDA_TABLE_Q3_K},
		     {FORMAT_Q4_K, CUDA_TABLE_Q4_K},   {FORMAT_Q5_K, CUDA_TABLE_Q5_K},
		     {FORMAT_Q6_K, CUDA_TABLE_Q6_K},   {FORMAT_IQ4_NL, CUDA_TABLE_IQ4_NL},
		     {FORMAT_IQ4_XS, CUDA_TABLE_IQ4_XS}};

	if (format_affine_bits(format)) {
		*type = CUDA_TABLE_AFFINE;
		return true;
	}
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].format == format) {
			*type = types[i].type;
			return true;
		}
	return false;
}

/* The values of codes of 4 bits. */
static void cuda_fill_values(uint32_t to[4], const struct block_layout *l)
{
	int8_t value[16];

	for (int i = 0; i < 16; i++)
		value[i] = (int8_t)(l->values ? l->values[i] : i - l->zero);
	cuda_fill_bytes(to, value, 0);
}

static const enum cuda_number cuda_norm_types[] = {
	[NORM_F16] = CUDA_F16, [NORM_F32] = CUDA_F32, [NORM_BF16] = CUDA_BF16};

struct cuda_table_groups cuda_table_groups_of(const struct shape *s, uint32_t chunk_rows)
{
	const struct cuda_table_groups g = {s->rows, chunk_rows, format_affine_bits(s->format),
					    s->group, cuda_norm_types[s->norms]};
	return g;
}

struct cuda_block_kind cuda_block_kind_of(const struct shape *s)
{
	const struct cuda_block_kernels *found = cuda_kernels_of(s->format);
	const struct block_layout *l = &block_layouts[s->format];
	struct cuda_block_kind kind = {.bits = l->bits};

	if (!found)
		return kind;
	kind.format = found->number;
	kind.norms = cuda_norm_types[layout_norms(l, s)];
	while (2U << kind.together <= layout_blocks(l, s))
		kind.together++;
	cuda_fill_values(kind.values, l);
	return kind;
}

/* The first format of a kernel. */
static enum format cuda_first_format(enum cuda_block_format number)
{
	size_t i = 0;

	while (cuda_block_kernels[i].number != number)
		i++;
	return cuda_block_kernels[i].first;
}

/* The row of `all` for a kernel, or NULL. */
static const struct cuda_tokens *cuda_find_tokens(const struct cuda_tokens *all, size_t count,
						  enum cuda_kernel k)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].kernel == k)
			return &all[i];
	return NULL;
}

static const struct cuda_tokens *cuda_tokens_of(enum cuda_kernel k)
{
	return cuda_find_tokens(cuda_tokens, CUDA_TOKENS, k);
}

uint32_t cuda_product_groups(enum format format, uint32_t cols)
{
	return format_is_float(format)	 ? cols
	       : format_is_block(format) ? cols / BLOCK
					 : (uint32_t)tq_groups(cols);
}

static uint32_t cuda_parts(uint32_t n, uint32_t each)
{
	return (n + each - 1) / each;
}

/* A warp for each of n pieces of work. */
static struct cuda_grid cuda_warps_grid(uint32_t n, uint32_t shared)
{
	const uint32_t warps = 4;
	const struct cuda_grid g = {cuda_parts(n, warps), 1, warps * CUDA_WARP, warps * shared};
	return g;
}

struct cuda_grid cuda_prepare_grid(enum cuda_kernel k, const struct cuda_prepare *p)
{
	return cuda_warps_grid(p->n * cuda_parts(p->k, k == cuda_tq_prepare_number ? TQ_GROUP : BLOCK),
			       0);
}

/* A block of threads for each group of `rows` rows. */
static struct cuda_grid cuda_columns_grid(uint32_t rows, uint32_t k)
{
	const struct cuda_grid g = {rows, cuda_groups_of(k), CUDA_GROUP, CUDA_GROUP * (uint32_t)sizeof(float)};
	return g;
}

static bool cuda_rows_are_few(uint32_t rows, uint32_t k)
{
	enum { FEW = 1024 };

	return (size_t)rows * cuda_groups_of(k) <= FEW;
}

enum cuda_kernel cuda_gate_kernel(const struct cuda_gate_inputs *p)
{
	return cuda_rows_are_few(p->n, p->k) ? cuda_gate_few_number : cuda_gate_inputs_number;
}

struct cuda_grid cuda_gate_inputs_grid(const struct cuda_gate_inputs *p)
{
	return cuda_rows_are_few(p->n, p->k) ? cuda_columns_grid(p->n, p->k)
					     : cuda_warps_grid(p->n * cuda_groups_of(p->k), 0);
}

enum cuda_kernel cuda_join_kernel(const struct cuda_join_inputs *p)
{
	const struct cuda_attention *a = &p->attention;

	return cuda_rows_are_few(a->n, a->heads * a->head_dim) ? cuda_join_few_number
							       : cuda_join_inputs_number;
}

struct cuda_grid cuda_join_inputs_grid(const struct cuda_join_inputs *p)
{
	const uint32_t rows = p->attention.n, width = p->attention.heads * p->attention.head_dim;
	struct cuda_grid g = cuda_columns_grid(rows, width);

	if (!cuda_rows_are_few(rows, width))
		return cuda_warps_grid(rows * cuda_groups_of(width), 0);
	g.shared += CUDA_GROUP * (CUDA_SPAN_NUMBERS + 1) * (uint32_t)sizeof(float);
	return g;
}

struct cuda_grid cuda_heads_grid(const struct cuda_heads *p)
{
	return cuda_warps_grid(p->keys.n * (p->heads + 2 * p->keys.heads),
			       p->keys.head_dim * (uint32_t)sizeof(float));
}

enum cuda_kernel cuda_norm_kernel(const struct cuda_norm_inputs *p)
{
	const bool shared = p->to != p->x && p->n % 4 == 0 && !p->experts.chosen;

	return shared && p->rows <= CUDA_NORM_FEW ? cuda_norm_few_number : cuda_norm_inputs_number;
}

/* Each thread loads four columns of the row, if there are enough threads. */
static struct cuda_grid cuda_norm_few_grid(const struct cuda_norm_inputs *p)
{
	const uint32_t wanted = cuda_parts(p->n, 4 * CUDA_WARP) * CUDA_WARP, most = 512;
	const struct cuda_grid g = {p->rows, cuda_groups_of(p->n),
				    wanted < CUDA_GROUP ? CUDA_GROUP
				    : wanted < most	? wanted
							: most,
				    (cuda_lanes_room(p->n) + CUDA_GROUP) *
					    (uint32_t)sizeof(float)};
	return g;
}

struct cuda_grid cuda_norm_inputs_grid(const struct cuda_norm_inputs *p)
{
	if (cuda_norm_kernel(p) == cuda_norm_few_number)
		return cuda_norm_few_grid(p);
	/* Not fewer than experts of a row. */
	const uint32_t wanted = cuda_groups_of(p->n) * CUDA_WARP, least = CUDA_TOP_K_MOST, most = 512;
	const struct cuda_grid g = {p->rows, 1,
				    wanted < least  ? least
				    : wanted < most ? wanted
						    : most,
				    (2 * p->n + 1 + p->experts.top_k) * (uint32_t)sizeof(float)};
	return g;
}

/* Tiles that a block of threads has at most at once, and pieces where it may have so much shared memory. */
struct cuda_tc_room {
	uint32_t shared, copies, tiles, pieces;
};

static struct cuda_tc_room cuda_tc_room(uint32_t tokens, uint32_t shared)
{
	static const struct cuda_tc_room one[] = {{163 << 10, 32, 64, 256}, {0, 16, 64, 256}},
					 eight[] = {{163 << 10, 32, 48, 48}, {0, 16, 48, 48}},
					 sixteen[] = {{206 << 10, 32, 16, 64}, {0, 16, 12, 24}},
					 many[] = {{218 << 10, 32, 16, 32}, {0, 16, 12, 12}};
	const struct cuda_tc_room *r = tokens == 1	? one
				       : tokens == 8	? eight
				       : tokens == 16 ? sixteen
						       : many;

	while (shared < r->shared)
		r++;
	return *r;
}

/* The tiles of a product whose items the host knows. */
static uint32_t cuda_tiles_known(const struct cuda_product *p)
{
	return cuda_parts(p->n, p->most) * p->parts * cuda_parts(p->rows, CUDA_ROWS);
}

/* Sets how tiles, each of `pieces`, are shared by a grid; sharing.pieces is set, and `tiles` are the most that
 * a block of threads may have at once. */
static void cuda_share_grid(struct cuda_product *p, uint32_t pieces, uint32_t tiles,
			    const struct cuda_grid *g)
{
	const uint32_t warps = g->threads / CUDA_WARP;
	struct cuda_sharing *s = &p->sharing;

	s->tiles = cuda_parts(p->rows, CUDA_ROWS);
	s->at_once = s->pieces / pieces;
	s->at_once = s->at_once == 0 ? 1 : s->at_once < tiles ? s->at_once : tiles;
	s->step_tiles = pieces > s->pieces ? 0 : warps / pieces;
	s->step_groups = pieces > s->pieces ? warps : warps % pieces;
	s->part = UINT32_MAX / g->x + 1; /* of 2^32, rounded up; 0, which does, for one block */
	s->all = cuda_tiles_known(p);
}

/* Sets how tiles of TC are shared; returns the bytes that a block of threads needs. copies: of the pairs, at most. */
static uint32_t cuda_share_tiles(struct cuda_product *p, uint32_t tokens, uint32_t copies, uint32_t shared,
				 const struct cuda_grid *g)
{
	const struct cuda_tc_room room = cuda_tc_room(tokens, shared);
	const uint32_t for_tile = 24 + 8 * tokens, for_piece = 4 * (CUDA_ROWS * (tokens + 1) + tokens);
	struct cuda_sharing *s = &p->sharing;

	s->copies = copies < room.copies ? copies : room.copies;
	s->pieces = room.pieces;
	cuda_share_grid(p, p->groups, room.tiles, g);
	return room.tiles * for_tile + room.pieces * for_piece +
	       s->copies * CUDA_PAIRS * (uint32_t)sizeof(uint32_t);
}

/* A block of threads for each processor, as large as may be. */
static struct cuda_grid cuda_tc_grid(const struct cuda_tokens *t, struct cuda_product *p, uint32_t items,
				     const struct cuda_room *room)
{
	const uint32_t tiles = items * p->parts * cuda_parts(p->rows, CUDA_ROWS);
	struct cuda_grid g = {tiles < room->processors ? tiles : room->processors, 1,
			      cuda_tc_threads(t->format, t->tokens), 0};

	g.shared = cuda_share_tiles(p, t->tokens, t->format == FORMAT_TC3 ? CUDA_COPIES_MOST : 0, room->shared, &g);
	return g;
}

/* The same where a warp has a tile: shared memory has the pairs, and groups of as many warps as find room. */
static struct cuda_grid cuda_tiles_grid(const struct cuda_tokens *t, struct cuda_product *p,
					uint32_t items, const struct cuda_room *room)
{
	struct cuda_grid g = cuda_tc_grid(t, p, items, room);
	const uint32_t each = CUDA_TILE_GROUPS * (CUDA_ROWS * (16 * format_tq_bits(t->format) + p->norm_bytes) +
						  4 * CUDA_TILE_GAP);
	const uint32_t pairs = p->sharing.copies * CUDA_PAIRS * (uint32_t)sizeof(uint32_t);
	const uint32_t fit = (room->shared - pairs) / each;

	if (g.threads > fit * CUDA_WARP)
		g.threads = fit * CUDA_WARP;
	g.shared = pairs + g.threads / CUDA_WARP * each;
	return g;
}

/* Bytes of shared memory of a piece: the dots, scales and offsets of its parts, and what tokens add. */
static uint32_t cuda_block_piece_bytes(const struct block_layout *l, uint32_t tokens)
{
	return CUDA_PARTS * (CUDA_ROWS * 4 * (tokens + (l->offsets ? 2 : 1)) + 8 * tokens);
}

/* Pieces of a row of tiles. */
static uint32_t cuda_block_pieces(enum format format, const struct cuda_product *p)
{
	return cuda_parts(p->groups, block_layouts[format].by_16 ? CUDA_PARTS / 2 : CUDA_PARTS);
}

/* Threads of a block: those of eight tokens, or of other formats than the common ones, need more registers. */
static uint32_t cuda_block_threads(uint32_t tokens, bool common)
{
	return tokens > 1 ? 320 : common ? 512 : 448;
}

/* Sets how tiles are shared by a grid of two blocks of threads for each processor; returns the bytes that a
 * block needs. own: tiles that a block has in all; it asks for no more memory than these need, since the next
 * kernel can begin early where there is room. */
static uint32_t cuda_share_blocks(struct cuda_product *p, enum format format, uint32_t tokens,
				  uint32_t shared, uint32_t own, const struct cuda_grid *g)
{
	enum { PIECES = 96, TILES = 40, RESERVED = 1 << 10 }; /* a tile has a thread for each token */
	const uint32_t pieces = cuda_block_pieces(format, p);
	const uint32_t each = cuda_block_piece_bytes(&block_layouts[format], tokens),
		       for_tile = 24 + 8 * tokens;
	const uint32_t fit = (shared / 2 - RESERVED - TILES * for_tile) / each;

	p->sharing.pieces = fit < PIECES ? fit : PIECES;
	cuda_share_grid(p, pieces, own < TILES ? own : TILES, g);
	if (p->sharing.pieces > p->sharing.at_once * pieces)
		p->sharing.pieces = p->sharing.at_once * pieces;
	return cuda_parts(p->sharing.at_once * for_tile, 16) * 16 + p->sharing.pieces * each;
}

/* While one of a processor's two blocks adds, the other has memory work. */
static struct cuda_grid cuda_block_grid(const struct cuda_tokens *t, struct cuda_product *p,
					uint32_t items, const struct cuda_room *room)
{
	const uint32_t tiles = items * p->parts * cuda_parts(p->rows, CUDA_ROWS),
		       most = 2 * room->processors;
	struct cuda_grid g = {tiles < most ? tiles : most, 1,
			      cuda_block_threads(t->tokens, cuda_kernels_of(t->format)->common), 0};

	g.shared = cuda_share_blocks(p, t->format, t->tokens, room->shared, cuda_parts(tiles, g.x), &g);
	return g;
}

/* The same of one of several products; returns its pieces. */
static uint32_t cuda_share_one(const struct cuda_tokens *t, struct cuda_product *p, uint32_t copies,
			       uint32_t shared, struct cuda_grid *g)
{
	const enum format format = cuda_first_format(p->kind.format);
	const uint32_t bytes = t->blocks ? cuda_share_blocks(p, format, t->tokens, shared, UINT32_MAX, g)
					 : cuda_share_tiles(p, t->tokens, copies, shared, g);

	g->shared = bytes > g->shared ? bytes : g->shared;
	return p->sharing.all * (t->blocks ? cuda_block_pieces(format, p) : p->groups);
}

struct cuda_grid cuda_products_grid(enum cuda_kernel k, struct cuda_products *p,
				    const struct cuda_room *room)
{
	const struct cuda_tokens *t = cuda_tokens_of(k);
	const uint32_t most = (t->blocks ? 2 : 1) * room->processors;
	struct cuda_grid g = {0, 1, t->blocks ? cuda_block_threads(t->tokens, true)
					  : cuda_tc_threads(FORMAT_COUNT, t->tokens),
			      0};
	/* Without TC3 the pairs' place stays empty, and is as small as the kernel's two forms have it, so that more
	 * blocks of threads find room. */
	uint32_t pieces = 0, copies = CUDA_COPIES_LEAST;

	p->with_pairs = 0;
	for (uint32_t i = 0; i < p->count; i++) {
		g.x += cuda_tiles_known(&p->p[i]);
		if (p->p[i].trellis.bits != 3)
			continue;
		p->with_pairs = i;
		copies = CUDA_COPIES_MOST;
	}
	g.x = g.x < most ? g.x : most;
	for (uint32_t i = 0; i < p->count; i++) {
		p->p[i].sharing.first = pieces;
		pieces += cuda_share_one(t, &p->p[i], copies, room->shared, &g);
		p->p[i].sharing.end = pieces;
	}
	return g;
}

/* Of up to 32 tokens: a warp has a tile, a block of threads eight of an item. */
static struct cuda_grid cuda_many_grid(const struct cuda_tokens *t, const struct cuda_product *p,
				       uint32_t items)
{
	enum { WARPS = 8, TOKENS = 32, STAGES = 2 };
	const uint32_t words = CUDA_PARTS * (block_layouts[t->format].by_16 ? 4 : 8) + 4;
	const uint32_t scales = WARPS * 2 * CUDA_PARTS * CUDA_ROWS * 4,
		       inputs = STAGES * TOKENS * (CUDA_PARTS * 8 + words * 4);
	const struct cuda_grid g = {cuda_parts(cuda_parts(p->rows, CUDA_ROWS), WARPS),
				    items * p->parts, WARPS * CUDA_WARP, scales + inputs + 2 * TOKENS * 4};
	return g;
}

/* Rows of a block of threads: few of a small matrix, if it may have the shared memory for them. */
static uint32_t cuda_float_rows(uint32_t tokens, enum cuda_number type, uint32_t rows, uint32_t shared)
{
	enum { SMALL = 512 };
	const bool fit = cuda_float_shared(CUDA_FLOAT_FEW, tokens, type) <= shared;

	return tokens == 1 || (rows <= SMALL && fit) ? CUDA_FLOAT_FEW : CUDA_FLOAT_MANY;
}

static struct cuda_grid cuda_float_grid(const struct cuda_tokens *t, const struct cuda_product *p,
					uint32_t items, uint32_t shared)
{
	const enum cuda_number type = t->format == FORMAT_F32 ? CUDA_F32 : CUDA_F16;
	const uint32_t rows = cuda_float_rows(t->tokens, type, p->rows, shared);
	/* Of one token, more threads than add, for copying. */
	const uint32_t threads = t->tokens == 1
					 ? 256
					 : rows * CUDA_LANES * t->tokens / cuda_float_tokens(t->tokens);
	const struct cuda_grid g = {cuda_parts(p->rows, rows), items * p->parts, threads,
				    cuda_float_shared(rows, t->tokens, type)};
	return g;
}

struct cuda_grid cuda_product_grid(enum cuda_kernel k, struct cuda_product *p, uint32_t items,
				   const struct cuda_room *room)
{
	const struct cuda_tokens *t = cuda_tokens_of(k);

	if (!t)
		return cuda_tiles_grid(cuda_find_tokens(cuda_tiles, CUDA_TILES, k), p, items, room);
	if (format_is_float(t->format))
		return cuda_float_grid(t, p, items, room->shared);
	if (format_is_block(t->format))
		return t->tokens <= 8 ? cuda_block_grid(t, p, items, room) : cuda_many_grid(t, p, items);
	return cuda_tc_grid(t, p, items, room);
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

struct cuda_grid cuda_lengths_grid(const struct cuda_lengths *p)
{
	return cuda_warps_grid(p->rows, 0);
}

struct cuda_grid cuda_items_grid(size_t n)
{
	const struct cuda_grid g = {(uint32_t)((n + CUDA_THREADS - 1) / CUDA_THREADS), 1,
				    CUDA_THREADS, 0};
	return g;
}

struct cuda_grid cuda_search_grid(uint32_t rows)
{
	const struct cuda_grid g = {CUDA_LARGEST_PARTS, rows, CUDA_THREADS,
				    CUDA_THREADS / CUDA_WARP * sizeof(struct cuda_peak)};
	return g;
}

struct cuda_peak cuda_best_part(const struct cuda_peak *parts)
{
	struct cuda_peak best = parts[0];
	for (const struct cuda_peak *p = parts + 1; p < parts + CUDA_LARGEST_PARTS; p++)
		if (p->number > best.number || (p->number == best.number && p->at < best.at))
			best = *p;
	return best;
}

/* A softmax over all experts, and nothing else. */
static bool cuda_choice_is_plain(const struct cuda_choice *p)
{
	return p->order == CUDA_SOFTMAX_FIRST && p->groups <= 1 && p->multiplier == 1 && !p->bias &&
	       !p->correction && !p->scale;
}

enum cuda_kernel cuda_choice_kernel(const struct cuda_choice *p)
{
	return cuda_choice_is_plain(p) ? cuda_choose_number : cuda_choose_any_number;
}

enum cuda_kernel cuda_route_kernel(const struct cuda_choice *p)
{
	return cuda_choice_is_plain(p) ? cuda_route_number : cuda_route_any_number;
}

struct cuda_grid cuda_choice_grid(const struct cuda_choice *p)
{
	/* The last warp has no experts, but the softmax. */
	const uint32_t whole = cuda_whole_warps(p->experts), warps = whole / CUDA_WARP + 1;
	const struct cuda_grid g = {p->rows, 1, whole + CUDA_WARP,
				    (2 * whole + 1 + warps + 4 * p->top_k + 3 * p->groups) *
					    (uint32_t)sizeof(float)};
	return g;
}

struct cuda_grid cuda_groups_grid(struct cuda_groups *p)
{
	enum { THREADS = 1024, FEW = 16 }; /* FEW: assignments that a thread alone looks at */
	const uint32_t most = THREADS / p->experts, wanted = cuda_parts(p->rows * p->top_k, FEW);

	p->parts = wanted < most ? wanted : most;
	const struct cuda_grid g = {1, 1, cuda_whole_warps(p->experts * p->parts),
				    (p->parts + 3) * p->experts * (uint32_t)sizeof(uint32_t)};
	return g;
}

/* Shared memory of cuda_attend_heads: values and keys, and of each head a query, exponentials, and a number or two
 * of each block and chunk of positions. */
static uint32_t cuda_near_bytes(uint32_t heads)
{
	const uint32_t halves = CUDA_SPAN * CUDA_HEAD + CUDA_SPAN_BLOCKS * CUDA_HEAD * CUDA_NEAR_STEP;
	const uint32_t floats = CUDA_HEAD + CUDA_SPAN + CUDA_SPAN / 16 + 3 * CUDA_SPAN_BLOCKS + 1;

	return heads * floats * (uint32_t)sizeof(float) + halves * (uint32_t)sizeof(uint16_t);
}

struct cuda_grid cuda_spans_grid(const struct cuda_attention *p)
{
	const uint32_t heads = cuda_heads_together(p), dim = p->head_dim;
	const uint32_t floats = CUDA_SPAN + CUDA_SPAN / CUDA_WARP + 2 * CUDA_SPAN_BLOCKS +
				cuda_parts(dim, 4) * 4;
	const uint32_t values = cuda_values_copied(p->half, dim) ? CUDA_SPAN * dim * 2 : 0;
	const struct cuda_grid g = {p->n * p->heads / heads, p->spans, CUDA_SPAN,
				    heads * floats * (uint32_t)sizeof(float) + values +
					    (cuda_keys_copied(p) ? values : 0)};
	return g;
}

bool cuda_attends_heads(const struct cuda_attend_heads *p, const struct cuda_room *room)
{
	const struct cuda_attention *a = &p->attention;
	const uint32_t dim = a->head_dim, turned = p->heads.turned;

	return a->half && dim % CUDA_WARP == 0 && dim <= CUDA_HEAD && 2 * turned <= dim &&
	       (turned % CUDA_WARP == 0 || turned == CUDA_LANES) && a->n <= CUDA_NEAR_ROWS &&
	       room->shared >= cuda_near_bytes(CUDA_HEADS_MOST);
}

struct cuda_grid cuda_attend_heads_grid(struct cuda_attend_heads *p)
{
	const struct cuda_attention *a = &p->attention;
	enum { FEW = 128 };
	const uint32_t all = a->n * a->heads * a->spans;

	/* a processor has room for one block of threads */
	p->together = all > 2 * FEW && a->group % 4 == 0 ? 4 : all > FEW && a->group % 2 == 0 ? 2 : 1;
	p->heads_inverse = cuda_parts(1U << CUDA_NEAR_INVERSE, a->heads);
	p->group_inverse = cuda_parts(1U << CUDA_NEAR_INVERSE, a->group);
	const struct cuda_grid g = {a->n * a->heads / p->together, a->spans, CUDA_SPAN,
				    cuda_near_bytes(p->together)};
	return g;
}

/* Most spans that rows together see: with a window they may see one more than each of them. */
static uint32_t cuda_spans_together(const struct cuda_attention *p)
{
	const uint32_t seen = p->window + CUDA_ROWS_TOGETHER - 1;
	const uint32_t most = cuda_parts(seen - 1, CUDA_SPAN) + 1;

	return p->window && p->spans < most ? p->spans + 1 : p->spans;
}

struct cuda_grid cuda_rows_grid(const struct cuda_attention *p)
{
	const uint32_t floats = p->head_dim + CUDA_SPAN + CUDA_SPAN / CUDA_WARP + 2 * CUDA_SPAN_BLOCKS;
	const struct cuda_grid g = {cuda_parts(p->n, CUDA_ROWS_TOGETHER) * p->heads,
				    cuda_spans_together(p), CUDA_SPAN,
				    floats * CUDA_ROWS_TOGETHER * (uint32_t)sizeof(float)};
	return g;
}

struct cuda_grid cuda_join_grid(const struct cuda_attention *p)
{
	const uint32_t wanted = cuda_whole_warps(p->head_dim);
	const struct cuda_grid g = {p->n * p->heads, 1,
				    wanted < CUDA_THREADS ? wanted : CUDA_THREADS, 0};
	return g;
}

/* ---- delta nets ---- */

struct cuda_grid cuda_delta_mix_grid(const struct cuda_delta *p)
{
	const uint32_t most = p->key_dim > CUDA_DELTA_THREADS ? CUDA_DELTA_DIM : CUDA_DELTA_THREADS;
	const uint32_t units = 2 * p->key_heads + cuda_parts(p->value_heads * p->value_dim, most) +
			       cuda_parts(p->value_heads, most / 2);
	const struct cuda_grid g = {p->n * units, 1, most, most * (uint32_t)sizeof(float)};
	return g;
}

bool cuda_delta_is_short(const struct cuda_delta *p)
{
	return p->n <= p->most; /* most: the step's rows, up to 32 of them */
}

enum cuda_kernel cuda_delta_steps_kernel(const struct cuda_delta *p)
{
	return p->key_dim == TQ_GROUP && p->value_dim == TQ_GROUP ? cuda_delta_steps_number
								  : cuda_delta_steps_any_number;
}

/* Of a head in shared memory, and of its inputs in 8 bits. */
static uint32_t cuda_delta_output_floats(const struct cuda_delta *p)
{
	const uint32_t usual = 2 * TQ_GROUP;
	return p->value_dim > usual ? p->value_dim : usual;
}

struct cuda_grid cuda_delta_steps_grid(struct cuda_delta *p)
{
	const uint32_t parts = cuda_parts(p->key_dim, CUDA_DELTA_KEYS), most = 16;
	const uint32_t channels = 2 * p->key_heads * p->key_dim + p->value_heads * p->value_dim;

	p->together = p->n < most ? p->n : most;
	p->share = parts > 4 ? 8 : parts > 2 ? 4 : 2;
	const uint32_t columns = CUDA_DELTA_THREADS / p->share;
	const uint32_t blocks = p->value_heads * cuda_parts(p->value_dim, columns);
	const uint32_t row = 2 * parts * CUDA_DELTA_KEYS + columns + 4;
	const uint32_t rows = p->together * row, end = cuda_delta_output_floats(p);
	const uint32_t floats = (rows > end ? rows : end) + CUDA_CONV_WIDTH * cuda_parts(channels, blocks);
	const struct cuda_grid g = {blocks, p->most, CUDA_DELTA_THREADS, floats * (uint32_t)sizeof(float)};
	return g;
}

struct cuda_grid cuda_delta_outputs_grid(const struct cuda_delta *p)
{
	const struct cuda_grid g = {p->n * p->value_heads, 1, CUDA_DELTA_THREADS,
				    cuda_delta_output_floats(p) * (uint32_t)sizeof(float)};
	return g;
}
