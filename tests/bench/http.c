/* moefs-bench http: the cost of HTTP.
 *
 * The same questions go alternately to the files of a mounted tree and to a moefs-http that serves
 * it. One question at a time: the time from its first byte to the first byte of the answer, less
 * the engine's time, and from each token's creation to its reader. Many at once: the rate of all
 * their text. Tree, gateway and clients are separate processes. */
#include "tests/bench/http_stream.h"
#include "cache/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAMS_MOST = 256, CROWD_TOKENS = 200 };

struct http {
	struct effort effort;
	const char *program;
	uint64_t asks, tokens, streams;
	struct mounted at;
	struct gateway_process server;
	struct measured tree, http;
	double rates[2][ROUNDS_MOST], shares[ROUNDS_MOST]; /* bytes a second; of the tree's */
	uint64_t crowds;
};

/* ---- one at a time ---- */

/* Each prompt is new to the model, so that none reuses another's computation. */
static void question(char text[96], uint64_t number)
{
	(void)snprintf(text, 96, "%llu. Tell me a story of a dog and a cat.",
		       (unsigned long long)number);
}

static int ask_tree(struct http *h, const char *text, struct reads *r, struct err *e)
{
	int rc = mounted_put(&h->at, "prompt", text, e);
	return rc == 0 ? mounted_read(&h->at, "output", r, e) : rc;
}

static int ask(struct http *h, bool tree, int connection, uint64_t number, struct err *e)
{
	char text[96];
	struct reads *r = malloc(sizeof *r);
	if (!r)
		return err_set(e, ENOMEM, "no memory for an answer");
	question(text, number);
	int rc = tree ? mounted_put(&h->at, "ctl", "reset\n", e) : 0;
	notes_clear(h->at.notes);
	uint64_t from = clock_ns();
	if (rc == 0)
		rc = tree ? ask_tree(h, text, r, e)
			  : gateway_ask(connection, "model", text, h->tokens, r, e);
	if (rc == 0)
		measured_add(tree ? &h->tree : &h->http, h->at.notes, r, from);
	free(r);
	return rc;
}

static int ask_all(struct http *h, uint64_t round, struct err *e)
{
	int connection = gateway_connect(&h->server, e);
	int rc = connection < 0 ? connection : 0;
	for (uint64_t i = 0; i < h->asks && rc == 0; i++) {
		uint64_t number = 2 * (round * h->asks + i);
		rc = ask(h, true, -1, number, e);
		if (rc == 0)
			rc = ask(h, false, connection, number + 1, e);
	}
	if (connection >= 0)
		close(connection);
	return rc;
}

/* ---- many at once ---- */

struct reader {
	struct http *h;
	pthread_t thread;
	uint64_t number;
	bool tree;
	int connection;
	pthread_barrier_t *begin;
	uint64_t bytes;
	int rc;
	struct err why;
	struct reads reads;
};

/* As in moefs-http: a new session, which is then removed. */
static int read_session(struct reader *d, const char *text)
{
	char name[64], path[200], file[96], tokens[32];
	const struct mounted *at = &d->h->at;
	(void)snprintf(name, sizeof name, "sessions/c%llu", (unsigned long long)d->number);
	(void)snprintf(path, sizeof path, "%s/%s", at->inside, name);
	if (mkdir(path, 0700))
		return err_sys(&d->why, errno, "cannot make %s", path);
	(void)snprintf(tokens, sizeof tokens, "%d\n", CROWD_TOKENS);
	(void)snprintf(file, sizeof file, "%s/params/max_tokens", name);
	int rc = mounted_put(at, file, tokens, &d->why);
	(void)snprintf(file, sizeof file, "%s/prompt", name);
	if (rc == 0)
		rc = mounted_put(at, file, text, &d->why);
	(void)snprintf(file, sizeof file, "%s/output", name);
	if (rc == 0)
		rc = mounted_read(at, file, &d->reads, &d->why);
	(void)rmdir(path);
	return rc;
}

static void *read_one(void *arg)
{
	struct reader *d = arg;
	char text[96];
	question(text, d->number);
	(void)pthread_barrier_wait(d->begin);
	d->rc = d->tree ? read_session(d, text)
			: gateway_ask(d->connection, "model", text, CROWD_TOKENS, &d->reads,
				      &d->why);
	if (d->rc == 0 && d->reads.count)
		d->bytes = d->reads.bytes[d->reads.count - 1];
	return NULL;
}

static int begin_reader(struct reader *d, struct http *h, uint64_t number, bool tree,
			pthread_barrier_t *begin, struct err *e)
{
	*d = (struct reader){.h = h, .number = number, .tree = tree, .begin = begin};
	d->connection = tree ? -1 : gateway_connect(&h->server, e);
	if (!tree && d->connection < 0)
		return d->connection;
	int code = pthread_create(&d->thread, NULL, read_one, d);
	return code ? err_sys(e, code, "cannot start a reader") : 0;
}

/* Bytes of text a second of all of them. What cannot be begun ends the program, with the others
 * that wait at the barrier. */
