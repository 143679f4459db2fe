/* Builds a tokenizer from the arrays of a GGUF file: tokens, kinds, scores and merges. Such a file
 * does not describe how a text is processed. It has two names, of a model and of a split, which
 * identify the published tokenizer. An unknown name is refused. */
#include "cache/utf8.h"
#include "engine/tokenizer/pretokenize.h"
#include "engine/tokenizer/tokenizer_build.h"
#include "engine/tokenizer/tokenizer_gguf.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tokenizer_gguf_model {
	const char *name;
	enum spelling spelling;
	bool split;	   /* split as named by `pre` */
	bool scores;	   /* scores instead of merges */
	bool space_prefix; /* default if the file does not say */
	bool add_bos;
};
static const struct tokenizer_gguf_model MODELS[] = {
	{"gpt2", SPELLED_BYTES, true, false, false, false},
	{"llama", SPELLED_PIECES, false, true, true, true},
	{"gemma4", SPELLED_PIECES, false, false, false, true},
};
/* Kinds of vocabulary that are not byte-pair merging. */
static const struct {
	const char *name, *what;
} OTHERS[] = {
	{"t5", "a unigram model"},
	{"bert", "word pieces"},
	{"rwkv", "a greedy trie"},
	{"plamo2", "a table of suffixes"},
	{"no_vocab", "no vocabulary at all"},
	{"none", "no vocabulary at all"},
};

static int tokenizer_gguf_find_model(const struct tokenizer_gguf *p,
				     const struct tokenizer_gguf_model **model, struct err *e)
{
	if (!p->model)
		return err_set(e, EINVAL,
			       "%s: the kind of vocabulary is missing (tokenizer.ggml.model)",
			       p->name);
	for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
		if (strcmp(p->model, MODELS[i].name) == 0) {
			*model = &MODELS[i];
			return 0;
		}
	for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
		if (strcmp(p->model, OTHERS[i].name) == 0)
			return err_set(e, ENOTSUP,
				       "%s: its vocabulary is \"%s\", %s; moefs supports only "
				       "byte-pair encoding (BPE)",
				       p->name, p->model, OTHERS[i].what);
	return err_set(e, ENOTSUP,
		       "%s: moefs does not support the vocabulary \"%.64s\" (tokenizer.ggml.model)",
		       p->name, p->model);
}

/* --- how text is split and normalised --- */

static int tokenizer_gguf_read_split(struct tokenizer *t, const struct tokenizer_gguf *p,
				     struct err *e)
{
	if (!p->pre || strcmp(p->pre, "default") == 0)
		return err_set(e, ENOTSUP,
			       "%s: tokenizer.ggml.pre is missing, which says how text is split "
			       "into words; an old converter made this file: download a newer one",
			       p->name);
	const struct pretokenize_name *split = pretokenize_find_name(p->pre);
	if (!split)
		return err_set(
			e, ENOTSUP,
			"%s: moefs does not support text split as \"%.64s\" (tokenizer.ggml.pre); "
			"mount the checkpoint with its tokenizer.json",
			p->name, p->pre);
	t->normalizer.nfc = split->nfc;
	t->ignore_merges = split->ignore_merges;
	t->add_bos = split->add_bos;
	int rc = 0;
	for (const char *const *pattern = split->patterns; rc == 0 && *pattern; pattern++)
		rc = pretokenize_add(&t->splitter, *pattern, false, p->name, e);
	return rc;
}

static int tokenizer_gguf_read_model(struct tokenizer *t, const struct tokenizer_gguf *p,
				     const struct tokenizer_gguf_model *model, struct err *e)
{
	t->vocabulary.spelling = model->spelling;
	t->add_bos = model->add_bos;
	if (model->split)
		return tokenizer_gguf_read_split(t, p, e);
	bool prefix =
		p->space_prefix == NOT_SAID ? model->space_prefix : p->space_prefix == SAID_YES;
	t->normalizer = (struct normalizer){.prepend = prefix, .marks = true};
	t->strip_space = prefix;
	return 0;
}

