/* Splitting a text into words by the patterns of a tokenizer file, with PCRE2.
 *
 * Patterns are hostile, and PCRE2's own limits do not count what a repeat passes over: a*b, tried
 * at each letter of a text of a's, stays within them and takes time quadratic in the text. So a
 * search sees only the next few bytes at first, which bounds it. Where these do not decide it (a
 * run of spaces, a long word) it is done again on the whole text by the same pattern compiled to
 * call out between its parts, where its work is counted and `stop` is looked at. All such searches
 * of a text share an allowance proportional to its length: a published pattern passes a few times
 * over what it then takes as a word, at most seven of the 64 units for a byte. */
#include "engine/tokenizer/pretokenize.h"

#include "engine/tokenizer/stop.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
	NEAR_BYTES = 256,  /* that a search sees first */
	NEAR_STEPS = 1000, /* of PCRE2's, that it may take on them */
	/* What all far searches of a text may take: bytes passed and parts tried. */
	WORK_LEAST = 10000,
	WORK_PER_BYTE = 64,
	/* PCRE2's steps for one of them; per byte, since \s*[\r\n] may give back a whole run of
	 * spaces. */
	MATCH_STEPS = 10000,
	MATCH_STEPS_PER_BYTE = 16,
	MATCH_HEAP_KIB = 256 << 10,
};

/* --- bounded matching --- */

struct split_work {
	pcre2_match_data *match;
	pcre2_match_context *near, *far;  /* with the limits of each */
	char *prefixed[SPLIT_STAGES_MAX]; /* per stage, a piece with a space put before it */
	size_t prefixed_capacity[SPLIT_STAGES_MAX];
	const _Atomic bool *stop;
	uint64_t left;	/* units of work that far searches may still take */
	PCRE2_SIZE was; /* where the last callout stood */
};

/* Between any two parts of a pattern: counts this part, and what the one before has passed over. */
static int count_work(pcre2_callout_block *block, void *work)
{
	struct split_work *w = work;
	PCRE2_SIZE at = block->current_position;
	uint64_t units = 1 + (at > w->was ? at - w->was : w->was - at);
	w->was = at;
	if (units > w->left)
		return PCRE2_ERROR_MATCHLIMIT;
	w->left -= units;
	return stop_asked(w->stop) ? PCRE2_ERROR_CALLOUT : 0;
}

struct split_work *split_work_new(size_t bytes, const _Atomic bool *stop)
{
	struct split_work *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->stop = stop;
	w->left = WORK_LEAST + (uint64_t)WORK_PER_BYTE * bytes;
	w->match = pcre2_match_data_create(1, NULL);
	w->near = pcre2_match_context_create(NULL);
	w->far = pcre2_match_context_create(NULL);
	if (!w->match || !w->near || !w->far) {
		split_work_free(w);
		return NULL;
	}
	pcre2_set_match_limit(w->near, NEAR_STEPS);
	pcre2_set_heap_limit(w->far, MATCH_HEAP_KIB);
	pcre2_set_callout(w->far, count_work, w);
	return w;
}

void split_work_free(struct split_work *w)
{
	if (!w)
		return;
	pcre2_match_data_free(w->match);
	pcre2_match_context_free(w->near);
	pcre2_match_context_free(w->far);
	for (int i = 0; i < SPLIT_STAGES_MAX; i++)
		free(w->prefixed[i]);
	free(w);
}

/* One run of a splitter over one text. */
struct run {
	const struct splitter *splitter;
	struct split_work *work;
	split_word *each;
	void *context;
	struct err *e;
};

/* How much of text[n] a near search from `from` on sees: whole characters. */
static size_t near_end(const char *text, size_t n, size_t from)
{
	if (n - from <= NEAR_BYTES)
		return n;
	return utf8_begin(text, from + NEAR_BYTES);
}

/* Searches the next few bytes. PCRE2's result, or PCRE2_ERROR_PARTIAL if it might be another one
 * with the bytes behind them: a partial match is one that looked beyond the end. */
static int search_near(struct run *r, const pcre2_code *pattern, const char *text, size_t n,
		       size_t from)
{
	struct split_work *w = r->work;
	size_t end = near_end(text, n, from);
	uint32_t options = end < n ? PCRE2_PARTIAL_HARD : 0;
	/* Compiled code without the checks before it, where there is a compiler. */
	int rc = pcre2_jit_match(pattern, (PCRE2_SPTR)text, end, from, options, w->match, w->near);
	if (rc == PCRE2_ERROR_JIT_BADOPTION)
		rc = pcre2_match(pattern, (PCRE2_SPTR)text, end, from, options | PCRE2_NO_UTF_CHECK,
				 w->match, w->near);
	if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_JIT_STACKLIMIT)
		return PCRE2_ERROR_PARTIAL;
	if (end == n)
		return rc;
	bool inside = rc > 0 && pcre2_get_ovector_pointer(w->match)[1] < end;
	return rc == PCRE2_ERROR_NOMATCH || (rc > 0 && !inside) ? PCRE2_ERROR_PARTIAL : rc;
}

