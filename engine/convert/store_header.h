/* What a plan says of its store: the heads of the two files, all that the store's writer must know,
 * and whether a store that is there is the plan's.
 *
 * The heads are those of safetensors files: length, JSON, and spaces up to a multiple of 4096.
 *
 * Names are the checkpoint's own, or the common ones of what it stacks or fuses; a TQ matrix NAME
 * is NAME.tq_packed, u8 [rows · groups, bytes of a group], and NAME.tq_norms, f16 or f32
 * [rows, groups], as native TQ checkpoints have them, and a TC matrix the same with .tc_; likewise
 * MLX's and MXFP4's. GGUF's blocks are u8 under the name of their format.
 *
 * The experts of a coded store are nothing that other tools could read, so their head lists no
 * tensor and says so in its metadata: a reader that insists, as the format does, on tensors that
 * cover the data refuses the file.
 */
#ifndef MOEFS_ENGINE_CONVERT_STORE_HEADER_H
#define MOEFS_ENGINE_CONVERT_STORE_HEADER_H

#include "cache/err.h"
#include "engine/family/plan.h"

/* How a piece of a stored matrix stands in a head. */
struct store_piece {
	const char *ending; /* of its name */
	const char *type;
	bool of_module;	   /* the name's own .weight goes before the ending */
	uint64_t shape[3]; /* the last is 0 where there are two */
};
struct store_piece store_piece(const struct shape *s, uint32_t piece);
enum { STORE_NAME_BYTES = 288 };
void store_piece_name(const struct config *c, struct tensor_id id, const struct store_piece *p,
		      char *name, size_t size);

struct store_headers {
	char *experts, *dense; /* owned; no terminator counted */
	size_t experts_bytes, dense_bytes;
};

int store_headers_make(struct store_headers *h, const struct config *c, const struct plan *p,
		       struct err *e);
void store_headers_free(struct store_headers *h);

/* The whole description, for a checkpoint of that fingerprint. It uses h, which it makes and the
 * caller frees, and the plan. */
int store_describe(struct store_plan *out, struct store_headers *h, const struct config *c,
		   const struct plan *p, const uint64_t fingerprint[2], struct err *e);

/* 0 if this plan made the store: nothing of a store may be read before. -ESTALE, in words: the
 * store has another layout. */
int store_held_to_plan(const struct store *s, const struct plan *p, struct err *e);

#endif
