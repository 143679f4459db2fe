/* What a store's folder contains for other programs: the headers of its two safetensors files, and
 * the files that make it a checkpoint. cache/store.h writes and reads the records themselves and
 * knows none of this; README.md lists all files of the folder.
 *
 * A header is that of a safetensors file: its length, JSON, and spaces up to a multiple of 4096.
 * Tensors have the checkpoint's own names, or the common names where the checkpoint stacks or fuses
 * them. A TQ matrix NAME is NAME.tq_packed, u8 [rows · groups, bytes of a group], and
 * NAME.tq_norms, f16 or f32 [rows, groups], as native TQ checkpoints have them; a TC matrix is the
 * same with .tc_; MLX's and MXFP4's are as those who publish them have them. GGUF's blocks, which
 * nobody publishes in safetensors, are u8 under the name of their format.
 *
 * Coded experts (codec zstd) are nothing that other tools could read. Their header lists no tensor
 * and says so in its metadata: a reader that insists, as the format does, on tensors that cover the
 * data refuses the file.
 */
#ifndef MOEFS_ENGINE_CONVERT_STORE_FOLDER_H
#define MOEFS_ENGINE_CONVERT_STORE_FOLDER_H

#include "cache/err.h"
#include "engine/family/plan.h"

struct store_headers {
	char *experts, *dense; /* owned; not terminated */
	size_t experts_bytes, dense_bytes;
};

/* The headers that a plan makes. */
int store_headers_make(struct store_headers *h, const struct config *c, const struct plan *p,
		       struct err *e);
void store_headers_free(struct store_headers *h);

/* All that the store's writer must know, for a checkpoint with that fingerprint. *out refers to the
 * plan and to *h, which this makes and the caller frees. */
int store_describe(struct store_plan *out, struct store_headers *h, const struct config *c,
		   const struct plan *p, const uint64_t fingerprint[2], struct err *e);

/* -ESTALE, in words: the store was not made by this plan, and nothing of it may be read. */
int store_check_plan(const struct store *s, const struct plan *p, struct err *e);

/* Makes the store's folder a native TQ or TC checkpoint, which moefs and others can open as a
 * model: an index of which file has which tensor, tq_config.json or tc_config.json, and copies of
 * the source's tokenizer files and, last, config.json, so that where this is all are. Does nothing
 * for a store that is no such checkpoint, or for a source without a config.json. The store itself
 * needs none of these files. */
int store_make_checkpoint(const char *folder, const char *source, const struct config *c,
			  const struct plan *p, struct err *e);

#endif
