/* Tokens by id and by bytes. A token's bytes are computed once, when the file is read, so that
 * decoding is an array access. Merges are in bpe.c. */
#include "engine/tokenizer/vocabulary.h"

#include "engine/tokenizer/normalize.h"
#include "cache/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

enum {
	SLOT_EMPTY = UINT32_MAX,
	JOINT_BITS = 20, /* of a pair's place among the joints: 128 KiB, of which few are set */
};

/* Writes the bytes of spelling[n], at most n. False if a character is not of the byte-level
 * alphabet: bytes that are printable in Latin-1 are spelled as they are, the others (0..32,
 * 127..160, 173) were numbered from U+0100 on, in order. */
static bool vocabulary_spelled_bytes(const char *spelling, size_t n, char *bytes, size_t *length)
{
	*length = 0;
	for (size_t i = 0, step; i < n; i += step) {
		uint32_t c = utf8_decode(spelling + i, &step), k = c - 256;
		bool printable = (c > 32 && c < 127) || (c > 160 && c < 256 && c != 173);
		if (!printable && (c < 256 || k > 67))
			return false;
		bytes[(*length)++] = (char)(printable ? c : k < 33 ? k : k < 67 ? k + 94 : 173);
	}
	return true;
}

/* The byte of a piece such as <0x0A>, or -1. */
static int vocabulary_fallback_byte(const char *spelling, size_t n)
{
	static const char DIGITS[] = "0123456789ABCDEF";
	if (n != 6 || memcmp(spelling, "<0x", 3) != 0 || spelling[5] != '>')
		return -1;
	const char *high = memchr(DIGITS, spelling[3], 16), *low = memchr(DIGITS, spelling[4], 16);
	return high && low ? (int)((high - DIGITS) << 4 | (low - DIGITS)) : -1;
}

/* Writes the bytes of a spelling, at most n. False if no merge can make this token; its bytes
 * are then those for decoding. */
static bool vocabulary_spell(const struct vocabulary *v, const char *spelling, size_t n,
			     char *bytes, size_t *length)
{
	if (v->spelling == SPELLED_BYTES && vocabulary_spelled_bytes(spelling, n, bytes, length))
		return n > 0;
	*length = n;
	memcpy(bytes, spelling, n);
	if (v->spelling == SPELLED_BYTES)
		return false;
	int byte = vocabulary_fallback_byte(spelling, n);
	*length = byte < 0 ? normalize_spaces(bytes, n) : 1;
	if (byte >= 0)
		bytes[0] = (char)byte;
	return n > 0 && byte < 0 && !memchr(spelling, ' ', n);
}

int vocabulary_init(struct vocabulary *v, uint32_t size, size_t count, struct err *e)
{
	v->size = size;
	for (v->slot_count = 16; v->slot_count < count + count / 2;)
		v->slot_count *= 2;
	v->tokens = calloc(size ? size : 1, sizeof *v->tokens);
	v->slots = malloc(v->slot_count * sizeof *v->slots);
	if (!v->tokens || !v->slots)
		return err_set(e, ENOMEM, "out of memory for a vocabulary of %u tokens", size);
	for (size_t i = 0; i < v->slot_count; i++)
		v->slots[i] = SLOT_EMPTY;
	for (int i = 0; i < 256; i++)
		v->byte_id[i] = v->fallback_id[i] = -1;
	if (getrandom(&v->seed, sizeof v->seed, 0) != (ssize_t)sizeof v->seed)
		return err_sys(e, errno, "no random numbers for the vocabulary's hash table");
	return 0;
}

void vocabulary_free(struct vocabulary *v)
{
	free(v->tokens);
	free(v->bytes);
	free(v->slots);
	free(v->joints);
	*v = (struct vocabulary){0};
}

/* Room for n more bytes. */
static int vocabulary_reserve_bytes(struct vocabulary *v, size_t n, struct err *e)
{
	size_t wanted = v->bytes_used + n;
	if (v->bytes && wanted <= v->bytes_capacity)
		return 0;
	if (wanted > UINT32_MAX)
		return err_set(e, EFBIG, "the texts of the vocabulary take more than 4 GiB");
	size_t capacity = 2 * wanted + 4096;
	char *bytes = realloc(v->bytes, capacity);
	if (!bytes)
		return err_set(e, ENOMEM, "out of memory for the vocabulary's texts");
	v->bytes = bytes;
	v->bytes_capacity = capacity;
	return 0;
}

/* The slot that holds the token with these bytes, or the free one where it would go. */
static size_t vocabulary_slot_of(const struct vocabulary *v, const char *bytes, size_t n)
{
	size_t mask = v->slot_count - 1;
	size_t slot = XXH3_64bits_withSeed(bytes, n, v->seed) & mask;
	for (; v->slots[slot] != SLOT_EMPTY; slot = (slot + 1) & mask) {
		const struct token *t = &v->tokens[v->slots[slot]];
		if (t->length == n && memcmp(v->bytes + t->offset, bytes, n) == 0)
			break;
	}
	return slot;
}

/* --- which characters stand together --- */

static size_t vocabulary_joint_of(const struct vocabulary *v, uint32_t left, uint32_t right)
{
	uint64_t pair = ((uint64_t)left << 32 | right) ^ v->seed;
	return (size_t)(pair * 0x9e3779b97f4a7c15u >> (64 - JOINT_BITS));
}

