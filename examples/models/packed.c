/* See packed.h. */
#include "examples/models/packed.h"
#include "cache/codec.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { PACKED_SIZE_BYTES = 8, PACKED_PLANES = 4, PACKED_LEVEL = 19 };
enum packed_form { PACKED_CODEC, PACKED_BY_PLANES };

static void packed_put_size(uint8_t *to, uint64_t bytes, enum packed_form form)
{
	for (int i = 0; i < PACKED_SIZE_BYTES; i++)
		to[i] = (uint8_t)(bytes >> (8 * i));
	to[PACKED_SIZE_BYTES - 1] = (uint8_t)form;
}

static uint64_t packed_size(const uint8_t *data)
{
	uint64_t bytes = 0;
	for (int i = 0; i < PACKED_SIZE_BYTES - 1; i++)
		bytes |= (uint64_t)data[i] << (8 * i);
	return bytes;
}

/* ---- planes: plane p has byte p of each four bytes of the file ---- */

static size_t packed_plane_bytes(size_t bytes)
{
	return (bytes + PACKED_PLANES - 1) / PACKED_PLANES;
}

static uint8_t *packed_encode_planes(const uint8_t *data, size_t bytes, size_t *out_bytes)
{
	const size_t each = packed_plane_bytes(bytes), all = each * PACKED_PLANES, most = ZSTD_compressBound(all);
	uint8_t *planes = calloc(PACKED_PLANES, each), *out = planes ? malloc(PACKED_SIZE_BYTES + most) : NULL;
	if (out) {
		for (size_t i = 0; i < bytes; i++)
			planes[i % PACKED_PLANES * each + i / PACKED_PLANES] = data[i];
		const size_t n = ZSTD_compress(out + PACKED_SIZE_BYTES, most, planes, all, PACKED_LEVEL);
		if (ZSTD_isError(n)) {
			free(out);
			out = NULL;
		} else {
			packed_put_size(out, bytes, PACKED_BY_PLANES);
			*out_bytes = PACKED_SIZE_BYTES + n;
		}
	}
	free(planes);
	return out;
}

static int packed_decode_planes(uint8_t *out, size_t bytes, const uint8_t *stored, size_t stored_bytes)
{
	const size_t each = packed_plane_bytes(bytes), all = each * PACKED_PLANES;
	uint8_t *planes = malloc(all);
	const int wrong = !planes || ZSTD_decompress(planes, all, stored, stored_bytes) != all;
	for (size_t i = 0; !wrong && i < bytes; i++)
		out[i] = planes[i % PACKED_PLANES * each + i / PACKED_PLANES];
	free(planes);
	return wrong;
}

/* ---- records of the codec ---- */

static uint8_t *packed_encode_codec(const uint8_t *data, size_t bytes, size_t *out_bytes)
{
	size_t stored = 0;
	uint8_t *out = malloc(PACKED_SIZE_BYTES + codec_most(bytes));
	if (!out)
		return NULL;
	if (codec_encode(out + PACKED_SIZE_BYTES, &stored, data, bytes)) {
		free(out);
		return NULL;
	}
	packed_put_size(out, bytes, PACKED_CODEC);
	*out_bytes = PACKED_SIZE_BYTES + stored;
	return out;
}

static int packed_decode_codec(uint8_t *out, size_t bytes, const uint8_t *stored, size_t stored_bytes)
{
	uint8_t *temp = malloc(CODEC_TEMP);
	const int wrong = !temp || codec_decode(out, bytes, stored, stored_bytes, temp);
	free(temp);
	return wrong;
}

/* ---- both ---- */

uint8_t *packed_encode(const uint8_t *data, size_t bytes, size_t *out_bytes)
{
	size_t n[2] = {0};
	uint8_t *out[2] = {packed_encode_codec(data, bytes, &n[0]), packed_encode_planes(data, bytes, &n[1])};
	const int best = !out[0] || (out[1] && n[1] < n[0]);
	free(out[!best]);
	*out_bytes = n[best];
	return out[best];
}

uint8_t *packed_decode(const uint8_t *data, size_t bytes, size_t *out_bytes)
{
	static int (*const decode[])(uint8_t *out, size_t bytes, const uint8_t *stored, size_t stored_bytes) = {
		[PACKED_CODEC] = packed_decode_codec,
		[PACKED_BY_PLANES] = packed_decode_planes,
	};
	if (bytes <= PACKED_SIZE_BYTES)
		return NULL;
	const uint64_t whole = packed_size(data);
	const uint8_t form = data[PACKED_SIZE_BYTES - 1];
	if (whole == 0 || whole > CODEC_RECORD_MOST || form >= sizeof decode / sizeof *decode)
		return NULL;
	uint8_t *out = malloc(whole);
	if (out && decode[form](out, whole, data + PACKED_SIZE_BYTES, bytes - PACKED_SIZE_BYTES)) {
		free(out);
		return NULL;
	}
	*out_bytes = whole;
	return out;
}
