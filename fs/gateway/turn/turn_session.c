/* The session of a turn: making and removing it, its stats and its refusals; and removing sessions
 * of killed gateways. See turn.h. */
#include "fs/gateway/turn/tree_client.h"
#include "fs/gateway/turn/turn.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *session_path(const struct turn *t, char path[TREE_PATH])
{
	return tree_path(path, turn_tree(t), "%s/sessions/%s", t->session.model, t->session.name);
}

/* ---- a session for a turn ---- */

void session_new_name(struct gateway *g, char name[SESSION_NAME])
{
	(void)snprintf(name, SESSION_NAME, "http-%s-%" PRIu64, g->id,
		       atomic_fetch_add(&g->next_session, 1) + 1);
}

int session_make(struct turn *t, struct problem *p)
{
	char path[TREE_PATH];
	session_new_name(t->gateway, t->session.name);
	if (!session_path(t, path))
		return problem_set(p, PROBLEM_FAILED, NULL, "the tree's path is too long");
	if (!mkdir(path, 0700)) {
		t->made = true;
		return 0;
	}
	int code = errno;
	if (code == ENOENT && tree_is_gone(turn_tree(t), t->gateway->device))
		return problem_set(p, PROBLEM_NOT_NOW, NULL, "%s", tree_gone_words);
	if (code == ENOENT)
		return problem_set(p, PROBLEM_MODEL, "model", "The model \"%.100s\" has gone",
				   t->session.model);
	return problem_set(p, code == ENOSPC ? PROBLEM_BUSY : PROBLEM_NOT_NOW, NULL,
			   "cannot make a session in the tree: %s", strerror(code));
}

/* ---- stats: lines of a key and a value ---- */

/* The value of the line with this key; NULL: there is no such line. */
static const char *session_stats_value(const char *stats, const char *key)
{
	size_t n = strlen(key);
	for (const char *line = stats; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, n) && line[n] == ' ')
			return line + n + 1;
	}
	return NULL;
}

static uint64_t session_stats_number(const char *stats, const char *key)
{
	const char *value = session_stats_value(stats, key);
	return value ? strtoull(value, NULL, 10) : 0;
}

void turn_usage(struct turn *t, struct usage *u)
{
	struct text stats = {0};
	if (t->counted) {
		*u = t->usage;
		return;
	}
	*u = (struct usage){.finish = "error"};
	int code = tree_read(turn_tree(t), &stats, "%s/sessions/%s/stats", t->session.model,
			     t->session.name);
	text_add(&stats, "", 1);
	if (!code && !stats.failed) {
		const char *finish = session_stats_value(stats.data, "finish");
		u->prompt = session_stats_number(stats.data, "prompt_tokens");
		u->cached = session_stats_number(stats.data, "cached_tokens");
		u->output = session_stats_number(stats.data, "output_tokens");
		u->remembered = session_stats_value(stats.data, "remembered");
		u->stop = (uint32_t)session_stats_number(stats.data, "stop_text");
		if (finish)
			(void)snprintf(u->finish, sizeof u->finish, "%.*s",
				       (int)strcspn(finish, "\n"), finish);
	}
	text_free(&stats);
	t->counted = t->over && !code;
	t->usage = *u;
}

/* ---- refusals ---- */

static int turn_too_long(struct problem *p, const char *field, uint64_t has, uint64_t most)
{
	problem_set(p, PROBLEM_TOO_LONG, field,
		    "This model's maximum context length is %" PRIu64
		    " tokens. However, your %s resulted in %" PRIu64
		    " tokens, which leaves no room for an answer: shorten %s by at least "
		    "%" PRIu64 ".",
		    most, field, has, strcmp(field, "messages") ? "it" : "them", has + 1 - most);
	p->tokens = has;
	p->maximum = most;
	return -1;
}

/* Why a session's error.json has no reason. read: the -errno of reading it; code: the -errno of the
 * failure before. */
static const char *turn_unexplained(int read, int code)
{
	if (read == -ENOENT || read == -ESTALE)
		return "its session was removed from the tree";
	return read == -ENOTCONN || read == -ECONNABORTED ? tree_gone_words : strerror(-code);
}

