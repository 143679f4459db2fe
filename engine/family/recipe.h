/* Recipes: which tensor is stored in which weight format.
 *
 * `-o quant=` chooses one by name. bf16 stores every matrix in the checkpoint's own 16-bit (or
 * 32-bit) type and computes exactly. The others store each class of tensors in the format given by
 * the table in recipe.c. With -o exact they compute exactly, too: weights are decoded to floats
 * when they are read into memory.
 */
#ifndef MOEFS_ENGINE_FAMILY_RECIPE_H
#define MOEFS_ENGINE_FAMILY_RECIPE_H

#include "cache/err.h"
#include "engine/family/role.h"
#include "kernels/format.h"

#include <stdbool.h>
#include <stddef.h>

/* How experts' records are compressed on disk, without loss. */
enum recipe_codec {
	CODEC_NONE,
	CODEC_ZSTD, /* see cache/codec.h; only for records in 16 bits */
	CODEC_AUTO, /* a request: choose the faster one when the store is made */
};

/* The formats of a checkpoint's quantised tensors, found by sources.h. */
struct published {	 /* zero-initialise */
	uint32_t layers; /* including the draft layer */
	struct published_format {
		enum format format; /* FORMAT_COUNT: do not keep the published format */
		enum norm_type norms;
		uint32_t group;
	} *of; /* [layers][TENSOR_ROLES]; tensors that occur once: in the layer of their id */
};

struct config;

struct recipe {
	const char *quant; /* its name in the table */
	uint8_t table;	   /* which of the table rows with this name; stores of older rows are still
			      used */
	enum format of[CLASS_MATRICES];
	enum format of_hybrids[CLASS_MATRICES]; /* for models with delta nets */
	/* Exceptions, instead of a format with groups. FORMAT_COUNT: no exception. */
	enum format last;  /* in the last layer */
	enum format more;  /* for down in some layers */
	enum format first; /* in the first layer, and for k */
	/* for rows that are not a multiple of the group size */
	enum format of_uneven[CLASS_MATRICES];
	bool exact; /* everything in memory is float: weights, activations, keys and values */
	bool as_published; /* tensors in a kernel format keep it (struct published) */

	/* Expert budget in bytes; the default recipe depends on it. Not in recipe_to_text. */
	uint64_t budget;

	/* Facts about the checkpoint on which the store's layout depends. They are found during
	 * conversion and saved in the store's key, so that a mount need not read the checkpoint's
	 * headers. */
	enum format kept;     /* type of tensors that are not quantised, as in the checkpoint */
	enum norm_type norms; /* of TQ groups: F16, unless a norm would overflow or underflow */
	bool draft;	      /* there is a draft layer */
	/* Refined stores: how many tokens the moments for rounding come from (convert/rounding.h),
	 * and a number that identifies these moments. 0: rounded to nearest. */
	uint32_t refined;
	uint16_t refined_by;
	/* The published formats to keep; owned by the caller and needed while a plan is made. NULL:
	 * none. Not in recipe_to_text, since they are found in the checkpoint's headers each time.
	 */
	const struct published *published;
	enum recipe_codec codec; /* of an engine: the requested codec; of a store: its codec */
};

/* Finds a recipe by name; NULL: the default for models with many experts. -EINVAL: no such recipe;
 * the sentence lists the names. kept and norms get their usual values, codec is CODEC_NONE, draft
 * is false, budget is 0. */
int recipe_find(struct recipe *r, const char *quant, struct err *e);
/* The default recipe of a 16-bit model, for this expert budget; other fields as in recipe_find. */
void recipe_find_default(struct recipe *r, const struct config *c, uint64_t budget);
/* If the recipe is the default of this model: a description of the models that have this default.
 * Else NULL. */
const char *recipe_default_of(const struct recipe *r, const struct config *c);
/* Changes to the i-th default of earlier versions, the latest first. Stores with these recipes are
 * used until another recipe is asked for. False: there is no i-th. */
bool recipe_make_former(struct recipe *r, const struct config *c, size_t i);
/* Whether a store with the recipe `stored` may be used for this recipe: the names are equal, and
 * its table is the same, an older one, or one for refined stores. */
bool recipe_includes(const struct recipe *r, const struct recipe *stored);
/* Changes to the table for refined stores, if there is one with this name for the model. */
void recipe_make_refined(struct recipe *r, const struct config *c);
/* Changes to the table of a store that recipe_includes accepts. */
void recipe_take_table(struct recipe *r, const struct recipe *stored);
/* Sets the codec by name; NULL: auto. -EINVAL: no such codec, or the recipe's records cannot be
 * compressed. */
int recipe_ask_codec(struct recipe *r, const char *codec, struct err *e);
const char *recipe_codec_name(enum recipe_codec codec);
/* Whether experts' records have 16 bits; only such records can be compressed. */
bool recipe_can_code(const struct recipe *r);
/* Makes the recipe compute exactly with the stored weights; `auto`: with the published ones. */
void recipe_make_exact(struct recipe *r);
/* Whether the recipe stores only plain numbers, also for quantised tensors: bf16. */
bool recipe_is_plain(const struct recipe *r);
/* Replaces a recipe that keeps published formats, for a model without quantised tensors; keeps the
 * codec. */
void recipe_keep_none(struct recipe *r, const struct config *c);
/* The recipe with which a model writes and reads the text for refining stores of this recipe; NULL:
 * the same recipe. */
const char *recipe_reader(const struct recipe *r);
/* Changes to a recipe of the same name with a wider range of numbers: first norms in F32, then the
 * name's first table, which pads rows instead of using blocks with scales in F16. False: there is
 * no wider one. */
bool recipe_widen(struct recipe *r);
/* Whether recipe_widen can change the table. */
bool recipe_can_pad(const struct recipe *r);
/* Sets `kept` and `norms`. */
void recipe_keep(struct recipe *r, enum format kept, enum norm_type norms);

/* Write and read the recipe as the text in a store's key; false: not a text of this version. The
 * text does not include `exact`. */
void recipe_to_text(const struct recipe *r, char *text, size_t size);
bool recipe_from_text(struct recipe *r, const char *text);

/* The stored format of a tensor with rows of `cols`, which depends on its class, its layer and its
 * row length. Vectors are F32, which is exact for every source. */
enum format recipe_format(const struct recipe *r, const struct config *c, struct tensor_id id,
			  uint32_t cols);
/* The published format to keep for a tensor; NULL: use recipe_format. */
const struct published_format *recipe_published(const struct recipe *r, struct tensor_id id);

#endif
