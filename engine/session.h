/* Sessions: conversations with a model, and the answers that they produce. The other of the two
 * headers that fs/ and the benchmarks use (see model.h).
 *
 * A session works on at most one turn at a time. A turn is submitted and queued; the model's
 * generation thread computes its prompt (prefill) and generates its answer. An answer is the text
 * of one turn: it grows, then it is complete. Answers are reference-counted. They outlive the turn,
 * the session and the model, so an open file keeps its text.
 *
 * Once an answer is complete, its session accepts the next prompt.
 *
 * Threads: every function may be called from any thread. No function waits for the disk, for a
 * computation or for a turn, unless its comment says so.
 */
#ifndef MOEFS_ENGINE_SESSION_H
#define MOEFS_ENGINE_SESSION_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct model;
struct session;
struct answer;

/* A new session with the model's default params (generation_config.json), or a copy of another's.
 * user: for the engine's `changed` callback. */
int session_create(struct session **out, struct model *m, const struct session *params_from,
		   void *user, struct err *e);
/* Sets the session's name in the model's trace, and the owner of its lines (model.h). Spaces and
 * backslashes in the name are written as \040 and \134. If memory runs out, the name is `-`. */
void session_name(struct session *s, uint32_t owner, const char *name);
/* Whether other sessions may use what this session has computed (params/share_with). A session
 * restored from a file does not share. session_restore cannot tell a file from a fork, so a fork
 * calls session_share_like afterwards. shares: session_shares of the original when it was saved. */
bool session_shares(const struct session *s);
void session_share_like(struct session *fork, const struct session *original, bool shares);
/* Stops the turn in progress and frees the session. The turn's answer fails with EIO (`session
 * ended`). After session_end returns, `changed` is not called for the session's user any more. */
void session_end(struct session *s);

/* ---- turns ---- */

/* Starts a turn with text[length], without one trailing newline. Starts loading the model if it is
 * not loaded. *answer (answer may be NULL) receives a reference to the turn's answer. -EBUSY: a
 * turn is in progress; -EINVAL: the text is empty; -EFBIG: more than model_max_prompt_bytes. Errors
 * that only the tokenizer finds (invalid UTF-8, too many tokens) fail the answer instead. */
int session_submit(struct session *s, const char *text, size_t length, struct answer **answer,
		   struct err *e);
/* Scores text[length], without one trailing newline: starts a turn whose answer has a line `ID
 * LOGPROB "TOKEN"` for each token of the text, and then the lines `mean` and `perplexity`. The
 * first LOGPROB is `-`, since nothing precedes the first token. The model reads the plain text,
 * like a prompt without chat. The text does not become part of the conversation, but the session's
 * context is dropped. Errors as session_submit; a text with more tokens than the context holds
 * fails the answer. */
int session_score(struct session *s, const char *text, size_t length, struct answer **answer,
		  struct err *e);
/* Embeds a text: starts a turn whose answer is the text's vector, one line of numbers. `array`:
 * text[length] has several texts separated by NUL bytes (a NUL at the end is allowed), and the
 * answer is a NumPy file of F32, [texts][hidden size]. The checkpoint says how a vector is made
 * (FACT_EMBEDDING). The text does not become part of the conversation, but the session's context is
 * dropped. Errors as session_submit; -EFBIG for more than SESSION_EMBED_BYTES in an array. */
enum { SESSION_EMBED_BYTES = 16 << 20 };
int session_embed(struct session *s, const char *text, size_t length, bool array,
		  struct answer **answer, struct err *e);
/* Predicts the cost of a turn without running it. The turn has the prompt text[length] after the
 * conversation, or, if text is NULL, only the conversation. May open the tokenizer for a prompt;
 * never loads weights. -EAGAIN: the model is not loaded; also errors of the template and the
 * tokenizer. Renders and encodes, which may take tens of milliseconds. */
struct session_plan {
	uint64_t prompt_tokens;
	uint64_t kept_tokens; /* tokens that are computed already */
	uint64_t new_tokens;  /* tokens that must be computed */
	uint64_t context_left;
	uint64_t expert_bytes; /* expected reads from disk for the prompt */
	bool remembered;       /* the answer is on disk (-o remember=), so nothing is computed */
	bool timed;	       /* the next four are known: this mount has measured turns */
	double first_token_seconds, token_seconds; /* since submit; for each later token */
	double first_token_off, token_off;	   /* mean errors of recent predictions */
};
int session_plan(struct session *s, const char *text, size_t length, struct session_plan *out,
		 struct err *e);
/* Stops the turn. The answer keeps the text so far. Does not wait for reads of experts. */
void session_stop(struct session *s);
/* Forgets the conversation. -EBUSY: a turn is in progress. */
int session_reset(struct session *s, struct err *e);
/* Forgets the last turn. -EBUSY: a turn is in progress; -ENODATA: there was no turn. */
int session_undo(struct session *s, struct err *e);