/* --- tokens --- */

/* Takes text i of a list, which must be UTF-8. An empty one may be NULL, which functions of the
 * C library do not accept. */
static int tokenizer_gguf_take_text(const struct tokenizer_gguf_text *list, size_t i,
				    const char *what, struct tokenizer_gguf_text *text,
				    const char *name, struct err *e)
{
	*text = list[i].length > 0 ? list[i] : (struct tokenizer_gguf_text){"", 0};
	size_t valid = utf8_valid_length(text->bytes, text->length);
	if (valid == text->length)
		return 0;
	return err_set(e, EINVAL, "%s: %s %zu is not valid UTF-8 at byte %zu", name, what, i,
		       valid);
}

/* Merges never make control tokens: a text that spells one in pieces stays text. */
static int tokenizer_gguf_add_token(struct tokenizer *t, const struct tokenizer_gguf *p,
				    uint32_t id, struct added_entries *added, struct err *e)
{
	struct tokenizer_gguf_text text;
	int32_t kind = p->kinds ? p->kinds[id] : KIND_NORMAL; /* unknown numbers are normal, too */
	bool cut = kind == KIND_CONTROL || kind == KIND_UNKNOWN || kind == KIND_USER_DEFINED;
	bool merged =
		!cut || (kind == KIND_USER_DEFINED && t->vocabulary.spelling == SPELLED_PIECES);
	int rc = tokenizer_gguf_take_text(p->tokens, id, "token", &text, p->name, e);
	if (rc == 0 && merged)
		rc = vocabulary_add(&t->vocabulary, id, text.bytes, text.length, p->name, e);
	if (rc < 0 || !cut || text.length == 0)
		return rc;
	struct added_entry entry = {.content = text.bytes,
				    .length = text.length,
				    .id = id,
				    .special = kind != KIND_USER_DEFINED};
	return tokenizer_append_entry(added, &entry, e);
}

static int tokenizer_gguf_add_tokens(struct tokenizer *t, const struct tokenizer_gguf *p,
				     struct added_entries *added, struct err *e)
{
	if (p->token_count == 0 || p->token_count > TOKEN_ID_MAX)
		return err_set(e, EINVAL, "%s: the vocabulary has %zu tokens; 1 to %d are allowed",
			       p->name, p->token_count, TOKEN_ID_MAX);
	int rc = vocabulary_init(&t->vocabulary, (uint32_t)p->token_count, p->token_count, e);
	t->merges.seed = t->vocabulary.seed;
	for (uint32_t id = 0; rc == 0 && id < p->token_count; id++)
		rc = tokenizer_gguf_add_token(t, p, id, added, e);
	return rc;
}

/* --- what merges to what --- */

static int tokenizer_gguf_add_merges(struct tokenizer *t, const struct tokenizer_gguf *p,
				     struct err *e)
{
	int rc = 0;
	if (p->merge_count == 0)
		return err_set(e, EINVAL, "%s: its vocabulary \"%s\" has no merges", p->name,
			       p->model);
	for (size_t i = 0; rc == 0 && i < p->merge_count; i++) {
		struct tokenizer_gguf_text m;
		rc = tokenizer_gguf_take_text(p->merges, i, "merge", &m, p->name, e);
		if (rc == 0)
			rc = tokenizer_add_merge_line(t, m.bytes, m.length, (uint32_t)i, p->name,
						      e);
	}
	return rc;
}

struct tokenizer_gguf_scored {
	float score;
	uint32_t id;
};

static int tokenizer_gguf_best_first(const void *a, const void *b)
{
	float x = ((const struct tokenizer_gguf_scored *)a)->score,
	      y = ((const struct tokenizer_gguf_scored *)b)->score;
	return (x < y) - (x > y);
}

/* Ranks tokens by score. Tokens with the same score share a rank: of those the leftmost merges
 * first. */
