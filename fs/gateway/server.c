/* The listener: connections, and the steps before a request's handler. See gateway.h.
 *
 * Each connection has a thread, which may block; their number is limited (-o connections=). A
 * client's memory and time are also limited: a request's head by HEAD_BYTES, its body by -o body=,
 * each silence by -o timeout=, and the time until the whole request has arrived by PATIENCE times
 * that. */
#include "fs/gateway/access.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/reply.h"

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

struct connection { /* from accept to close */
	struct connection *next, **at;
	int socket;
	bool own_user;		/* access.h: may send requests without a key */
	uint64_t reading_since; /* 0: a handler is running, or its answer is being sent */
};

struct server {
	struct gateway *gateway;
	struct MHD_Daemon *daemon;
	char *cert, *key;
	pthread_mutex_t lock; /* guards the list and its members */
	struct connection *connections;
};

/* ---- connections ---- */

/* A client whose network is lost does not close its connection. So the kernel probes silent
 * clients, and disconnects those that acknowledge neither probes nor data for `seconds`. A thread
 * that waits for the socket notices that. Only TCP sockets need this. */
static void server_bound_silence(int socket, unsigned seconds)
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

static void server_on_connection(void *cls, struct MHD_Connection *connection, void **context,
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
		server_bound_silence(c->socket, s->gateway->options->timeout);
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

/* NULL: out of memory. */
static struct connection *server_connection_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : NULL;
}

static void server_note_reading(struct server *s, struct MHD_Connection *connection, bool reading)
{
	struct connection *c = server_connection_of(connection);
	pthread_mutex_lock(&s->lock);
	if (c)
		c->reading_since = reading ? request_clock() : 0;
	pthread_mutex_unlock(&s->lock);
}

static void server_hang_up(struct server *s, uint64_t before)
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
		server_hang_up(s, t - patience);
}

/* ---- requests ---- */

static enum MHD_Result server_on_request(void *cls, struct MHD_Connection *connection,
					 const char *path, const char *method, const char *version,
					 const char *data, size_t *size, void **context)
{
	struct server *s = cls;
	struct http_request *r = *context;
	struct problem p = {0};
	(void)version;
	if (!r)
		return MHD_NO;
	if (!r->begun) {
		r->begun = true;
		r->path = path;
		r->connection = connection;
		r->unclear = access_is_unclear(r);
		if (!r->unclear && s->gateway->options->cors && !strcmp(method, "OPTIONS"))
			return reply_preflight(r);
		return request_admit(r, method, &p) ? reply_problem(r, &p) : MHD_YES;
	}
	if (*size) {
		/* A chunked body does not announce its size. A body that is too large is read and
		 * dropped. */
		r->too_large |= r->body.length + *size > s->gateway->options->body;
		if (r->too_large)
			text_free(&r->body);
		else
			text_add(&r->body, data, *size);
		*size = 0;
		return r->body.failed ? MHD_NO : MHD_YES;
	}
	if (r->answered)
		return MHD_YES;
	/* The library's timeout is for idle clients, and a handler may take longer. */
	server_note_reading(s, connection, false);
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
	enum MHD_Result result = request_parse(r, &p) ? reply_problem(r, &p) : r->route->handle(r);
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  s->gateway->options->timeout);
	return result;
}

/* Called with the raw first line of a request, before anything else of the request. */
static void *server_on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
	struct server *s = cls;
	server_note_reading(s, connection, true);
	struct http_request *r = request_make(s->gateway, connection);
	const struct connection *c = server_connection_of(connection);
	const char *zero = strstr(uri, "%00"), *query = strchr(uri, '?');
	if (r) {
		r->cut = zero && (!query || zero < query);
		r->own_user = c && c->own_user;
	}
	return r;
}

static void server_on_completed(void *cls, struct MHD_Connection *connection, void **context,
				enum MHD_RequestTerminationCode code)
{
	struct server *s = cls;
	struct http_request *r = *context;
	server_note_reading(s, connection, true);
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

static void server_on_log(void *cls, const char *format, va_list values)
{
	(void)cls, (void)format, (void)values; /* clients' mistakes are not logged */
}

/* Reads a whole PEM file, and adds a zero byte. NULL: *e. */
static char *server_read_pem(const char *path, struct err *e)
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
		err_set(e, EINVAL,
			n ? "%s is not PEM: it has no line \"-----BEGIN ...\""
			  : "%s is empty: it should have a certificate or key in PEM",
			path);
	else if (strstr(text, "BEGIN ENCRYPTED") || strstr(text, "Proc-Type: 4,ENCRYPTED"))
		err_set(e, EINVAL,
			"%s is encrypted, and nothing here can ask for its passphrase; decrypt it "
			"with `openssl pkey -in FILE -out NEW`",
			path);
	else
		return text;
	free(text);
	return NULL;
}

static int server_begin_daemon(struct server *s, int socket, struct err *e)
{
	const struct gateway_options *o = s->gateway->options;
	unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
			 MHD_USE_POLL | MHD_USE_ERROR_LOG | MHD_USE_ITC;
	struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert},
				       {MHD_OPTION_HTTPS_MEM_KEY, 0, s->key},
				       {MHD_OPTION_END, 0, NULL}};
	if (!o->cert)
		tls[0].option = MHD_OPTION_END;
	s->daemon = MHD_start_daemon(
		flags | (o->cert ? MHD_USE_TLS : 0), 0, NULL, NULL, server_on_request, s,
		MHD_OPTION_EXTERNAL_LOGGER, server_on_log, NULL, MHD_OPTION_LISTEN_SOCKET, socket,
		MHD_OPTION_URI_LOG_CALLBACK, server_on_uri, s, MHD_OPTION_NOTIFY_COMPLETED,
		server_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, server_on_connection, s,
		MHD_OPTION_CONNECTION_LIMIT, o->connections, MHD_OPTION_CONNECTION_TIMEOUT,
		o->timeout, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
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
	if (g->options->cert && (!(s->cert = server_read_pem(g->options->cert, e)) ||
				 !(s->key = server_read_pem(g->options->key, e))))
		code = -e->code;
	if (!code)
		code = server_begin_daemon(s, socket, e);
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
		server_hang_up(s, UINT64_MAX);
		MHD_stop_daemon(s->daemon);
	}
	pthread_mutex_destroy(&s->lock);
	free(s->cert);
	free(s->key);
	free(s);
}
