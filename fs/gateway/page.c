/* GET / and /page/NAME: the web page. See page.h, and page/README.md for what it does. */
#include "fs/gateway/page.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"

#include <string.h>

static const char *type_of(const char *name)
{
	static const struct {
		const char *end, *type;
	} types[] = {{".html", "text/html; charset=utf-8"},
		     {".css", "text/css; charset=utf-8"},
		     {".js", "text/javascript; charset=utf-8"},
		     {".svg", "image/svg+xml"}};
	const char *end = strrchr(name, '.');
	for (size_t i = 0; end && i < sizeof types / sizeof *types; i++)
		if (!strcmp(end, types[i].end))
			return types[i].type;
	return "application/octet-stream";
}

enum MHD_Result page_get(struct request *r)
{
	const char *name = *r->rest ? r->rest : "index.html";
	struct problem p = {0};
	for (const struct page_file *f = page_files; f->name; f++)
		if (!strcmp(f->name, name))
			return reply_text(r, MHD_HTTP_OK, type_of(name), (const char *)f->data,
					  f->size);
	problem_set(&p, PROBLEM_NOT_FOUND, NULL, "There is nothing at %.200s", r->path);
	return reply_problem(r, &p);
}
