/* The parts of a store's folder that are for other programs: the headers of its two safetensors
 * files, and the files that make the folder a checkpoint. cache/store.h writes and reads the
 * records, and knows nothing of this. README.md lists all files of the folder.
 *
 * Each header is that of a safetensors file: its length, JSON, and spaces up to a multiple of 4096.
 * Tensors have the checkpoint's names, or the common names if the checkpoint stacks or fuses them.
 * A TQ matrix NAME is stored as in native TQ checkpoints: NAME.tq_packed, u8 [rows · groups, bytes
 * of a group], and NAME.tq_norms, f16 or f32 [rows, groups]. A TC matrix is the same with .tc_. MLX
 * and MXFP4 matrices are stored as they are published. GGUF blocks have no convention in
 * safetensors: they are u8 tensors named after their format.
 *
 * Other tools cannot read compressed experts (codec zstd). Their header lists no tensors and says
 * so in its metadata. A strict reader refuses such a file, since its tensors do not cover the data.
 */
#ifndef MOEFS_ENGINE_CONVERT_STORE_FOLDER_H
#define MOEFS_ENGINE_CONVERT_STORE_FOLDER_H

#include "cache/err.h"
#include "engine/family/plan.h"

struct store_headers {
	char *experts, *dense; /* owned; not terminated */
	size_t experts_bytes, dense_bytes;
};

/* Makes the headers for a plan. */
int store_headers_make(struct store_headers *h, const struct config *c, const struct plan *p,
		       struct err *e);
void store_headers_free(struct store_headers *h);

/* Everything that the store's writer needs, for a checkpoint with this fingerprint. *out points to
 * the plan and to *h, which this function makes and the caller frees. */
int store_describe(struct store_plan *out, struct store_headers *h, const struct config *c,
		   const struct plan *p, const uint64_t fingerprint[2], struct err *e);

/* -ESTALE: the store was made by another plan and must not be read. */
int store_check_plan(const struct store *s, const struct plan *p, struct err *e);

/* Makes the store's folder a native TQ or TC checkpoint, which moefs and other programs can open as
 * a model: adds an index of the tensors' files, tq_config.json or tc_config.json, copies of the
 * source's tokenizer files and, last, config.json, so that its presence means that all files are
 * complete. Does nothing for stores with other formats, or for a source without a config.json. The
 * store itself needs none of these files. */
int store_make_checkpoint(const char *folder, const char *source, const struct config *c,
			  const struct plan *p, struct err *e);

#endif
