/* Connections and the way of a request to its handler. See server.h.
 *
 * A thread per connection, bounded in their number, which may block: it waits for the files of the
 * tree and the client's socket together (client.c). What a client may take is bounded: the head by
 * the library's memory for a connection, the body by -o body=, a step of the talk by -o timeout=, a
 * whole request until its handler is called by four times that. */
#include "fs/gateway/server.h"
#include "fs/gateway/admit.h"
#include "fs/gateway/peer.h"
#include "fs/gateway/request_way.h"
#include "fs/gateway/routes.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES = 64 << 10, STACK_BYTES = 1 << 20, PATIENCE = 4 };

struct connection { /* of the library's connection, from its accept to its close */
	struct connection *next, **at;
	int socket;
	bool own_user;		/* who may ask without a key: peer.h */
	uint64_t reading_since; /* 0: a handler is at work, or its answer is sent */
};

struct server {
	struct gateway *gateway;
	struct MHD_Daemon *daemon;
	char *cert, *key;
	pthread_mutex_t lock; /* of the list and what is in it */
	struct connection *connections;
};

/* ---- connections ---- */

/* A client whose network is lost sends no end. The kernel asks after who says nothing, and hangs up
 * where neither that nor what was sent is acknowledged for `seconds`: who waits for the socket sees
 * it. A socket that is no network's knows of none of it. */
static void bound_silence(int socket, unsigned seconds)
{
	const int third = seconds < 3 ? 1 : (int)(seconds / 3), probes = 3;
	const unsigned most = seconds * 1000;
	if (setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most))
		return;
	(void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &third, sizeof third);
	(void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &third, sizeof third);
	(void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
	(void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct server *s = cls;
	struct connection *c = *context;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	bool own_user = code == MHD_CONNECTION_NOTIFY_STARTED && info && !s->gateway->keys &&
			peer_is_own_user(info->connect_fd);
	pthread_mutex_lock(&s->lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED && (c = calloc(1, sizeof *c))) {
		*c = (struct connection){.next = s->connections,
					 .at = &s->connections,
					 .socket = info ? info->connect_fd : -1,
					 .own_user = own_user,
					 .reading_since = request_clock()};
		bound_silence(c->socket, s->gateway->options->timeout);
		if (c->next)
			c->next->at = &c->next;
		s->connections = c;
		*context = c;
	} else if (code == MHD_CONNECTION_NOTIFY_CLOSED && c) {
		*c->at = c->next;
		if (c->next)
			c->next->at = c->at;
		free(c);
		*context = NULL;
	}
	pthread_mutex_unlock(&s->lock);
}

/* NULL: there was no memory for one. */
static struct connection *connection_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : NULL;
}

static void reads(struct server *s, struct MHD_Connection *connection, bool reading)
{
	struct connection *c = connection_of(connection);
	pthread_mutex_lock(&s->lock);
	if (c)
		c->reading_since = reading ? request_clock() : 0;
	pthread_mutex_unlock(&s->lock);
}

static void hang_up(struct server *s, uint64_t before)
{
	pthread_mutex_lock(&s->lock);
	for (struct connection *c = s->connections; c; c = c->next)
		if (before == UINT64_MAX || (c->reading_since && c->reading_since < before))
			(void)shutdown(c->socket, SHUT_RDWR);
	pthread_mutex_unlock(&s->lock);
}

void server_tick(struct server *s)
{
	uint64_t patience = (uint64_t)PATIENCE * s->gateway->options->timeout * 1000000000u;
	uint64_t t = request_clock();
	if (t > patience)
		hang_up(s, t - patience);
}

/* ---- requests ---- */