int turn_refused(const struct turn *t, int code, const char *field, struct problem *p)
{
	struct tree_failure f;
	char state[32];
	int read = tree_failure_read(&f, field ? "refused" : NULL, turn_tree(t), "%s/sessions/%s",
				     t->session.model, t->session.name);
	if (read == -ENOENT && tree_is_gone(turn_tree(t), t->gateway->device))
		read = -ENOTCONN;
	enum problem_kind kind = tree_failure_kind(&f);
	if (kind == PROBLEM_NONE && (code == -ENOSPC || read == -ENOTCONN || read == -ECONNABORTED))
		kind = PROBLEM_NOT_NOW;
	else if (kind == PROBLEM_NONE)
		kind = code == -EINVAL || code == -ERANGE || code == -EILSEQ || code == -EFBIG
			       ? PROBLEM_INVALID
			       : PROBLEM_FAILED;
	if (kind == PROBLEM_TOO_LONG && f.maximum && f.tokens >= f.maximum)
		return turn_too_long(p, t->asked, f.tokens, f.maximum);
	tree_line(turn_tree(t), state, sizeof state, "%s/info/state", t->session.model);
	if (!field && !strcmp(state, "failed"))
		kind = PROBLEM_NOT_NOW; /* the model may be repaired and loaded again */
	if (!field && (!strcmp(f.code, "template_refused") || kind == PROBLEM_TOO_LONG))
		field = t->asked;
	/* The client knows params/NAME by its own field. */
	if (*f.reason && !field)
		field = t->formed;
	if (*f.reason && field)
		return problem_set(p, kind, field, "%s: %s", field, f.reason);
	if (!*f.message)
		return problem_set(p, kind, field, "%s", turn_unexplained(read, code));
	/* The session's path before the reason means nothing to a client. */
	const char *path = strstr(f.message, t->session.name);
	size_t n = strlen(t->session.name);
	bool named = path && !strncmp(path + n, ": ", 2);
	return problem_set(p, kind, field, "%s", named ? path + n + 2 : f.message);
}

/* ---- after a turn ---- */

void session_leave(struct turn *t)
{
	if (t->made)
		session_remove(&t->gateway->removal, t->session.model, t->session.name);
}

void turn_close_later(struct turn *t, int fd)
{
	if (t->later_count == TURN_LATER)
		turn_close_now(t);
	t->later[t->later_count++] = fd;
}

void turn_close_now(struct turn *t)
{
	while (t->later_count)
		close(t->later[--t->later_count]);
}

/* ---- the owner of a session ----
 *
 * Gateways of several machines and containers may serve one tree, so a session's name says which of
 * them made it: MACHINE.PROCESS.START. START is the start time of the process. MACHINE identifies
 * the machine and the PID namespace in which PROCESS is valid. */

static uint32_t session_machine(void)
{
	char text[256] = "", space[64] = "";
	const char *const parts[] = {text, space};
	uint32_t h = 2166136261u;
	FILE *file = fopen("/etc/machine-id", "re");
	size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
	if (file)
		fclose(file);
	if (!n)
		(void)gethostname(text, sizeof text - 1);
	ssize_t m = readlink("/proc/self/ns/pid", space, sizeof space - 1);
	space[m > 0 ? m : 0] = 0;
	for (int i = 0; i < 2; i++)
		for (const char *at = parts[i]; *at; at++)
			h = (h ^ (unsigned char)*at) * 16777619u;
	return h;
}

/* The 22nd field of /proc/PROCESS/stat; 0: there is no such process. The second field, its name,
 * may contain blanks and brackets. */
static unsigned long long session_process_start(long process)
{
	char path[64], text[1024];
	(void)snprintf(path, sizeof path, "/proc/%ld/stat", process);
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
	if (file)
		fclose(file);
	text[n] = 0;
	const char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* Whether the gateway with this id ran on this machine and has ended. Only then does no other
 * process remove its sessions. */
static bool session_owner_ended(const char *id)
{
	unsigned machine;
	long process;
	unsigned long long start;
	return sscanf(id, "%8x.%ld.%llu", &machine, &process, &start) == 3 &&
	       machine == session_machine() && session_process_start(process) != start;
}

/* Removes the sessions of a model whose gateway has ended. */
static int session_clear_model(void *tree, const char *model)
{
	char path[TREE_PATH];
	struct dirent **names;
	int count = tree_path(path, tree, "%s/sessions", model) ? scandir(path, &names, NULL, NULL)
								: -1;
	for (int i = 0; i < count; i++) {
		const char *name = names[i]->d_name;
		if (!strncmp(name, "http-", 5) && session_owner_ended(name + 5) &&
		    tree_path(path, tree, "%s/sessions/%s", model, name))
			(void)rmdir(path);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
	return 0;
}

void turns_prepare(struct gateway *g)
{
	long process = (long)getpid();
	(void)snprintf(g->id, sizeof g->id, "%08x.%ld.%llu", session_machine(), process,
		       session_process_start(process));
	(void)tree_models(g->options->tree, session_clear_model,
			  (void *)(uintptr_t)g->options->tree);
}
