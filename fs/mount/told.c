/* A line for each answered prompt. See told.h. */
#include "fs/mount/told.h"
#include "engine/session.h"
#include "fs/base/said.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static double rate(uint64_t tokens, double seconds)
{
	return seconds > 0 ? (double)tokens / seconds : 0;
}

static void say(const struct conversation *c, const struct session_stats *s)
{
	char line[1024], when[sizeof "18:07:13"] = "";
	struct tm local;
	time_t now = time(NULL);
	if (localtime_r(&now, &local))
		(void)strftime(when, sizeof when, "%T", &local);
	const char *folder = c->passing ? "ask.d/" : c->id ? "sessions/" : "";
	(void)snprintf(line, sizeof line,
		       "%s %s/%s%s: %" PRIu64 " tokens in (%" PRIu64 " cached), %" PRIu64
		       " out, %.1f and %.1f tokens/s, %" PRIu64 " hits, %" PRIu64 " misses, %s",
		       when, c->model->name, folder, c->name, s->prompt_tokens, s->cached_tokens,
		       s->output_tokens,
		       rate(s->prompt_tokens - s->cached_tokens, s->prefill_seconds),
		       rate(s->output_tokens, s->decode_seconds), s->expert_hits, s->expert_misses,
		       *s->finish ? s->finish : session_status_word(session_status(c->session)));
	said_line(c->model->mount->said, line);
}

void told_turn(struct conversation *c)
{
	struct session_stats stats;
	if (!c->model->mount->verbose || session_working(c->session))
		return;
	/* An answer is new by its address: the one that was told of is not given back before. */
	struct answer *newest = session_answer(c->session);
	if (newest == c->told) {
		answer_unref(newest);
		return;
	}
	answer_unref(c->told);
	c->told = newest;
	session_stats(c->session, &stats);
	if (newest && *stats.finish)
		say(c, &stats);
}

void told_forget(struct conversation *c)
{
	answer_unref(c->told);
	c->told = NULL;
}
