/* A session's params: the values under params/ in the tree, by name and as text.
 *
 * One table (params.c) holds each value's name, kind, range and place. A value reads back as it
 * would be written. They are copied when a turn is submitted, so a change takes effect with the
 * next turn.
 */
#ifndef MOEFS_ENGINE_SESSION_PARAMS_H
#define MOEFS_ENGINE_SESSION_PARAMS_H

#include "cache/err.h"
#include "engine/family/config.h"
#include "engine/compute/step.h"
#include "engine/session/bias.h"
#include "engine/session/steer.h"
#include "engine/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { PARAMS_MAX_TEXT = 1 << 20, PARAMS_LABEL = 128, PARAMS_DATE = sizeof "2026-01-02 03:04:05" };

struct params {
	double temperature, top_p, min_p;
	double repetition_penalty, frequency_penalty, presence_penalty; /* 1, 0, 0: none */
	struct bias logit_bias;
	uint64_t logprobs;	    /* 0: none, else of how many tokens beside the drawn one */
	uint64_t top_k, max_tokens; /* 0: no limit but the vocabulary, the context */
	uint64_t seed;
	bool seed_random; /* a new seed for every turn */
	/* The prompt is a turn of a conversation, or it goes to the model as it is. Unset: as the
	 * model was trained. */
	enum chat_mode { CHAT_UNSET, CHAT_OFF, CHAT_ON } chat;
	/* What templates are told of thinking: nothing, whether, or how much. */
	enum thinking_mode {
		THINK_DEFAULT,
		THINK_ON,
		THINK_OFF,
		THINK_LOW,
		THINK_MEDIUM,
		THINK_HIGH
	} thinking;
	char date[PARAMS_DATE]; /* of the conversation's clock; empty: its first turn's */
	/* What is done with a prompt that is longer than the context. */
	enum full_mode { FULL_AUTO, FULL_ERROR, FULL_DROP_OLDEST } on_full;
	enum session_priority priority;
	bool stream;	      /* the answer can be read while it grows; else at its end */
	bool stop_repetition; /* an answer that repeats itself ends (engine/turn/periods.h) */
	/* Speculative decoding: drafts are computed with the last token, where that is faster. */
	enum draft_mode { DRAFT_AUTO, DRAFT_OFF, DRAFT_ALWAYS } draft;
	enum draft_kind draft_kind; /* of ALWAYS; */
	uint32_t draft_depth;	    /* and tokens drafted at once, at most */
	bool model_drafts;	    /* the model has a draft layer */
	uint64_t experts_per_token; /* 0 or the model's own: no loss */
	double drop_missing;	    /* 0: no loss */
	/* Missing experts behind the first ranks give their places to others up to that rank; a
	 * window of 0: no loss. */
	struct substitution {
		uint32_t keep, window;
	} substitute;
	struct steer experts_bias;  /* of the router */
	const struct config *model; /* for reading experts_bias; NULL: without experts */
	uint32_t model_experts;	    /* per token; 0: the model is dense */
	uint32_t model_vocabulary;
	/* The form of answers; from FORMAT_SCHEMA on, `grammar` has its source. */
	enum format_mode {
		FORMAT_TEXT,
		FORMAT_JSON,
		FORMAT_CHOICES,
		FORMAT_SCHEMA,
		FORMAT_REGEX
	} format;
	char *grammar;		       /* empty: none */
	char share_with[PARAMS_LABEL];  /* who shares what is computed; empty: the whole user */
	char tool_choice[PARAMS_LABEL]; /* none, required, or a tool's name; empty: auto */
	char *system;		       /* empty: no system message */
	char *stop; /* one text per line that ends an answer; \n, \t and \\ are escapes */
};

/* A model's defaults; without a draft layer, which config.json cannot tell. -ENOMEM in words. */
int params_default(struct params *p, const struct config *c, struct err *e);
int params_copy(struct params *to, const struct params *from, struct err *e);
void params_free(struct params *p);

int params_set(struct params *p, size_t i, const char *value, size_t length, struct err *e);
/* A further check of a value that a user writes, not of a value in a saved state.
 * It compiles a grammar, as one of `format`, which may take half a second: never call it under a
 * lock. -EINVAL in words. */
int params_check(enum format_mode format, size_t i, const char *value, size_t length,
		 struct err *e);
/* Whether the value is the word auto, which resets any param that is not a text. */
bool params_is_auto(size_t i, const char *value, size_t length);
int params_reset(struct params *p, size_t i, const struct config *c, struct err *e);
/* Whether it can change the text of an answer to the same ids, or what comes with the text. */
bool params_changes_text(size_t i);
/* malloc'ed; NULL: out of memory. has_chat: what an unset chat means. */
char *params_get(const struct params *p, size_t i, bool has_chat);
/* The same, but the word auto if the param is unset and its value is not known yet. */
char *params_get_unresolved(const struct params *p, size_t i);

/* The table as JSON, a list of objects: name, label, help, takes, type, choices, least, most, default
 * and common, as moefs(5) has them (info/params.json). *p has the defaults; has_chat: as for
 * params_get. malloc'ed; NULL: out of memory. params_json.c. */
char *params_json(const struct params *p, bool has_chat);

/* The time in params/date; false: none. */
bool params_clock(const struct params *p, struct tm *clock);
struct losses params_losses(const struct params *p);
/* The params that lose something: "experts_per_token=2 drop_missing=0.1"; empty if none does. */
void params_lossy(const struct params *p, char *text, size_t size);

#endif
