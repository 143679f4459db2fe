/* What is inside of what takes an answer apart: for the files that do it. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_INSIDE_H
#define MOEFS_ENGINE_ANSWER_SPLIT_INSIDE_H

#include "engine/answer/split.h"

struct split {
	const struct split_form *form;
	bool begins[256];	  /* bytes that a mark of the form begins with */
	const struct json *tools; /* NULL: none on offer */
	enum split_thinking thinking;
	enum { AT_START, IN_THOUGHTS, BEHIND_THOUGHTS, IN_HEAD, IN_CONTENT } where;
	struct text_out text;	     /* all of it */
	size_t at;		     /* what of it is taken apart */
	size_t wasted;		     /* bytes read in vain */
	size_t again;		     /* how long the text is to be before it is looked at again */
	struct text_out held;	     /* white space that may be dropped */
	bool fresh, after_call;	     /* nothing of content yet, or since the last call */
	const struct call_way *open; /* whose mark before several calls was met */
	bool as_it_is;		     /* of a channel's message nothing is taken */
	bool cut;		     /* nothing more comes, but more was to be said */
	bool thought;		     /* there will be no more thoughts */
	struct text_out thoughts, content;
	struct calls calls;
};

/* Appends the calls at i, and returns the place behind them; sets whose they are. i: there are
 * none; undecided is SCAN_MORE. */
size_t split_read_calls(struct split *s, struct scan *t, size_t i, bool line,
			const struct call_way **open);
/* Behind the mark that closes a block of calls, if it stands at i. */
size_t split_close(struct scan *t, size_t i, const struct call_way **open);
/* Behind a mark that is no content, if one stands at i. */
size_t split_silent(const struct split *s, struct scan *t, size_t i);
/* Nothing but calls from i to the end of a whole text; they are taken. line: a line begins at i. */
bool split_calls_to_the_end(struct split *s, const struct scan *t, size_t i, bool line);
/* Whether of a text that was cut off the rest from i may have become nothing but calls. */
bool split_may_become_calls(struct split *s, size_t i);
/* Whether what is undecided at the end of a text that was cut off is to be content nevertheless:
 * more likely it is ordinary text than the beginning of a mark or a call. */
bool split_is_plain(const struct split *s);
/* Whether the mark of a call stands here. */
bool split_stands_a_call(const struct split *s, struct scan *t, size_t i);

/* The states. */
void split_at_start(struct split *s, struct scan *t);
void split_in_thoughts(struct split *s, struct scan *t);
void split_behind_thoughts(struct split *s, struct scan *t);
void split_in_head(struct split *s, struct scan *t); /* between messages in channels */
void split_in_content(struct split *s, struct scan *t);
/* What follows in content is joined to it by one newline. */
void split_begin_part(struct split *s);

#endif
