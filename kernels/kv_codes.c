/* What keys and values take in a block of 64 positions, by their type. See kernels.h. */
#include "kernels/kv_codes.h"

static const struct {
	const char *name;
	size_t element;
} kv_types[KV_TYPES] = {
	[KV_F32] = {"f32", sizeof(float)},
	[KV_F16] = {"f16", sizeof(uint16_t)},
	[KV_Q8] = {"q8", 1},
	[KV_Q4] = {"q4", 1},
	[KV_Q8Q4] = {"q8q4", 1},
};

bool kv_type_codes(enum kv_type type)
{
	return type >= KV_Q8;
}

const char *kv_type_name(enum kv_type type)
{
	return kv_types[type].name;
}

size_t kv_type_element(enum kv_type type)
{
	return kv_types[type].element;
}

size_t kv_key_bytes(enum kv_type type, uint32_t head_dim, uint32_t latent_dim)
{
	if (!kv_type_codes(type))
		return (size_t)head_dim * KV_BLOCK * kv_type_element(type);
	const struct kv_codes c = kv_codes_of_keys(type, head_dim, latent_dim);
	return kv_codes_bytes(&c);
}

size_t kv_value_bytes(enum kv_type type, uint32_t head_dim)
{
	if (!kv_type_codes(type))
		return (size_t)head_dim * KV_BLOCK * kv_type_element(type);
	const struct kv_codes c = kv_codes_of_values(type, head_dim);
	return kv_codes_bytes(&c);
}

/* What follows the codes of keys and of values alike. */
static void kv_scale_rows(const struct kv_codes *c, size_t held, kv_rows_fn *each, void *ctx)
{
	const size_t half = sizeof(uint16_t);

	each(ctx, c->parts, KV_BLOCK * half, held * half);
	if (c->four)
		each(ctx, c->columns / kv_codes_fine(c), KV_BLOCK, held);
}

void kv_key_rows(enum kv_type type, uint32_t head_dim, uint32_t latent_dim, size_t held,
		 kv_rows_fn *each, void *ctx)
{
	if (!kv_type_codes(type)) {
		each(ctx, head_dim, KV_BLOCK, held);
		return;
	}
	const struct kv_codes c = kv_codes_of_keys(type, head_dim, latent_dim);
	each(ctx, kv_codes_scales(&c) / KV_CODES_ROW, KV_CODES_ROW, held * KV_CODES_QUAD);
	kv_scale_rows(&c, held, each, ctx);
}

void kv_value_rows(enum kv_type type, uint32_t head_dim, size_t held, kv_rows_fn *each, void *ctx)
{
	if (!kv_type_codes(type)) {
		each(ctx, 1, (size_t)KV_BLOCK * head_dim, held * head_dim);
		return;
	}
	const struct kv_codes c = kv_codes_of_values(type, head_dim);
	const size_t columns = KV_CODES_PAD >> c.four;
	for (uint32_t d = 0; d < c.columns; d += KV_CODES_PAD)
		for (size_t j = 0; j < KV_BLOCK; j += KV_CODES_QUAD) {
			const size_t left = held > j ? held - j : 0;
			each(ctx, columns, KV_CODES_QUAD,
			     left < KV_CODES_QUAD ? left : KV_CODES_QUAD);
		}
	kv_scale_rows(&c, held, each, ctx);
}