static int tokenizer_gguf_place_by_score(struct tokenizer *t, const struct tokenizer_gguf *p,
					 struct err *e)
{
	if (!p->scores)
		return err_set(e, EINVAL, "%s: its vocabulary \"%s\" has no scores", p->name,
			       p->model);
	struct tokenizer_gguf_scored *order = malloc(p->token_count * sizeof *order);
	t->merges.by_score = malloc(p->token_count * sizeof *t->merges.by_score);
	int rc = order && t->merges.by_score ? 0 : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < p->token_count; i++) {
		order[i] = (struct tokenizer_gguf_scored){p->scores[i], (uint32_t)i};
		if (!isfinite(p->scores[i]))
			rc = err_set(e, EINVAL, "%s: the score of token %zu is not a number",
				     p->name, i);
	}
	if (rc == 0)
		qsort(order, p->token_count, sizeof *order, tokenizer_gguf_best_first);
	for (uint32_t i = 0, place = 0; rc == 0 && i < p->token_count; i++) {
		place += i > 0 && order[i].score < order[i - 1].score;
		t->merges.by_score[order[i].id] = place;
	}
	free(order);
	return rc;
}

/* --- what begins and ends --- */

static int tokenizer_gguf_check_id(const struct tokenizer_gguf *p, int64_t id, const char *what,
				   struct err *e)
{
	if (id < (int64_t)p->token_count)
		return 0;
	return err_set(e, EINVAL,
		       "%s: its token for %s has the id %lld, but the vocabulary has %zu tokens",
		       p->name, what, (long long)id, p->token_count);
}

static int tokenizer_gguf_read_ends(struct tokenizer *t, const struct tokenizer_gguf *p,
				    struct err *e)
{
	int rc = tokenizer_gguf_check_id(p, p->bos, "the beginning of a text", e);
	if (rc == 0)
		rc = tokenizer_gguf_check_id(p, p->eos, "the end of a text", e);
	for (int i = 0; rc == 0 && i < MARKED_ENDS; i++) {
		rc = tokenizer_gguf_check_id(p, p->ends[i], "the end of a turn", e);
		if (rc == 0 && p->ends[i] >= 0)
			t->vocabulary.tokens[p->ends[i]].ends |= ENDS_TURN;
	}
	if (rc < 0)
		return rc;
	t->bos = p->bos;
	t->eos = p->eos;
	t->end = p->add_eos == SAID_YES ? p->eos : -1;
	if (p->add_bos != NOT_SAID)
		t->add_bos = p->add_bos == SAID_YES;
	if (t->add_bos && t->bos < 0)
		return err_set(e, EINVAL,
			       "%s: texts begin with a token, but tokenizer.ggml.bos_token_id does "
			       "not name it",
			       p->name);
	return 0;
}

/* --- the whole --- */

static int tokenizer_gguf_build(struct tokenizer *t, const struct tokenizer_gguf *p, struct err *e)
{
	const struct tokenizer_gguf_model *model = NULL;
	struct added_entries added = {0};
	int rc = tokenizer_gguf_find_model(p, &model, e);
	if (rc == 0)
		rc = tokenizer_gguf_read_model(t, p, model, e);
	if (rc == 0)
		rc = tokenizer_gguf_add_tokens(t, p, &added, e);
	if (rc == 0)
		rc = model->scores ? tokenizer_gguf_place_by_score(t, p, e)
				   : tokenizer_gguf_add_merges(t, p, e);
	if (rc == 0)
		rc = tokenizer_add_tokens(t, &added, p->name, e);
	if (rc == 0)
		rc = tokenizer_gguf_read_ends(t, p, e);
	free(added.items);
	return rc;
}

int tokenizer_open_gguf(struct tokenizer **out, const struct tokenizer_gguf *p, struct err *e)
{
	struct tokenizer *t = tokenizer_new();
	int rc = t ? tokenizer_gguf_build(t, p, e) : -ENOMEM;
	return tokenizer_finish(out, t, rc, p->name, e);
}