/* The handler may take long; the library's timeout is about the client alone. */
static enum MHD_Result handle(struct server *s, struct request *r)
{
	struct problem p = {0};
	reads(s, r->connection, false);
	MHD_set_connection_option(r->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
	enum MHD_Result result = request_parse(r, &p) ? reply_problem(r, &p) : r->route->handle(r);
	MHD_set_connection_option(r->connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  s->gateway->options->timeout);
	return result;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *data,
				  size_t *size, void **context)
{
	struct server *s = cls;
	struct request *r = *context;
	struct problem p = {0};
	(void)version;
	if (!r)
		return MHD_NO;
	if (!r->begun) {
		r->begun = true;
		r->path = path;
		r->connection = connection;
		r->unclear = admit_is_unclear(r);
		if (!r->unclear && s->gateway->options->cors && !strcmp(method, "OPTIONS"))
			return reply_preflight(r);
		return request_admit(r, method, &p) ? reply_problem(r, &p) : MHD_YES;
	}
	if (!*size)
		return r->answered ? MHD_YES : handle(s, r);
	/* Of a chunked body the size was not told before; the rest is read, and is nothing. */
	r->too_large |= r->body.length + *size > s->gateway->options->body;
	if (r->too_large)
		text_free(&r->body);
	else
		text_add(&r->body, data, *size);
	*size = 0;
	return r->body.failed ? MHD_NO : MHD_YES;
}

/* Called with a request's first line, before all else of it, as it came. */
static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
	struct server *s = cls;
	reads(s, connection, true);
	struct request *r = request_make(s->gateway, connection);
	const struct connection *c = connection_of(connection);
	const char *zero = strstr(uri, "%00"), *query = strchr(uri, '?');
	if (r) {
		r->cut = zero && (!query || zero < query);
		r->own_user = c && c->own_user;
	}
	return r;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode code)
{
	struct server *s = cls;
	struct request *r = *context;
	reads(s, connection, true);
	if (!r)
		return;
	request_log(r, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
	struct counters *counters = &s->gateway->counters;
	atomic_fetch_add(&counters->requests[r->status / 100 < 6 ? r->status / 100 : 0], 1);
	if (r->begun && code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
		atomic_fetch_add(&counters->dropped, 1);
	request_free(r);
	*context = NULL;
}

/* ---- the listener ---- */

static void on_log(void *cls, const char *format, va_list values)
{
	(void)cls, (void)format, (void)values; /* what clients do wrong is no news */
}

/* The whole of a PEM file, with a zero at its end. NULL, and the reason in *e. */
static char *read_pem(const char *path, struct err *e)
{
	enum { MOST = 1 << 20 };
	char *text = calloc(1, MOST + 2);
	FILE *file = text ? fopen(path, "re") : NULL;
	size_t n = file ? fread(text, 1, MOST + 1, file) : 0;
	int code = !file || ferror(file) ? errno : 0;
	if (file)
		fclose(file);
	if (code)
		err_sys(e, code, "%s cannot be read", path);
	else if (n > MOST)
		err_set(e, EFBIG, "%s is larger than 1 MiB, which no certificate or key is", path);
	else if (!n || !strstr(text, "-----BEGIN "))
		err_set(e, EINVAL, n ? "%s is not PEM: it has no line \"-----BEGIN ...\""
				     : "%s is empty: it should have a certificate or key in PEM", path);
	else
		return text;
	free(text);
	return NULL;
}

static int server_read_tls(struct server *s, const struct options *o, struct err *e)
{
	s->cert = read_pem(o->cert, e);
	s->key = s->cert ? read_pem(o->key, e) : NULL;
	return s->key ? 0 : -e->code;
}

static int begin_daemon(struct server *s, int socket, struct err *e)
{
	const struct options *o = s->gateway->options;
	unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
			 MHD_USE_POLL | MHD_USE_ERROR_LOG | MHD_USE_ITC;
	struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert},
				       {MHD_OPTION_HTTPS_MEM_KEY, 0, s->key},
				       {MHD_OPTION_END, 0, NULL}};
	if (!o->cert)
		tls[0].option = MHD_OPTION_END;
	s->daemon = MHD_start_daemon(
		flags | (o->cert ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, s,
		MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, socket,
		MHD_OPTION_URI_LOG_CALLBACK, on_uri, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
		s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_LIMIT,
		o->connections, MHD_OPTION_CONNECTION_TIMEOUT, o->timeout,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
	if (s->daemon)
		return 0;
	return err_set(e, EINVAL,
		       o->cert ? "the listener cannot be started: are %s and %s a certificate and "
				 "its key, in PEM?"
			       : "the listener cannot be started%.0s%.0s",
		       o->cert ? o->cert : "", o->key ? o->key : "");
}

int server_begin(struct server **out, struct gateway *g, int socket, struct err *e)
{
	struct server *s = calloc(1, sizeof *s);
	int code = s ? 0 : err_set(e, ENOMEM, "out of memory");
	if (code)
		return code;
	s->gateway = g;
	pthread_mutex_init(&s->lock, NULL);
	if (g->options->cert)
		code = server_read_tls(s, g->options, e);
	if (!code)
		code = begin_daemon(s, socket, e);
	if (code) {
		close(socket);
		server_end(s);
		return code;
	}
	*out = s;
	return 0;
}

void server_end(struct server *s)
{
	if (!s)
		return;
	if (s->daemon) {
		int socket = MHD_quiesce_daemon(s->daemon);
		if (socket >= 0)
			close(socket);
		hang_up(s, UINT64_MAX);
		MHD_stop_daemon(s->daemon);
	}
	pthread_mutex_destroy(&s->lock);
	free(s->cert);
	free(s->key);
	free(s);
}
