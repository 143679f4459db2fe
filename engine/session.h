/* Sessions: conversations with a model, and the answers that they produce. The other of the two
 * headers that fs/ and the benchmarks use (see model.h).
 *
 * A session works on at most one turn at a time. A turn is submitted and queued; the model's
 * generation thread computes its prompt (prefill) and generates its answer. An answer is the text
 * of one turn: it grows, then it is complete. Answers are counted references: they outlive the
 * turn, the session and the model, so that an open file keeps its text.
 *
 * Once an answer is complete, its session accepts the next prompt.
 *
 * Threads: every function may be called from any thread. None waits for disk, arithmetic or a turn;
 * only rendered texts take longer than copying (session_text_get).
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
/* Sets the name of the session in the model's trace, and the owner of its lines (model.h). Spaces
 * and backslashes of the name are written \040 and \134. If memory runs out, the name is `-`. */
void session_name(struct session *s, uint32_t owner, const char *name);
/* Whether other sessions may use what the session has computed (params/share_with): not after it
 * was restored from a file. session_restore makes no difference between a file and a fork; so a
 * fork calls session_share_like afterwards. shares: of the original, when it was saved. */
bool session_shares(const struct session *s);
void session_share_like(struct session *fork, const struct session *original, bool shares);
/* Stops the turn in progress, whose answer fails with EIO (`session ended`), and frees the session.
 * After the return `changed` is not called for its user any more. */
void session_end(struct session *s);

/* ---- turns ---- */

/* Starts a turn with text[length], without one trailing newline, and starts loading a model that is
 * not loaded. *answer (answer may be NULL) receives a reference to the answer to come. -EBUSY: a
 * turn is in progress; -EINVAL: the text is empty; -EFBIG: more than model_max_prompt_bytes. What
 * only the tokenizer finds (invalid UTF-8, too many tokens) fails the answer instead. */
int session_submit(struct session *s, const char *text, size_t length, struct answer **answer,
		   struct err *e);
/* Scores text[length], without one trailing newline: starts a turn whose answer has a line for each
 * of the text's tokens, `ID LOGPROB "TOKEN"` (the first LOGPROB is `-`: nothing precedes it), and
 * then the lines `mean` and `perplexity` of the log-probabilities. The model sees the text as it
 * is, like a prompt without chat. The text does not become part of the conversation, but the
 * session's context is forgotten. Errors as session_submit; a text of more tokens than the context
 * fails the answer in words. */
int session_score(struct session *s, const char *text, size_t length, struct answer **answer,
		  struct err *e);
/* Embeds a text: starts a turn whose answer is its vector, one line of numbers. `array`: text[length]
 * has several texts with a NUL byte between two (one at the end ends the last text), and the answer
 * is a NumPy file of F32, [texts][hidden size]. How a vector is made, the checkpoint says
 * (FACT_EMBEDDING). The text does not become part of the conversation, but the session's context is
 * forgotten. Errors as session_submit; -EFBIG for more than SESSION_EMBED_BYTES in an array. */
enum { SESSION_EMBED_BYTES = 16 << 20 };
int session_embed(struct session *s, const char *text, size_t length, bool array,
		  struct answer **answer, struct err *e);
/* What a turn will cost, without running it: of the prompt text[length] after the conversation, or,
 * if text is NULL, of the conversation as it stands. May open the tokenizer for a prompt; never
 * loads weights. -EAGAIN: the model is not loaded; errors of the template and the tokenizer. Renders
 * and encodes, so it may take tens of milliseconds. */
struct session_plan {
	uint64_t prompt_tokens;
	uint64_t kept_tokens; /* that are computed already */
	uint64_t new_tokens;  /* the others */
	uint64_t context_left;
	uint64_t expert_bytes; /* expected to be read from disk for the prompt */
	bool remembered;       /* the answer is on disk (-o remember=): nothing is computed */
	bool timed;	       /* this mount has measured turns of the model: */
	double first_token_seconds, token_seconds; /* from submit; of each token after it */
	double first_token_off, token_off;	   /* how far off these were lately, mean */
};
int session_plan(struct session *s, const char *text, size_t length, struct session_plan *out,
		 struct err *e);
/* Stops the turn; the text so far stays. Does not wait for experts that are being read. */
void session_stop(struct session *s);
/* Forgets the conversation; -EBUSY in a turn. */
int session_reset(struct session *s, struct err *e);
/* Forgets the last turn; -EBUSY in a turn; -ENODATA: there is none. */
int session_undo(struct session *s, struct err *e);