static int crowd(struct http *h, bool tree, uint64_t first, double *rate, struct err *e)
{
	pthread_barrier_t begin;
	struct reader *readers = calloc(h->streams, sizeof *readers);
	uint64_t bytes = 0;
	int rc = readers ? 0 : err_set(e, ENOMEM, "no memory for readers");
	pthread_barrier_init(&begin, NULL, (unsigned)h->streams + 1);
	for (uint64_t i = 0; i < h->streams && rc == 0; i++)
		rc = begin_reader(&readers[i], h, first + i, tree, &begin, e);
	if (rc)
		return rc;
	(void)pthread_barrier_wait(&begin);
	double from = seconds_now();
	for (uint64_t i = 0; i < h->streams; i++) {
		pthread_join(readers[i].thread, NULL);
		bytes += readers[i].bytes;
		if (readers[i].connection >= 0)
			close(readers[i].connection);
		if (readers[i].rc)
			rc = err_set(e, -readers[i].rc, "%s", readers[i].why.text);
	}
	*rate = (double)bytes / (seconds_now() - from);
	pthread_barrier_destroy(&begin);
	free(readers);
	return rc;
}

/* Both ask the same, the second with all that the first has left; so each is the first in turn. */
static int crowds(struct http *h, uint64_t round, struct err *e)
{
	double rate[2];
	int rc = 0;
	for (uint64_t i = 0; i < 2 && rc == 0; i++) {
		bool tree = (round + i) % 2 == 0;
		rc = crowd(h, tree, 1000000 + (2 * round + i) * STREAMS_MOST, &rate[tree], e);
	}
	if (rc)
		return rc;
	h->rates[0][h->crowds] = rate[0];
	h->rates[1][h->crowds] = rate[1];
	h->shares[h->crowds++] = 100 * rate[0] / rate[1];
	return 0;
}

/* ---- all of it ---- */

static int prepare(struct http *h, struct err *e)
{
	struct reads *r = malloc(sizeof *r);
	if (!r)
		return err_set(e, ENOMEM, "no memory for an answer");
	int rc = mounted_begin(&h->at, true, e);
	if (rc == 0)
		rc = mounted_short(&h->at, h->tokens, e);
	if (rc == 0)
		rc = ask_tree(h, "hello", r, e); /* loads the model */
	free(r);
	return rc == 0 ? gateway_begin(&h->server, h->program, h->at.where, e) : rc;
}

static void tell(struct http *h, struct report *r)
{
	static const struct column COLUMNS[] = {MEASURED_COLUMNS,
						{"rate", "many: KB of text/s", 1}};
	static const char *const NAMES[] = {"files", "moefs-http"};
	struct measured *all[] = {&h->tree, &h->http};
	struct table t;
	table_begin(&t, r, "http", "medians (5th-95th of a hundred; of rounds)", COLUMNS, 5);
	for (size_t i = 0; i < 2; i++) {
		measured_tell(all[i], NAMES[i], &t);
		for (uint64_t k = 0; k < h->crowds; k++)
			h->rates[!i][k] *= 1e-3;
		struct summary rate =
			h->crowds ? summarise(h->rates[!i], h->crowds) : (struct summary){0};
		if (h->crowds)
			table_summary(&t, &rate);
		else
			table_none(&t);
	}
	table_end(&t);
	if (!h->crowds)
		return;
	struct summary share = summarise(h->shares, h->crowds);
	report_number(r, "share", "many over HTTP, % of the files' rate", share.median, 0);
	report_number(r, "share_least", "  least", share.least, 0);
	report_number(r, "share_most", "  most", share.most, 0);
}

static int measure(struct http *h, struct err *e)
{
	int rc = mounted_create(&h->at, e);
	if (rc == 0)
		rc = measured_create(&h->tree, e);
	if (rc == 0)
		rc = measured_create(&h->http, e);
	if (rc == 0)
		rc = prepare(h, e);
	for (uint64_t i = 0; i < h->effort.rounds && rc == 0; i++) {
		rc = ask_all(h, i, e);
		if (rc == 0 && h->streams)
			rc = crowds(h, i, e);
	}
	return rc;
}

int http_command(int argc, char **argv, struct err *e)
{
	struct http *h = calloc(1, sizeof *h);
	if (!h)
		return err_set(e, ENOMEM, "no memory to measure with");
	*h = (struct http){.effort = effort_default(), .asks = 20, .tokens = 32, .streams = 32};
	struct bench_option options[] = {
		EFFORT_OPTIONS(&h->effort),
		{"asks", OPTION_NUMBER, &h->asks, 1, 99, "questions of each round"},
		{"tokens", OPTION_NUMBER, &h->tokens, 2, 1000, "of an answer, at most"},
		{"streams", OPTION_NUMBER, &h->streams, 0, STREAMS_MOST, "at once; 0: none"},
		{"http", OPTION_TEXT, &h->program, 0, 0, "moefs-http (default: beside this)"},
		{"store", OPTION_TEXT, &h->at.store, 0, 0, "folder of stores, as moefs -o store="}};
	struct command_line line = {"http MODEL", options, sizeof options / sizeof *options,
				    &h->at.model, 1};
	struct report r;
	int rc = command_line_parse(&line, argc, argv, e);
	if (rc) {
		free(h);
		return rc < 0 ? rc : 0;
	}
	report_begin(&r, "http", h->effort.json);
	rc = measure(h, e);
	gateway_end(&h->server);
	mounted_free(&h->at);
	if (rc == 0)
		tell(h, &r);
	measured_free(&h->tree);
	measured_free(&h->http);
	free(h);
	int ended = report_end(&r, rc < 0 ? NULL : e);
	return rc < 0 ? rc : ended;
}
