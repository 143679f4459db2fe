/* The history of a session's turns: the log, the marks for undo, and turns that were left out of a
 * full context. */
#include "engine/session/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the log ---- */

void history_log(struct session *s, const char *text, size_t n)
{
	if (s->log_size + n > s->log_room) {
		size_t room = 2 * (s->log_size + n);
		char *log = realloc(s->log, room);
		if (!log)
			return;
		s->log = log;
		s->log_room = room;
	}
	memcpy(s->log + s->log_size, text, n);
	s->log_size += n;
}

void history_log_quoted(struct session *s, const char *text, size_t n)
{
	const char *end = text + n;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = newline ? (size_t)(newline - text) : (size_t)(end - text);
		history_log(s, "> ", 2);
		history_log(s, text, line);
		history_log(s, "\n", 1);
		text += line + 1;
	}
}

/* ---- turns ---- */

int history_add_mark(struct session *s, struct err *e)
{
	if (s->undo_count == s->undo_room) {
		size_t room = s->undo_room ? 2 * s->undo_room : 16;
		struct undo_mark *undo = realloc(s->undo, room * sizeof *undo);
		if (!undo)
			return err_set(e, ENOMEM, "out of memory for another turn");
		s->undo = undo;
		s->undo_room = room;
	}
	s->undo[s->undo_count++] =
		(struct undo_mark){s->dialogue.messages.count, s->log_size, s->log_size};
	return 0;
}

bool history_take_back(struct session *s)
{
	struct messages *m = &s->dialogue.messages;
	size_t from = m->count;
	if (s->undo_count) {
		const struct undo_mark *mark = &s->undo[--s->undo_count];
		from = mark->messages;
		s->log_size = mark->log;
	} else {
		while (from && !message_is(&m->items[from - 1], "user"))
			from--;
		if (!from--)
			return false;
	}
	messages_cut(m, from);
	messages_free(&s->dialogue.results);
	s->tail.count = 0;
	return true;
}

void history_sync_system(struct session *s)
{
	struct err ignored;
	int added = 0;
	(void)dialogue_set_system(&s->dialogue, s->params.system, &added, &ignored);
	for (size_t i = 0; i < s->undo_count; i++) {
		/* Only a manipulated state has a mark before the system message. */
		size_t *at = &s->undo[i].messages;
		*at = added < 0 && !*at ? 0 : *at + (size_t)added;
	}
}

void history_forget_turns(struct session *s)
{
	s->undo_count = 0;
	s->tail.count = 0;
	s->written = true;
}

/* Where a turn begins after `count` messages from index `first` on were removed. Tool results for a
 * removed turn are removed with it, although they belong to the next turn. */
static size_t history_index_without(size_t begin, size_t first, size_t count)
{
	if (begin >= first + count)
		return begin - count;
	return begin < first ? begin : first;
}

void history_drop_turns(struct session *s, size_t first, size_t count, uint32_t turns)
{
	char words[80];
	size_t kept = 0;
	messages_remove(&s->dialogue.messages, first, count);
	s->asked.messages_before = history_index_without(s->asked.messages_before, first, count);
	s->stats.dropped_turns += turns;
	for (size_t i = 0; i < s->undo_count; i++) {
		struct undo_mark mark = s->undo[i];
		bool last = i + 1 == s->undo_count; /* the current turn */
		if (mark.messages < first + count && !last)
			continue;
		mark.messages = history_index_without(mark.messages, first, count);
		s->undo[kept++] = mark;
	}
	s->undo_count = kept;
	int n = snprintf(words, sizeof words, "(the context is full: without the oldest %u %s)\n",
			 turns, turns == 1 ? "turn" : "turns");
	history_log(s, words, (size_t)n);
}