enum session_status {
	SESSION_IDLE,	 /* no turn yet, or reset */
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
/* Why the last turn failed; code 0: it did not. */
void session_failure(const struct session *s, struct err *e);
/* The sentence alone; else empty. */
void session_error(const struct session *s, char *text, size_t size);

/* How a session's turns rank among those of other sessions (engine/run/run.h). */
enum session_priority { SESSION_LOW, SESSION_NORMAL, SESSION_HIGH, SESSION_PRIORITIES };
extern const char *const session_priority_words[]; /* [SESSION_PRIORITIES], and NULL */

/* What a turn waits for: the model's weights; its place among other turns; room for its context. */
enum session_wait {
	SESSION_WAITS_NOT,
	SESSION_WAITS_MODEL,
	SESSION_WAITS_TURN,
	SESSION_WAITS_ROOM,
};
extern const char *const session_wait_words[]; /* "-", "model", "turn", "room" */

/* Calls `each` for every turn of a model that waits, in the order of the queue, but for those of
 * the background. A lock is held meanwhile: `each` only copies. */
struct session_waiting {
	const char *session; /* its name, as in the trace; valid during the call */
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
/* What the model thought before the newest answer, as an answer of its own. It is complete when
 * thinking ends, and then ends in one newline; without thinking it is empty. As session_answer. */
struct answer *session_thoughts(struct session *s);
/* The tokens of the newest answer with their log-probabilities, one line of JSON each, as
 * params/logprobs asks; empty if that is off. Complete when the answer is. As session_answer. */
struct answer *session_logprobs(struct session *s);
/* The last prompt, malloc'ed, without an added newline; NULL: out of memory. */
char *session_prompt(const struct session *s, size_t *length);
/* The whole conversation as plain text, with the answer in progress. Only reset and undo shorten
 * it; retrying and continuing replace the last answer. */
uint64_t session_log_size(const struct session *s);
size_t session_log_read(const struct session *s, uint64_t offset, char *buffer, size_t bytes);

enum { SESSION_DRAFTS = 4 };	/* most tokens drafted at once */
enum { SESSION_LOGPROBS = 20 }; /* most tokens per position for params/logprobs */
/* By the model's own draft layer; by prompt lookup. */
enum draft_kind { DRAFT_MTP, DRAFT_LOOKUP, DRAFT_KINDS };
struct session_stats {					      /* of the last or current turn */
	uint64_t prompt_tokens, cached_tokens, output_tokens; /* cached: already in the context */
	uint64_t context_tokens;
	uint64_t from_disk_tokens; /* of the context: read back from disk (-o offload=) */
	uint64_t on_disk_tokens;   /* now */
	uint64_t recomputed_tokens; /* of the prompt: the context had them, but no checkpoint */
	double prefill_seconds, decode_seconds, first_token_seconds; /* the last since submit */
	enum session_priority priority;
	enum session_wait waits; /* now */
	double queued_seconds;	 /* since submit, until the prompt was begun */
	uint64_t expert_hits, expert_misses, bytes_read;
	uint64_t ngram_rows, ngram_waits; /* rows of n-grams; of these not in memory when needed */
	/* [i]: tokens at index i of their draft, and how many of them stood. */
	uint64_t drafted[SESSION_DRAFTS], draft_stood[SESSION_DRAFTS];
	uint64_t drafted_by[DRAFT_KINDS], draft_stood_by[DRAFT_KINDS]; /* by kind */
	uint64_t experts_dropped;   /* reads that params/drop_missing saved */
	uint64_t experts_substituted; /* places that others took, as params/substitute asks */
	double wait_seconds;	    /* for reads from disk */
	double decode_wait_seconds; /* the part of it that was not for the prompt */
	uint64_t seed;		    /* that was used */
	bool remembered;	    /* the answer was on disk: nothing was computed */
	/* "", "end", "stop", "length", "repetition", "tool_calls", "stopped", "error" */
	const char *finish;
	uint32_t stop;		/* for "stop": which text of params/stop, from 1 */
	uint32_t dropped_turns; /* that params/on_full left out of this prompt */
	char ignored[32]; /* what the last turn was given in vain: "tools.json max_tokens" */
	char lossy[96]; /* the lossy params that are on: "experts_per_token=2 drop_missing=0.1" */
};
void session_stats(const struct session *s, struct session_stats *out);

/* ---- the conversation: messages are the truth, ids the encoding of what renders them ---- */

/* Texts of a session that are read and written whole. */
enum session_text {
	SESSION_MESSAGES, /* rw: the list of messages (engine/template/chat_messages.h has the form)
			   */
	/* r: the text that the model would see in the next turn, special tokens spelled out, up to
	 * where its answer begins; in a turn, the text that the turn began with. */
	SESSION_RENDERED,
	SESSION_RENDERED_TOKENS, /* r: the number of its tokens, in decimal */
	SESSION_VARIABLES,	 /* rw: more variables for the template, an object */
	SESSION_TOOLS, /* rw: the functions that the model may call, as in the OpenAI interface */
	/* r: what of the last prompt was computed already, and why not more of it; empty before the
	 * first turn */
	SESSION_WHY,
	/* r: the calls of the last answer, a list with their ids; grows as calls are generated */
	SESSION_TOOL_CALLS,
	SESSION_TOOL_RESULTS, /* r: the results not yet submitted, a list of messages */
	/* rw: the candidates of params/format=choices, as they were written */
	SESSION_CHOICES,
	/* r: how likely the last answer's candidates were, the most probable first: a line each,
	 * PROBABILITY LOGPROB CANDIDATE, with tabs between */
	SESSION_CHOSEN,
};
/* malloc'ed, *length bytes that end in a newline (RENDERED: exactly the text). NULL: -ENOMEM; for
 * RENDERED and RENDERED_TOKENS also -EAGAIN (the model is not loaded, and looking does not load
 * it), -ENOTSUP (it has no template), and errors of the template. These two compute, and may take
 * tens of milliseconds in a long conversation. */
char *session_text_get(const struct session *s, enum session_text what, size_t *length,
		       struct err *e);
/* The number of bytes that session_text_get would give, without a copy; not for RENDERED and
 * RENDERED_TOKENS. */
uint64_t session_text_bytes(const struct session *s, enum session_text what);
/* Checks the text, then sets all of it or nothing; an empty text is an empty list or object. -EBUSY
 * in a turn; -EINVAL, -EFBIG with the place; -EACCES: a text that can only be read. If the first
 * message is a system message, it becomes params/system. */
int session_text_set(struct session *s, enum session_text what, const char *text, size_t length,
		     struct err *e);

/* Starts a turn from the messages as they are: ANSWER answers them; RETRY makes the last answer
 * again; CONTINUE continues it, token by token as if it had not been cut short, if it ended by
 * length or repetition or was stopped, and the messages were not written since. After repetition
 * the same is counted anew. The last two replace the answer, in the log, too, and the new answer
 * contains the text that it continues; if they fail, the old answer stays. As session_submit.
 * -EBUSY in a turn; -ENODATA in words: there is nothing to answer, retry or continue. */
enum session_again { SESSION_AGAIN_ANSWER, SESSION_AGAIN_RETRY, SESSION_AGAIN_CONTINUE };
int session_again(struct session *s, enum session_again how, struct answer **answer, struct err *e);

/* Changes the session and starts such a turn, in one piece: sets the params and texts of
 * changes[count] in their order, as session_param_set and session_text_set do. After an error the
 * session is as it was before. Only the texts messages and tools can be changed, each once. */
struct session_change {
	enum { SESSION_CHANGE_PARAM, SESSION_CHANGE_TEXT } kind;
	size_t which; /* a param's index, or an enum session_text */
	const char *value;
	size_t length;
};
int session_again_changed(struct session *s, enum session_again how,
			  const struct session_change *changes, size_t count, struct err *e);

/* Adds a tool's result to those not yet submitted: one JSON object {"tool_call_id", "content"}; if
 * only one call waits for its result, the id may be missing. *complete: no call of the last answer
 * waits for its result any more. -EINVAL: another form, or an id that is unknown or has its result;
 * -ENODATA: the last answer called no tool; -EBUSY in a turn. */
int session_tool_result_add(struct session *s, const char *text, size_t length, bool *complete,
			    struct err *e);
/* The same for several objects, in their order; all are added, or none. */
enum { SESSION_RESULTS_MOST = 1024 };
struct session_result {
	const char *text;
	size_t length;
};
int session_tool_results_add(struct session *s, const struct session_result *results, size_t count,
			     bool *complete, struct err *e);
/* Starts a turn with the results so far, even if some are missing. As session_submit; -ENODATA:
 * there are none. session_submit, too, puts them before its text. */
int session_tool_results_submit(struct session *s, struct answer **answer, struct err *e);

/* ---- params (engine/session/params.c lists them; engine/session/README.md says how to add one)
 * ----
 */

size_t params_count(void);
const char *params_name(size_t i);
size_t params_find(const char *name); /* params_count(): there is no such param */
/* Words about a param for people: the values that it takes, its default, and one line. */
struct param_words {
	const char *takes, *begins, *about;
};
struct param_words params_words(size_t i);
/* The same for programs: a JSON list of what there is to know of each param, with this model's
 * defaults. malloc'ed; NULL: out of memory. */
char *session_params_json(const struct model *m);
/* Whether a param is a text that editors write (system, stop, logit_bias), not a value. */
bool params_is_text(size_t i);
/* Whether session_param_set may take half a second, because a grammar is compiled. */
bool params_takes_long(size_t i);
/* Sets a param to value[length], without one trailing newline; "auto" is the model's default. Takes
 * effect with the next turn. -EINVAL, -ERANGE in words. 0 with a sentence in e: the param was set,
 * but a turn will fail, since params/grammar is not valid in the new params/format. */
int session_param_set(struct session *s, size_t i, const char *value, size_t length, struct err *e);
/* malloc'ed and terminated, in the form in which it is written; NULL: out of memory. */
char *session_param_get(const struct session *s, size_t i);

/* ---- a session as a file: state ---- */

/* All of a session in one file: texts, params and the computed context; session/README.md has the
 * format. A state belongs to the model and the recipe that computed it. */

/* The size of the session's state now; 0 in a turn, when it cannot be saved. */
uint64_t session_state_bytes(const struct session *s);

/* Saves the session as it is now. The computed context is shared with the session until the session
 * writes to it. -EBUSY in a turn; -ENOMEM. */
struct saved;
int session_save(struct session *s, struct saved **out, struct err *e);
uint64_t saved_bytes(const struct saved *s);
/* Copies bytes from offset; returns how many, 0 at the end. May take as long as computing the
 * checksum of everything. */
size_t saved_read(struct saved *s, uint64_t offset, void *buffer, size_t bytes);
/* Frees it, before the model is closed. Takes as long as unmapping the memory that only this had.
 * NULL is fine. */
void saved_close(struct saved *s);

/* Makes a session of the bytes that saved_read gave. Begin and feed touch no session; they take
 * memory from the context budget. */
struct restored;
int restored_begin(struct model *m, struct restored **out, struct err *e);
/* Takes the bytes at offset, which grows; bytes that are left out are zeros, as in a file with
 * holes. The first bytes tell whether it is a state of this model, memory is taken when the counts
 * are there, and the checksum is checked at the end. -EINVAL: not a state, or of another version,
 * model or recipe, or damaged; -EFBIG, -ENOSPC, -ENOMEM; in words, and again at each later call. */
int restored_feed(struct restored *r, uint64_t offset, const void *bytes, size_t n, struct err *e);
/* In place of the bytes: takes what was just saved of a session of this model, once. The context is
 * shared, and takes nothing from the context budget. *v can only be closed afterwards. -ENOMEM in
 * words. */
int restored_from_saved(struct restored *r, struct saved *v, struct err *e);
/* Gives a session the restored conversation and context; *r gets the session's own, and only has to
 * be closed. -EBUSY in a turn; -EINVAL: bytes are missing; then nothing has changed. */
int session_restore(struct session *s, struct restored *r, struct err *e);
void restored_close(struct restored *r); /* as saved_close */

/* ---- answers ---- */

struct answer *answer_ref(struct answer *a);
/* A new reference to an answer's thoughts; NULL: a is itself thoughts. */
struct answer *answer_thoughts(struct answer *a);
/* The same for its log-probabilities. */
struct answer *answer_logprobs(struct answer *a);
void answer_unref(struct answer *a); /* NULL is fine */
/* Copies bytes from offset and returns how many; 0: none yet, or, if *complete, the end of the
 * answer. With params/stream off there are none before the end of the turn. A failed answer gives
 * its text first and then a negative errno (-EIO). A complete answer ends in exactly one newline;
 * thoughts do, too, or are empty. */
ssize_t answer_read(struct answer *a, uint64_t offset, char *buffer, size_t bytes, bool *complete);
/* Bytes that can be read so far. */
uint64_t answer_size(struct answer *a, bool *complete);

#endif
