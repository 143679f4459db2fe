/* moefs-http serves the models of a mounted tree over HTTP.
 *
 *     moefs-http [options] TREE
 *
 * It only uses the tree's files; a shell could do the same. This file is the program's life:
 * options, the socket and the listener, and at SIGTERM or SIGINT their end. Only this file prints,
 * and only main exits. */
#include "fs/base/standard.h"
#include "fs/base/systemd.h"
#include "fs/gateway/access.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/listen.h"
#include "fs/gateway/responses/responses.h"
#include "fs/gateway/turn/tree_client.h"
#include "fs/gateway/turn/turn.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One write per line, so that lines of several threads do not mix. */
static void gateway_log(const char *line)
{
	(void)fprintf(stderr, "moefs-http: %s\n", line);
}

static int gateway_any_model(void *ctx, const char *name)
{
	(void)ctx, (void)name;
	return 1;
}

static int gateway_check_tree(const char *tree, struct err *e)
{
	int found = tree_models(tree, gateway_any_model, NULL);
	if (found < 0)
		return err_sys(e, -found, "%s cannot be read", tree);
	if (!found)
		return err_set(e, EINVAL, "%s has no models: it must be a mount of moefs", tree);
	return 0;
}

static int gateway_open_socket(const struct gateway_options *o, struct err *e)
{
	int socket = systemd_socket(e);
	if (socket == -1)
		socket = listen_on(o->listen, e);
	if (socket < 0 || o->key_file || listen_is_local(socket))
		return socket;
	close(socket);
	return err_set(
		e, EPERM,
		"listen=%s: other machines can reach this address, so clients need keys: add "
		"-o key_file=FILE, a key a line",
		o->listen);
}

/* Checks timeouts each second, until a signal ends the gateway. */
static void gateway_serve(struct gateway *g, struct server *s, const sigset_t *signals)
{
	const struct timespec second = {.tv_sec = 1};
	while (sigtimedwait(signals, NULL, &second) < 0) {
		server_tick(s);
		client_reads_tick(&g->reads);
		session_removal_tick(&g->removal);
	}
	atomic_store(&g->stopping, true);
}

static int gateway_run(const struct gateway_options *o, struct err *e)
{
	struct gateway g = {.options = o, .log = gateway_log};
	struct server *s = NULL;
	sigset_t signals;
	char words[256];
	int code = gateway_check_tree(o->tree, e), socket;
	if (code)
		return code;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	code = client_reads_begin(&g.reads);
	if (code)
		return err_sys(e, -code, "cannot watch clients");
	g.device = tree_device(o->tree);
	g.polls = o->poll ? !strcmp(o->poll, "on") : tree_is_moefs(o->tree);
	session_removal_begin(&g.removal, o->tree, !g.polls);
	turns_prepare(&g);
	g.gate = gate_create(o->active, o->queue);
	g.responses = responses_kept_create(RESPONSES_KEPT, RESPONSES_BYTES);
	if (!g.gate || !g.responses)
		code = err_set(e, ENOMEM, "out of memory");
	if (!code && o->key_file)
		code = access_keys_read(&g.keys, o->key_file, e);
	socket = code ? code : gateway_open_socket(o, e);
	if (socket >= 0)
		listen_words(socket, words, sizeof words);
	code = socket < 0 ? socket : server_begin(&s, &g, socket, e);
	if (!code) {
		char line[300];
		(void)snprintf(line, sizeof line, "listening on %s", words);
		gateway_log(line);
		systemd_notify("READY=1");
		gateway_serve(&g, s, &signals);
	}
	server_end(s);
	client_reads_end(&g.reads);
	responses_kept_free(g.responses);
	session_removal_end(&g.removal);
	access_keys_free(g.keys);
	gate_free(g.gate);
	return code;
}

int main(int argc, char **argv)
{
	struct gateway_options o;
	struct err e = {0};
	standard_begin();
	int code = gateway_options_parse(&o, argc, argv, &e);
	if (!code && o.help)
		(void)fputs(gateway_options_help, stdout);
	else if (!code && o.version)
		(void)printf("moefs-http %s\n", MOEFS_VERSION);
	else if (!code)
		code = gateway_run(&o, &e);
	if (!code)
		code = standard_written(&e);
	if (code)
		(void)fprintf(stderr, "moefs-http: %s\n", e.text);
	gateway_options_free(&o);
	return code ? 1 : 0;
}
