#include "cache/heat.h"

#include "cache/small_file.h"
#include "cache/store_files.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define HEAT "heat"
#define HEAT_NEW HEAT STORE_PARTIAL

struct heat_head {
	char magic[8], policy[16];
	uint32_t layers, experts;
	uint64_t checksum; /* of the floats */
};
_Static_assert(sizeof(struct heat_head) == HEAT_HEAD, "it is the head as it is in the file");
static const char heat_magic[8] = "MOEHEAT1";

static size_t float_bytes(const struct heat_of *of)
{
	return (size_t)of->layers * of->experts * sizeof(float);
}

static struct heat_head head_of(const struct heat_of *of, const void *floats)
{
	struct heat_head h = {.layers = of->layers, .experts = of->experts};
	memcpy(h.magic, heat_magic, sizeof h.magic);
	strncpy(h.policy, of->policy, sizeof h.policy - 1);
	h.checksum = XXH3_64bits(floats, float_bytes(of));
	return h;
}

int heat_decode(float *heat, const struct heat_of *of, const uint8_t *in, size_t bytes,
		const char *folder, struct err *e)
{
	size_t need = float_bytes(of);
	if (bytes < HEAT_HEAD || bytes - HEAT_HEAD < need)
		return err_damaged(e, "%s/" HEAT ": is cut short", folder);
	struct heat_head h, right = head_of(of, in + HEAT_HEAD);
	memcpy(&h, in, sizeof h);
	if (memcmp(&h, &right, offsetof(struct heat_head, checksum)) != 0)
		return err_set(e, ENOENT, "%s/" HEAT ": of another model or policy", folder);
	if (h.checksum != right.checksum)
		return err_damaged(e, "%s/" HEAT ": is damaged", folder);
	memcpy(heat, in + HEAT_HEAD, need);
	for (size_t i = 0; i < need / sizeof *heat; i++)
		heat[i] = isfinite(heat[i]) && heat[i] > 0 ? fminf(heat[i], HEAT_MOST) : 0;
	return 0;
}

int heat_read(float *heat, const struct heat_of *of, const char *folder, struct err *e)
{
	uint8_t *in;
	size_t bytes;
	int failed = small_file_read(&in, &bytes, HEAT_HEAD + float_bytes(of), folder, HEAT, e);
	if (!failed)
		failed = heat_decode(heat, of, in, bytes, folder, e);
	free(in);
	return failed;
}

int heat_write(const float *heat, const struct heat_of *of, const char *folder, struct err *e)
{
	const struct heat_head h = head_of(of, heat);
	size_t bytes = sizeof h + float_bytes(of);
	uint8_t *out = malloc(bytes);
	if (!out)
		return err_sys(e, ENOMEM, "%s/" HEAT, folder);
	memcpy(out, &h, sizeof h);
	memcpy(out + sizeof h, heat, float_bytes(of));
	int failed = small_file_write(out, bytes, folder, HEAT, HEAT_NEW, e);
	free(out);
	return failed;
}
