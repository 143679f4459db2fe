/* Recipes: which tensor is stored in which weight format.
 *
 * `-o quant=` names one. bf16 stores every matrix in the checkpoint's own 16-bit (or 32-bit) type
 * and computes exactly. The others store each class of tensors as the table in recipe.c says. They
 * compute exactly if asked to: codes then become floats on their way into memory.
 */
#ifndef MOEFS_ENGINE_FAMILY_RECIPE_H
#define MOEFS_ENGINE_FAMILY_RECIPE_H

#include "cache/err.h"
#include "engine/family/role.h"
#include "kernels/format.h"

#include <stdbool.h>
#include <stddef.h>

/* How experts' records are stored on disk. The weights are the same either way. */
enum recipe_codec {
	CODEC_NONE,
	CODEC_ZSTD, /* as cache/codec.h makes them; for records in 16 bits */
	CODEC_AUTO, /* the faster of the two: only a request, decided when a store is made */
};

/* The formats that a checkpoint's quantised tensors are in, found by sources.h. */
struct published {	 /* zero-initialise */
	uint32_t layers; /* with a draft's */
	struct published_format {
		enum format format; /* FORMAT_COUNT: none that is kept */
		enum norm_type norms;
		uint32_t group;
	} * of; /* [layers][TENSOR_ROLES]; what occurs once is in the layer that its id has */
};

struct config;

struct recipe {
	const char *quant; /* its name in the table */
	uint8_t table;	   /* which of the rows of that name; stores of older ones are used */
	enum format of[CLASS_MATRICES];
	enum format of_hybrids[CLASS_MATRICES]; /* of models with delta nets */
	/* In place of codes in groups; FORMAT_COUNT: these codes. */
	enum format last;		       /* in the last layer */
	enum format more;		       /* for down in some layers */
	enum format first;		       /* in the first layer, and for k */
	enum format of_uneven[CLASS_MATRICES]; /* in rows that are no whole groups */
	bool exact;	   /* all of memory in floats: weights, activations, key-value cache */
	bool as_published; /* tensors in a kernels' format keep it: struct published */

	/* Bytes for experts, which the default of models with experts depends on. Not in texts. */
	uint64_t budget;

	/* Facts of the checkpoint that the stored layout depends on: found while converting, and
	 * written into the store's key, so that a mount need not read the checkpoint's headers. */
	enum format kept;     /* of tensors that are not quantised: the checkpoint's type */
	enum norm_type norms; /* of TQ groups: F16 unless one would over- or underflow */
	bool draft;	      /* there is a draft layer */
	/* The number of tokens by whose moments weights were rounded (convert/rounding.h), and a
	 * number that tells these moments from others. 0: rounded to the nearest. */
	uint32_t refined;
	uint16_t refined_by;
	/* The formats that are kept; the caller's, while a plan is made of the recipe. NULL: none.
	 * Not in texts: they are found in the checkpoint's headers each time. */
	const struct published *published;
	enum recipe_codec codec; /* of an engine: what was asked for; of a store: what it has */
};

/* Finds a recipe by name; NULL means the default of models with many experts. EINVAL, listing the names:
 * there is no such recipe. kept and norms have their usual values, codec is CODEC_NONE, draft
 * false, budget 0. */
int recipe_find(struct recipe *r, const char *quant, struct err *e);
/* The recipe of a 16-bit model where none is asked for, with a budget for experts; the rest as
 * recipe_find. */
void recipe_find_default(struct recipe *r, const struct config *c, uint64_t budget);
/* If the recipe is what such a model has where none is asked for: which models these are, in words.
 * Else NULL. */
const char *recipe_default_of(const struct recipe *r, const struct config *c);
/* Changes to the i-th default of earlier versions, the latest first; their stores are used until
 * another recipe is asked for. False: there were not so many. */
bool recipe_make_former(struct recipe *r, const struct config *c, size_t i);
/* Whether a store by another recipe is one by this recipe: of the same name, and of the same table,
 * an older one, or one of refined stores. */
bool recipe_includes(const struct recipe *r, const struct recipe *stored);
/* Changes to the table of refined stores, if there is one of this name for such a model. */
void recipe_make_refined(struct recipe *r, const struct config *c);
/* Changes to the table of a store that is included. */
void recipe_take_table(struct recipe *r, const struct recipe *stored);
/* Sets the codec by name; NULL is auto. EINVAL: there is no such codec, or the recipe's records do
 * not shrink. */
int recipe_ask_codec(struct recipe *r, const char *codec, struct err *e);
const char *recipe_codec_name(enum recipe_codec codec);
/* True if experts' records are in 16 bits, the only ones that a codec shrinks. */
bool recipe_can_code(const struct recipe *r);
/* Makes the recipe compute exactly with what it stores; `auto` with what is published. */
void recipe_make_exact(struct recipe *r);
/* True if the recipe stores numbers alone, also those of codes: bf16. */
bool recipe_is_plain(const struct recipe *r);
/* Replaces a recipe that keeps published formats, for a model without any; the codec stays. */
void recipe_keep_none(struct recipe *r, const struct config *c);
/* The recipe of the model that reads and writes the text by which stores of this one are refined;
 * NULL: this one. */
const char *recipe_reader(const struct recipe *r);
/* Changes to a recipe of the same name that holds numbers which this one cannot: norms in F32; then
 * the name's first table, which pads rows instead of storing them in blocks, whose scales are F16.
 * False: there is none. */
bool recipe_widen(struct recipe *r);
/* Whether that can end in another table. */
bool recipe_can_pad(const struct recipe *r);
/* Sets these facts of the checkpoint. */
void recipe_keep(struct recipe *r, enum format kept, enum norm_type norms);

/* Writes the recipe as the text of a store's key, and reads it (false: not a text of this version).
 * The text does not say whether the recipe computes exactly. */
void recipe_to_text(const struct recipe *r, char *text, size_t size);
bool recipe_from_text(struct recipe *r, const char *text);

/* The stored format of a tensor with rows of `cols`, by its class, its layer, and what fits its
 * rows. Vectors are F32: tiny, and exact for every source. */
enum format recipe_format(const struct recipe *r, const struct config *c, struct tensor_id id,
			  uint32_t cols);
/* The published format that a tensor keeps; NULL: recipe_format decides. */
const struct published_format *recipe_published(const struct recipe *r, struct tensor_id id);

#endif