enum session_status {
	SESSION_IDLE,	 /* no turn since the session was created or reset */
	SESSION_LOADING, /* a turn waits for the weights */
	SESSION_QUEUED,
	SESSION_PROMPTING,
	SESSION_GENERATING,
	SESSION_DONE,
	SESSION_STOPPED,
	SESSION_ERROR,
};
enum session_status session_status(const struct session *s);
const char *session_status_word(enum session_status status);
bool session_working(const struct session *s); /* a turn is in progress */
/* Why the last turn failed; code 0: it did not fail. */
void session_failure(const struct session *s, struct err *e);
/* The sentence of session_failure; empty: no failure. */
void session_error(const struct session *s, char *text, size_t size);

/* Which session's turn goes first when not all can (engine/run/run.h). */
enum session_priority { SESSION_LOW, SESSION_NORMAL, SESSION_HIGH, SESSION_PRIORITIES };
extern const char *const session_priority_words[]; /* [SESSION_PRIORITIES], then NULL */

/* What a turn waits for: nothing; the model's weights; other turns; memory for its context. */
enum session_wait {
	SESSION_WAITS_NOT,
	SESSION_WAITS_MODEL,
	SESSION_WAITS_TURN,
	SESSION_WAITS_ROOM,
};
extern const char *const session_wait_words[]; /* "-", "model", "turn", "room" */

/* Calls `each` for every waiting turn of a model in queue order, except background turns. A lock is
 * held during the calls, so `each` must only copy. */
struct session_waiting {
	const char *session; /* name as in the trace; valid during the call */
	uint32_t owner;
	enum session_priority priority;
	enum session_wait waits;
	double seconds; /* since the turn was submitted */
};
void session_each_waiting(struct model *m, void (*each)(void *ctx, const struct session_waiting *w),
			  void *ctx);

/* ---- texts ---- */

/* A new reference to the newest answer; NULL before the first turn and after a reset. */
struct answer *session_answer(struct session *s);
/* The thoughts before the newest answer, as a separate answer. Complete when thinking ends. Ends in
 * one newline, or is empty if the model did not think. As session_answer. */
struct answer *session_thoughts(struct session *s);
/* The tokens of the newest answer with their log-probabilities, one line of JSON per token; empty
 * if params/logprobs is off. Complete when the answer is. As session_answer. */
struct answer *session_logprobs(struct session *s);
/* The last prompt as it was written, malloc'ed; NULL: out of memory. */
char *session_prompt(const struct session *s, size_t *length);
/* The whole conversation as plain text, with the answer in progress. Only reset and undo shorten
 * it; retrying and continuing replace the last answer. */
uint64_t session_log_size(const struct session *s);
size_t session_log_read(const struct session *s, uint64_t offset, char *buffer, size_t bytes);

enum { SESSION_DRAFTS = 4 };	/* most tokens drafted at once */
enum { SESSION_LOGPROBS = 20 }; /* most tokens per position for params/logprobs */
/* MTP: drafts by the model's own draft layer. LOOKUP: by prompt lookup. */
enum draft_kind { DRAFT_MTP, DRAFT_LOOKUP, DRAFT_KINDS };
struct session_stats { /* of the current turn, or of the last one */
	uint64_t prompt_tokens, cached_tokens, output_tokens; /* cached: in the context before */
	uint64_t context_tokens;
	uint64_t from_disk_tokens;  /* of the context, read back from disk (-o offload=) */
	uint64_t on_disk_tokens;    /* now */
	uint64_t recomputed_tokens; /* of the prompt: the context had held them, but had no
				       checkpoint to go back to */
	double prefill_seconds, decode_seconds, first_token_seconds; /* first token: since submit */
	enum session_priority priority;
	enum session_wait waits; /* now */
	double queued_seconds;	 /* from submit until the prompt's first step */
	uint64_t expert_hits, expert_misses, bytes_read;
	uint64_t ngram_rows, ngram_waits; /* n-gram rows; rows that had to be waited for */
	/* [i]: how many tokens with index i in their draft were drafted, and how many were
	 * accepted. */
	uint64_t drafted[SESSION_DRAFTS], draft_stood[SESSION_DRAFTS];
	uint64_t drafted_by[DRAFT_KINDS], draft_stood_by[DRAFT_KINDS]; /* the same by kind */
	uint64_t experts_dropped;     /* experts left out by params/drop_missing */
	uint64_t experts_substituted; /* experts replaced by others (params/substitute) */
	double wait_seconds;	      /* for reads from disk */
	double decode_wait_seconds;   /* the part of wait_seconds while generating the answer */
	uint64_t seed;		      /* the seed in use */
	bool remembered;	      /* the answer was on disk, nothing was computed */
	/* "", "end", "stop", "length", "repetition", "tool_calls", "stopped", "error" */
	const char *finish;
	uint32_t stop;		/* for "stop": which text of params/stop, from 1 */
	uint32_t dropped_turns; /* turns that params/on_full left out of this prompt */
	char ignored[32]; /* settings without effect on the last turn: "tools.json max_tokens" */
	char lossy[96];	  /* lossy params in use: "experts_per_token=2 drop_missing=0.1" */
};
void session_stats(const struct session *s, struct session_stats *out);