bool vocabulary_joins(const struct vocabulary *v, uint32_t left, uint32_t right)
{
	size_t joint = vocabulary_joint_of(v, left, right);
	return v->joints && v->joints[joint / 64] >> joint % 64 & 1;
}

static int vocabulary_note_joints(struct vocabulary *v, const char *bytes, size_t n, struct err *e)
{
	if (!v->joints)
		v->joints = calloc((1 << JOINT_BITS) / 64, sizeof *v->joints);
	if (!v->joints)
		return err_set(e, ENOMEM, "out of memory for the vocabulary");
	size_t step;
	uint32_t left = utf8_decode(bytes, &step);
	for (size_t i = step; i < n; i += step) {
		uint32_t right = utf8_decode(bytes + i, &step);
		size_t joint = vocabulary_joint_of(v, left, right);
		v->joints[joint / 64] |= (uint64_t)1 << joint % 64;
		left = right;
	}
	return 0;
}

/* Enters a token into the hash table. */
static int vocabulary_enter(struct vocabulary *v, uint32_t id, const char *name, struct err *e)
{
	const struct token *t = &v->tokens[id];
	const char *bytes = v->bytes + t->offset;
	if (v->spelling == SPELLED_PIECES && t->length > PIECE_BYTES_MAX)
		return err_set(e, EINVAL, "%s: token %u has %u bytes, more than %d", name, id,
			       t->length, PIECE_BYTES_MAX);
	size_t slot = vocabulary_slot_of(v, bytes, t->length);
	if (v->slots[slot] != SLOT_EMPTY)
		return err_set(e, EINVAL, "%s: \"%.*s\" occurs twice, as id %u and as id %u", name,
			       (int)t->length, bytes, v->slots[slot], id);
	v->slots[slot] = id;
	if (t->length == 1)
		v->byte_id[(uint8_t)bytes[0]] = (int32_t)id;
	if (t->length > v->longest)
		v->longest = t->length;
	return v->spelling == SPELLED_PIECES ? vocabulary_note_joints(v, bytes, t->length, e) : 0;
}

int vocabulary_add(struct vocabulary *v, uint32_t id, const char *spelling, size_t n,
		   const char *name, struct err *e)
{
	struct token *t = &v->tokens[id];
	if (t->known)
		return err_set(e, EINVAL, "%s: id %u is given to \"%.*s\" and to another token",
			       name, id, (int)n, spelling);
	int rc = vocabulary_reserve_bytes(v, n, e);
	if (rc < 0)
		return rc;
	size_t length;
	bool found = vocabulary_spell(v, spelling, n, v->bytes + v->bytes_used, &length);
	*t = (struct token){(uint32_t)v->bytes_used, (uint32_t)length, true, false, 0};
	v->bytes_used += length;
	int byte = v->spelling == SPELLED_PIECES ? vocabulary_fallback_byte(spelling, n) : -1;
	if (byte >= 0)
		v->fallback_id[byte] = (int32_t)id;
	return found ? vocabulary_enter(v, id, name, e) : 0;
}

int vocabulary_add_bytes(struct vocabulary *v, uint32_t id, const char *bytes, size_t n,
			 const char *name, struct err *e)
{
	struct token *t = &v->tokens[id];
	if (t->known)
		return err_set(e, EINVAL, "%s: id %u is given to two tokens", name, id);
	int rc = vocabulary_reserve_bytes(v, n, e);
	if (rc < 0)
		return rc;
	memcpy(v->bytes + v->bytes_used, bytes, n);
	*t = (struct token){(uint32_t)v->bytes_used, (uint32_t)n, true, false, 0};
	v->bytes_used += n;
	return vocabulary_enter(v, id, name, e);
}

int vocabulary_add_literal(struct vocabulary *v, uint32_t id, const char *text, size_t length,
			   bool special, const char *name, struct err *e)
{
	int rc = vocabulary_reserve_bytes(v, length, e);
	if (rc < 0)
		return rc;
	struct token *t = &v->tokens[id];
	char *bytes = v->bytes + v->bytes_used;
	size_t spelled;
	int64_t same = vocabulary_spell(v, text, length, bytes, &spelled)
			       ? vocabulary_find(v, bytes, spelled)
			       : -1;
	if (same >= 0 && same != id)
		return err_set(
			e, EINVAL,
			"%s: added token \"%.*s\" has id %u, but the vocabulary has it as %u", name,
			(int)length, text, id, (unsigned)same);
	if (t->known && (t->length != spelled || memcmp(v->bytes + t->offset, bytes, spelled) != 0))
		return err_set(e, EINVAL, "%s: added token \"%.*s\" takes id %u of another token",
			       name, (int)length, text, id);
	if (v->spelling == SPELLED_BYTES) { /* added tokens are plain text */
		memcpy(bytes, text, length);
		spelled = length;
	}
	*t = (struct token){(uint32_t)v->bytes_used, (uint32_t)spelled, true, special, t->ends};
	v->bytes_used += spelled;
	return 0;
}

int64_t vocabulary_find(const struct vocabulary *v, const char *bytes, size_t n)
{
	uint32_t id = v->slots[vocabulary_slot_of(v, bytes, n)];
	return id == SLOT_EMPTY ? -1 : (int64_t)id;
}

int64_t vocabulary_find_spelling(const struct vocabulary *v, const char *spelling, size_t n,
				 char *buffer, size_t *length)
{
	return vocabulary_spell(v, spelling, n, buffer, length)
		       ? vocabulary_find(v, buffer, *length)
		       : -1;
}
