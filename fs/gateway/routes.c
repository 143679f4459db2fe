/* The table of all that is served. See routes.h.
 *
 * To add an endpoint, add a row, and its handler where its protocol is. */
#include "fs/gateway/routes.h"
#include "fs/gateway/handlers.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct route rows[] = {
	{"GET",  "/v1/models",           PROTOCOL_OPENAI, 0,          models_list},
	{"GET",  "/v1/models/",          PROTOCOL_OPENAI, 0,          models_one},
	{"POST", "/v1/chat/completions", PROTOCOL_OPENAI, ROUTE_JSON, chat_completions},
	{"POST", "/v1/messages",         PROTOCOL_ANTHROPIC, ROUTE_JSON, anthropic_create},
	{"POST", "/v1/messages/count_tokens", PROTOCOL_ANTHROPIC, ROUTE_JSON, anthropic_count},
	{"POST", "/v1/responses",        PROTOCOL_OPENAI, ROUTE_JSON, responses_create},
	{"POST", "/v1/responses/input_tokens", PROTOCOL_OPENAI, ROUTE_JSON, responses_count},
	{"POST", "/v1/responses/",       PROTOCOL_OPENAI, 0,          responses_other},
	{"GET",  "/v1/responses/",       PROTOCOL_OPENAI, 0,          responses_get},
	{"DELETE", "/v1/responses/",     PROTOCOL_OPENAI, 0,          responses_delete},
	{"POST", "/v1/completions",      PROTOCOL_OPENAI, ROUTE_JSON, completions},
	{"POST", "/tokenize",            PROTOCOL_OPENAI, ROUTE_JSON, tokenize},
	{"POST", "/detokenize",          PROTOCOL_OPENAI, ROUTE_JSON, detokenize},
	{"GET",  "/health",              PROTOCOL_OPENAI, ROUTE_OPEN, health},
	{"GET",  "/metrics",             PROTOCOL_OPENAI, 0,          metrics},
	{"GET",    "/",           PROTOCOL_OPENAI, ROUTE_OPEN | ROUTE_PAGE, page_get},
	{"GET",    "/page/",      PROTOCOL_OPENAI, ROUTE_OPEN | ROUTE_PAGE, page_get},
	{"GET",    "/tree",       PROTOCOL_OPENAI, ROUTE_PAGE,              files_get},
	{"GET",    "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              files_get},
	{"PUT",    "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              files_put},
	{"POST",   "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              files_make},
	{"DELETE", "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              files_remove},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof *rows };

static bool has_path(const struct route *row, const char *path)
{
	size_t n = strlen(row->path);
	bool below = n > 1 && row->path[n - 1] == '/';
	return below ? !strncmp(path, row->path, n) && path[n] : !strcmp(path, row->path);
}

const struct route *route_find(const char *method, const char *path, const struct route **other)
{
	/* What asks for a page's head alone gets it; the library leaves its body out. */
	if (!strcmp(method, "HEAD"))
		method = "GET";
	*other = NULL;
	for (unsigned i = 0; i < ROWS; i++) {
		if (!has_path(&rows[i], path))
			continue;
		if (!strcmp(rows[i].method, method))
			return &rows[i];
		*other = &rows[i];
	}
	return NULL;
}

void route_methods(const char *path, char *methods, size_t size)
{
	size_t n = 0;
	*methods = 0;
	for (unsigned i = 0; i < ROWS && n < size; i++)
		if (has_path(&rows[i], path))
			n += (size_t)snprintf(methods + n, size - n, "%s%s%s", n ? ", " : "",
					      rows[i].method,
					      strcmp(rows[i].method, "GET") ? "" : ", HEAD");
}