/* Searches the whole text, every step counted. */
static int search_far(struct run *r, const pcre2_code *pattern, const char *text, size_t n,
		      size_t from)
{
	struct split_work *w = r->work;
	uint64_t steps = MATCH_STEPS + (uint64_t)MATCH_STEPS_PER_BYTE * n;
	pcre2_set_match_limit(w->far, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
	w->was = from;
	/* Checking UTF-8 again for every match would make splitting quadratic. */
	int rc = pcre2_match(pattern, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, w->match,
			     w->far);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter takes its memory from the heap */
		rc = pcre2_match(pattern, (PCRE2_SPTR)text, n, from,
				 PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match, w->far);
	return rc;
}

static int refuse(struct run *r, int rc, const char *text, size_t n, size_t from)
{
	char words[128];
	size_t shown = n - from <= 24 ? n - from : utf8_begin(text + from, 24);
	if (rc == PCRE2_ERROR_CALLOUT)
		return stop_error(r->e);
	if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT)
		return err_set(
			r->e, ENOTSUP,
			"%s: its split pattern takes more work than any text should need, at "
			"\"%.*s\"; send shorter texts, or fetch the file anew from where the "
			"model was published",
			r->splitter->name, (int)shown, text + from);
	pcre2_get_error_message(rc, (PCRE2_UCHAR *)words, sizeof words);
	return err_set(r->e, rc == PCRE2_ERROR_NOMEMORY ? ENOMEM : ENOTSUP,
		       "%s: its split pattern fails at \"%.*s\": %s", r->splitter->name, (int)shown,
		       text + from, words);
}

/* The first match at or after `from`: 1 with its ends, 0 if there is none. */
static int search(struct run *r, const struct split_stage *stage, const char *text, size_t n,
		  size_t from, size_t *start, size_t *end)
{
	if (stop_asked(r->work->stop))
		return stop_error(r->e);
	int rc = search_near(r, stage->near, text, n, from);
	if (rc == PCRE2_ERROR_PARTIAL)
		rc = search_far(r, stage->far, text, n, from);
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0)
		return refuse(r, rc, text, n, from);
	const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(r->work->match);
	*start = ends[0];
	*end = ends[1];
	return 1;
}

/* --- splitting --- */

static int run_stage(struct run *r, uint32_t stage, const char *text, size_t n);

/* Hands text[from .. to) to the next stage; an empty piece is none. */
static int piece(struct run *r, uint32_t stage, const char *text, size_t from, size_t to)
{
	return from < to ? run_stage(r, stage + 1, text + from, to - from) : 0;
}

/* Matches and gaps of one text. An empty match splits where it stands, but not right after a match:
 * then the search goes on one character further, as Oniguruma's iteration does. */
static int split(struct run *r, uint32_t stage, const char *text, size_t n)
{
	size_t done = 0; /* pieces handed out, and the end of the last match */
	bool matched = false;
	for (size_t from = 0, start = 0, end = 0, step; from <= n;) {
		int rc = search(r, &r->splitter->stages[stage], text, n, from, &start, &end);
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		if (start == end && matched && start == done) {
			if (from == n)
				break;
			utf8_decode(text + from, &step);
			from += step;
			continue;
		}
		rc = piece(r, stage, text, done, start);
		if (rc == 0)
			rc = piece(r, stage, text, start, end);
		if (rc != 0)
			return rc;
		matched = true;
		from = done = end;
	}
	return piece(r, stage, text, done, n);
}

/* text[n] with a space before it, valid until the stage's next piece. */
static int put_space(struct run *r, uint32_t stage, const char **text, size_t *n)
{
	struct split_work *w = r->work;
	if (*n + 1 > w->prefixed_capacity[stage]) {
		char *larger = realloc(w->prefixed[stage], 2 * *n + 64);
		if (!larger)
			return err_set(r->e, ENOMEM, "no memory to tokenize %zu bytes", *n);
		w->prefixed[stage] = larger;
		w->prefixed_capacity[stage] = 2 * *n + 64;
	}
	w->prefixed[stage][0] = ' ';
	memcpy(w->prefixed[stage] + 1, *text, *n);
	*text = w->prefixed[stage];
	*n += 1;
	return 0;
}

static int run_stage(struct run *r, uint32_t stage, const char *text, size_t n)
{
	if (stage == r->splitter->count)
		return r->each(r->context, text, n, r->e);
	const struct split_stage *s = &r->splitter->stages[stage];
	if (s->prefix_space && text[0] != ' ') {
		int rc = put_space(r, stage, &text, &n);
		if (rc < 0)
			return rc;
	}
	return s->near ? split(r, stage, text, n) : run_stage(r, stage + 1, text, n);
}

int splitter_run(const struct splitter *s, struct split_work *w, const char *text, size_t n,
		 split_word *each, void *context, struct err *e)
{
	struct run r = {s, w, each, context, e};
	return n > 0 ? run_stage(&r, 0, text, n) : 0;
}