/* ---- the conversation: its messages, and the texts made from them ---- */

/* Texts of a session that are always read or written as a whole. r: read only; rw: can be written.
 */
enum session_text {
	SESSION_MESSAGES, /* rw: the list of messages (format: engine/template/chat_messages.h) */
	/* r: the text that the model would read in the next turn, up to where its answer begins,
	 * with special tokens written out. During a turn: the text that the turn began with. */
	SESSION_RENDERED,
	SESSION_RENDERED_TOKENS, /* r: the number of tokens of RENDERED, in decimal */
	SESSION_VARIABLES,	 /* rw: additional template variables, an object */
	SESSION_TOOLS, /* rw: the functions that the model may call, as in the OpenAI interface */
	/* r: how much of the last prompt was computed already, and why not more; empty before the
	 * first turn */
	SESSION_WHY,
	/* r: the tool calls of the last answer, a list with ids; grows while calls are generated */
	SESSION_TOOL_CALLS,
	SESSION_TOOL_RESULTS, /* r: tool results that are not submitted yet, a list of messages */
	/* rw: the candidates of params/format=choices, as they were written */
	SESSION_CHOICES,
	/* r: the probabilities of the last answer's candidates, the most probable first. One line
	 * each, separated by tabs: PROBABILITY LOGPROB CANDIDATE */
	SESSION_CHOSEN,
};
/* Returns a malloc'ed text of *length bytes that ends in a newline (RENDERED: exactly the text).
 * NULL: an error. All texts: -ENOMEM. RENDERED and RENDERED_TOKENS also: -EAGAIN (the model is not
 * loaded; reading does not load it), -ENOTSUP (the model has no template), and errors of the
 * template. These two may take tens of milliseconds in a long conversation. */
char *session_text_get(const struct session *s, enum session_text what, size_t *length,
		       struct err *e);
/* The length that session_text_get would return, without copying. Not for RENDERED and
 * RENDERED_TOKENS. */
uint64_t session_text_bytes(const struct session *s, enum session_text what);
/* Checks the text and sets it; after an error the old text stays. An empty text is an empty list or
 * object. -EBUSY: a turn is in progress; -EINVAL, -EFBIG: the sentence has the position; -EACCES:
 * the text is read-only. If the first message is a system message, params/system becomes its text.
 */
int session_text_set(struct session *s, enum session_text what, const char *text, size_t length,
		     struct err *e);

/* Starts a turn from the current messages. ANSWER answers them. RETRY generates the last answer
 * again. CONTINUE continues the last answer, token by token as if it had not been cut short. This
 * needs an answer that ended by length or repetition or was stopped, and messages that were not
 * written since. After repetition, counting repeated tokens starts again. RETRY and CONTINUE
 * replace the last answer, also in the log; a continued answer contains the text that it continues.
 * If they fail, the old answer stays. *answer as in session_submit. -EBUSY: a turn is in progress;
 * -ENODATA: there is nothing to answer, retry or continue. */
enum session_again { SESSION_AGAIN_ANSWER, SESSION_AGAIN_RETRY, SESSION_AGAIN_CONTINUE };
int session_again(struct session *s, enum session_again how, struct answer **answer, struct err *e);

/* Changes the session and starts such a turn in one operation. Sets the params and texts of
 * changes[count] in their order, as session_param_set and session_text_set do. After an error the
 * session is unchanged. Of the texts only messages and tools can be changed, each once. */
struct session_change {
	enum { SESSION_CHANGE_PARAM, SESSION_CHANGE_TEXT } kind;
	size_t which; /* a param's index, or an enum session_text */
	const char *value;
	size_t length;
};
int session_again_changed(struct session *s, enum session_again how,
			  const struct session_change *changes, size_t count, struct err *e);

/* Adds a tool result to those that are not submitted yet: one JSON object {"tool_call_id",
 * "content"}. If only one call still needs a result, the id may be missing. *complete: every call
 * of the last answer has its result. -EINVAL: not such an object, an unknown id, or a second result
 * for an id; -ENODATA: the last answer called no tool; -EBUSY: a turn is in progress. */
int session_tool_result_add(struct session *s, const char *text, size_t length, bool *complete,
			    struct err *e);
