/* moefs-http: serves the models of a mounted tree over HTTP.
 *
 *     moefs-http [options] TREE
 *
 * A client of the tree's files, and nothing else: whatever it does a shell could do. The program's
 * life: options, the socket, the listener, and at SIGTERM or SIGINT all of that back. Only this
 * file prints and only main exits. */
#include "fs/base/standard.h"
#include "fs/base/systemd.h"
#include "fs/gateway/turn/gate.h"
#include "fs/gateway/identity.h"
#include "fs/gateway/turn/kept.h"
#include "fs/gateway/keys.h"
#include "fs/gateway/listen.h"
#include "fs/gateway/options_help.h"
#include "fs/gateway/responses/responses_kept.h"
#include "fs/gateway/server.h"
#include "fs/gateway/turn/tree.h"
#include "fs/gateway/turn/turn.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A line for the log: one write, so that those of several threads do not mix. */
static void say(const char *line)
{
	(void)fprintf(stderr, "moefs-http: %s\n", line);
}

static int no_model(void *ctx, const char *name)
{
	(void)ctx, (void)name;
	return 1;
}

static int check_tree(const char *tree, struct err *e)
{
	int found = tree_models(tree, no_model, NULL);
	if (found < 0)
		return err_sys(e, -found, "%s cannot be read", tree);
	if (!found)
		return err_set(e, EINVAL, "%s has no models: it must be a mount of moefs", tree);
	return 0;
}

static int open_socket(const struct options *o, struct err *e)
{
	int socket = systemd_socket(e);
	if (socket == -1)
		socket = listen_on(o->listen, e);
	if (socket < 0 || o->key_file || listen_is_local(socket))
		return socket;
	close(socket);
	return err_set(e, EPERM,
		       "others than this machine can reach listen=%s, so that keys are needed: -o "
		       "key_file=FILE, a key a line",
		       o->listen);
}

/* Each second what takes too long is looked at, until a signal ends it all. */
static void serve(struct gateway *g, struct server *s, const sigset_t *signals)
{
	const struct timespec second = {.tv_sec = 1};
	while (sigtimedwait(signals, NULL, &second) < 0) {
		server_tick(s);
		blocked_look(&g->blocked);
		removal_look(&g->removal);
	}
	atomic_store(&g->stopping, true);
}

static int run(const struct options *o, struct err *e)
{
	struct gateway g = {.options = o, .say = say};
	struct server *s = NULL;
	sigset_t signals;
	char words[256];
	int code = check_tree(o->tree, e), socket;
	if (code)
		return code;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	code = blocked_begin(&g.blocked);
	if (code)
		return err_sys(e, -code, "cannot watch clients");
	g.device = tree_device(o->tree);
	identity_make(g.id, sizeof g.id);
	g.polls = o->poll ? !strcmp(o->poll, "on") : tree_is_moefs(o->tree);
	removal_begin(&g.removal, o->tree, !g.polls);
	turns_clear(&g);
	g.gate = gate_create(o->active, o->queue);
	g.kept = kept_create(&g.removal, o->keep);
	g.responses = responses_kept_create(RESPONSES_KEPT, RESPONSES_BYTES);
	if (!g.gate || !g.kept || !g.responses)
		code = err_set(e, ENOMEM, "out of memory");
	if (!code && o->key_file)
		code = keys_read(&g.keys, o->key_file, e);
	socket = code ? code : open_socket(o, e);
	if (socket >= 0)
		listen_words(socket, words, sizeof words);
	code = socket < 0 ? socket : server_begin(&s, &g, socket, e);
	if (!code) {
		char line[300];
		(void)snprintf(line, sizeof line, "listening on %s", words);
		say(line);
		systemd_notify("READY=1");
		serve(&g, s, &signals);
	}
	server_end(s);
	blocked_end(&g.blocked);
	responses_kept_free(g.responses);
	kept_free(g.kept);
	removal_end(&g.removal);
	keys_free(g.keys);
	gate_free(g.gate);
	return code;
}

int main(int argc, char **argv)
{
	struct options o;
	struct err e = {0};
	standard_begin();
	int code = options_parse(&o, argc, argv, &e);
	if (!code && o.help)
		(void)fputs(http_options_help, stdout);
	else if (!code && o.version)
		(void)printf("moefs-http %s\n", MOEFS_VERSION);
	else if (!code)
		code = run(&o, &e);
	if (!code)
		code = standard_written(&e);
	if (code)
		(void)fprintf(stderr, "moefs-http: %s\n", e.text);
	options_free(&o);
	return code ? 1 : 0;
}
