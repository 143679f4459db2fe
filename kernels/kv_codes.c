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
