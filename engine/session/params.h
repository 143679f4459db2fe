/* A session's params: the values of the files under params/.
 *
 * One table (params.c) has the name, kind, range and offset of each param. A param is printed in
 * the form in which it is written. The params are copied when a turn is submitted, so a change
 * takes effect with the next turn.
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
	uint64_t logprobs;	    /* 0: off; else the number of alternatives listed per token */
	uint64_t top_k, max_tokens; /* 0: no limit but the vocabulary, the context */
	uint64_t seed;
	bool seed_random; /* a new seed for every turn */
	/* ON: a prompt is a message of a conversation. OFF: the model gets the plain prompt. UNSET:
	 * ON if the model was made for conversations. */
	enum chat_mode { CHAT_UNSET, CHAT_OFF, CHAT_ON } chat;
	/* What the template is told about thinking: nothing, whether to think, or how much. */
	enum thinking_mode {
		THINK_DEFAULT,
		THINK_ON,
		THINK_OFF,
		THINK_LOW,
		THINK_MEDIUM,
		THINK_HIGH
	} thinking;
	char date[PARAMS_DATE]; /* the conversation's time; empty: the time of its first turn */
	/* What to do with a prompt that is longer than the context. */
	enum full_mode { FULL_AUTO, FULL_ERROR, FULL_DROP_OLDEST } on_full;
	enum session_priority priority;
	bool stream;	      /* the answer can be read while it grows; else only at its end */
	bool stop_repetition; /* end an answer that repeats itself (engine/turn/periods.h) */
	/* Speculative decoding. AUTO: where it is faster. */
	enum draft_mode { DRAFT_AUTO, DRAFT_OFF, DRAFT_ALWAYS } draft;
	enum draft_kind draft_kind; /* of ALWAYS; */
	uint32_t draft_depth;	    /* and tokens drafted at once, at most */
	bool model_drafts;	    /* the model has a draft layer */
	uint64_t experts_per_token; /* 0 or the model's own: no loss */
	double drop_missing;	    /* 0: no loss */
	/* Experts that are not in memory are replaced by experts that are. The first `keep` ranks
	 * are never replaced; replacements have a rank below `window`. window 0: no loss. */
	struct substitution {
		uint32_t keep, window;
	} substitute;
	struct steer experts_bias;  /* added to the router's scores */
	const struct config *model; /* for parsing experts_bias; NULL: a model without experts */
	uint32_t model_experts;	    /* per token; 0: the model is dense */
	uint32_t model_vocabulary;
	/* The form of answers. From FORMAT_SCHEMA on, `grammar` has the source of the grammar. */
	enum format_mode {
		FORMAT_TEXT,
		FORMAT_JSON,
		FORMAT_CHOICES,
		FORMAT_SCHEMA,
		FORMAT_REGEX
	} format;
	char *grammar;		       /* empty: none */
	char share_with[PARAMS_LABEL]; /* label of the sessions that share computed prefixes; empty:
					  all sessions of the user */
	char tool_choice[PARAMS_LABEL]; /* none, required, or a tool's name; empty: auto */
	char *system;		       /* empty: no system message */
	char *stop;		       /* stop texts, one per line; \n, \t and \\ are escapes */
};

/* Sets a model's defaults, except model_drafts, since config.json does not tell whether there is a
 * draft layer. -ENOMEM. */
int params_default(struct params *p, const struct config *c, struct err *e);
int params_copy(struct params *to, const struct params *from, struct err *e);
void params_free(struct params *p);

int params_set(struct params *p, size_t i, const char *value, size_t length, struct err *e);
/* An additional check of values that users write; values in saved states are not checked. Compiles
 * a grammar, for `format`, which may take half a second, so never call it with a lock held.
 * -EINVAL. */
int params_check(enum format_mode format, size_t i, const char *value, size_t length,
		 struct err *e);
/* Whether the value is the word auto, which resets any param that is not a text. */
bool params_is_auto(size_t i, const char *value, size_t length);
int params_reset(struct params *p, size_t i, const struct config *c, struct err *e);
/* Whether the param can change the text of an answer to the same ids, or the answer's
 * log-probabilities. */
bool params_changes_text(size_t i);
/* malloc'ed; NULL: out of memory. has_chat: the meaning of an unset chat. */
char *params_get(const struct params *p, size_t i, bool has_chat);
/* The same, but "auto" if the param is unset and its default is not known yet. */
char *params_get_unresolved(const struct params *p, size_t i);

/* The table as JSON, a list of objects: name, label, help, takes, type, choices, least, most,
 * default and common, as moefs(5) describes them (info/params.json). *p has the defaults; has_chat
 * as in params_get. malloc'ed; NULL: out of memory. params_json.c. */
char *params_json(const struct params *p, bool has_chat);

/* The time in params/date; false: params/date is empty. */
bool params_clock(const struct params *p, struct tm *clock);
struct losses params_losses(const struct params *p);
/* The lossy params in use: "experts_per_token=2 drop_missing=0.1"; empty: none. */
void params_lossy(const struct params *p, char *text, size_t size);

#endif
