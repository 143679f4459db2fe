/* The table of all routes. See http_request.h.
 *
 * To add an endpoint, add a row here, and a handler in the folder of its protocol. */
#include "fs/gateway/http_request.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct route rows[] = {
	{"GET",  "/v1/models",           PROTOCOL_OPENAI, 0,          openai_list_models},
	{"GET",  "/v1/models/",          PROTOCOL_OPENAI, 0,          openai_get_model},
	{"POST", "/v1/chat/completions", PROTOCOL_OPENAI, ROUTE_JSON, chat_completions},
	{"POST", "/v1/messages",         PROTOCOL_ANTHROPIC, ROUTE_JSON, anthropic_create},
	{"POST", "/v1/messages/count_tokens", PROTOCOL_ANTHROPIC, ROUTE_JSON, anthropic_count},
	{"POST", "/v1/responses",        PROTOCOL_OPENAI, ROUTE_JSON, responses_create},
	{"POST", "/v1/responses/input_tokens", PROTOCOL_OPENAI, ROUTE_JSON, responses_count},
	{"POST", "/v1/responses/",       PROTOCOL_OPENAI, 0,          responses_other},
	{"GET",  "/v1/responses/",       PROTOCOL_OPENAI, 0,          responses_get},
	{"DELETE", "/v1/responses/",     PROTOCOL_OPENAI, 0,          responses_delete},
	{"POST", "/v1/completions",      PROTOCOL_OPENAI, ROUTE_JSON, completions},
	{"POST", "/v1/embeddings",       PROTOCOL_OPENAI, ROUTE_JSON, embeddings_create},
	{"POST", "/tokenize",            PROTOCOL_OPENAI, ROUTE_JSON, tokens_tokenize},
	{"POST", "/detokenize",          PROTOCOL_OPENAI, ROUTE_JSON, tokens_detokenize},
	{"GET",  "/health",              PROTOCOL_OPENAI, ROUTE_OPEN, status_health},
	{"GET",  "/metrics",             PROTOCOL_OPENAI, 0,          status_metrics},
	{"GET",    "/",           PROTOCOL_OPENAI, ROUTE_OPEN | ROUTE_PAGE, web_page},
	{"GET",    "/page/",      PROTOCOL_OPENAI, ROUTE_OPEN | ROUTE_PAGE, web_page},
	{"GET",    "/tree",       PROTOCOL_OPENAI, ROUTE_PAGE,              web_read},
	{"GET",    "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              web_read},
	{"PUT",    "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              web_write},
	{"POST",   "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              web_make},
	{"DELETE", "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              web_remove},
	{"MOVE",   "/tree/",      PROTOCOL_OPENAI, ROUTE_PAGE,              web_move},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof *rows };

static bool route_has_path(const struct route *row, const char *path)
{
	size_t n = strlen(row->path);
	bool below = n > 1 && row->path[n - 1] == '/';
	return below ? !strncmp(path, row->path, n) && path[n] : !strcmp(path, row->path);
}

const struct route *route_find(const char *method, const char *path, const struct route **other)
{
	/* The library omits the body for HEAD. */
	if (!strcmp(method, "HEAD"))
		method = "GET";
	*other = NULL;
	for (unsigned i = 0; i < ROWS; i++) {
		if (!route_has_path(&rows[i], path))
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
		if (route_has_path(&rows[i], path))
			n += (size_t)snprintf(methods + n, size - n, "%s%s%s", n ? ", " : "",
					      rows[i].method,
					      strcmp(rows[i].method, "GET") ? "" : ", HEAD");
}