/* The same for several objects, in their order. After an error none is added. */
enum { SESSION_RESULTS_MOST = 1024 };
struct session_result {
	const char *text;
	size_t length;
};
int session_tool_results_add(struct session *s, const struct session_result *results, size_t count,
			     bool *complete, struct err *e);
/* Starts a turn with the results so far, even if some are missing. As session_submit; -ENODATA:
 * there are no results. session_submit also submits the results, before its text. */
int session_tool_results_submit(struct session *s, struct answer **answer, struct err *e);

/* ---- params (engine/session/params.c lists them; engine/session/README.md says how to add one)
 * ----
 */

size_t params_count(void);
const char *params_name(size_t i);
size_t params_find(const char *name); /* params_count(): there is no such param */
/* What to tell people about a param: the values that it takes, its default, and one line of help.
 */
struct param_words {
	const char *takes, *begins, *about;
};
struct param_words params_words(size_t i);
/* The same for programs: a JSON list with an object for each param, with this model's defaults.
 * malloc'ed; NULL: out of memory. */
char *session_params_json(const struct model *m);
/* Whether a param is a text that people write with an editor (system, stop, logit_bias), not a
 * single value. */
bool params_is_text(size_t i);
/* Whether session_param_set may take half a second, because a grammar is compiled. */
bool params_takes_long(size_t i);
/* Sets a param to value[length], without one trailing newline; "auto" is the model's default. Takes
 * effect with the next turn. -EINVAL, -ERANGE. 0 with a sentence in e: the param was set, but turns
 * will fail, since params/grammar is not valid in the new params/format. */
int session_param_set(struct session *s, size_t i, const char *value, size_t length, struct err *e);
/* The param's value as it would be written, malloc'ed, NUL-terminated; NULL: out of memory. */
char *session_param_get(const struct session *s, size_t i);

/* ---- a session as a file: state ---- */

/* A state is a whole session in one file: texts, params and the computed context. session/README.md
 * describes the format. A state can only be restored for the same model and recipe. */

/* The size of the session's state now; 0 during a turn, when the session cannot be saved. */
uint64_t session_state_bytes(const struct session *s);

/* Saves the session in memory. The computed context is shared with the session until the session
 * writes to it. -EBUSY: a turn is in progress; -ENOMEM. */
struct saved;
int session_save(struct session *s, struct saved **out, struct err *e);
uint64_t saved_bytes(const struct saved *s);
/* Copies bytes from offset; returns how many, 0 at the end. May take as long as a checksum over the
 * whole state. */
size_t saved_read(struct saved *s, uint64_t offset, void *buffer, size_t bytes);
/* Frees a saved state; call it before the model is closed. Takes as long as unmapping the memory
 * that is not shared. NULL is fine. */
void saved_close(struct saved *s);

/* Restores a session from the bytes of saved_read. restored_begin and restored_feed do not touch a
 * session. They take memory from the context budget. */
struct restored;
int restored_begin(struct model *m, struct restored **out, struct err *e);
/* Takes the bytes at offset; offsets must grow. Skipped bytes are zeros, as in a sparse file.
 * Whether this is a state of this model is checked with the first bytes, and the checksum at the
 * end. -EINVAL: not a state; of another version, model or recipe; or damaged. -EFBIG, -ENOSPC,
 * -ENOMEM. After an error each later call fails with the same error. */
int restored_feed(struct restored *r, uint64_t offset, const void *bytes, size_t n, struct err *e);
/* Takes a saved session of this model instead of bytes. The context is shared and takes nothing
 * from the context budget. Afterwards *v can only be closed. -ENOMEM. */
int restored_from_saved(struct restored *r, struct saved *v, struct err *e);
/* Gives a session the restored conversation and context. *r gets the session's old ones; close it
 * afterwards. -EBUSY: a turn is in progress; -EINVAL: bytes are missing. After an error nothing has
 * changed. */
int session_restore(struct session *s, struct restored *r, struct err *e);
void restored_close(struct restored *r); /* as saved_close */

/* ---- answers ---- */

struct answer *answer_ref(struct answer *a);
/* A new reference to an answer's thoughts; NULL: `a` has none, since it is not the answer of a
 * turn. */
struct answer *answer_thoughts(struct answer *a);
/* The same for its log-probabilities. */
struct answer *answer_logprobs(struct answer *a);
void answer_unref(struct answer *a); /* NULL is fine */
/* Copies bytes from offset and returns how many. 0: no bytes yet, or, if *complete, the end of the
 * answer. With params/stream off there are no bytes before the end of the turn. A failed answer
 * returns its text first, then a negative errno (-EIO). A complete answer ends in exactly one
 * newline. Complete thoughts end in one newline or are empty. */
ssize_t answer_read(struct answer *a, uint64_t offset, char *buffer, size_t bytes, bool *complete);
/* Bytes that can be read so far. */
uint64_t answer_size(struct answer *a, bool *complete);

#endif
