/* See listing.h. */
#include "fs/gateway/listing.h"
#include "fs/gateway/body/fields.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The id at a place of the list; NULL, which is null there: nothing is. */
static struct json_object *id_at(struct json_object *data, size_t place)
{
	struct json_object *id = NULL;
	json_object_object_get_ex(json_object_array_get_idx(data, place), "id", &id);
	return json_object_get(id);
}

struct page {
	size_t from, to; /* places in the list; to: behind the last */
	bool more;	 /* beyond it, in the direction that is asked for */
};

const char *listing_query(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

static int page_limit(const struct request *r, const struct listing_way *way, size_t *limit,
		      struct problem *p)
{
	const char *text = listing_query(r, "limit");
	*limit = way->limit;
	if (!text)
		return 0;
	*limit = strspn(text, "0123456789") == strlen(text) && strlen(text) < 6
			 ? strtoul(text, NULL, 10)
			 : 0;
	return *limit && *limit <= way->most
		       ? 0
		       : problem_set(p, PROBLEM_INVALID, "limit",
				     "limit: must be a number from 1 to %zu", way->most);
}

/* The place of the object that a query names; SIZE_MAX: it names none. */
static int page_place(const struct request *r, const char *query, struct json_object *data,
		      size_t *place, struct problem *p)
{
	const char *id = query ? listing_query(r, query) : NULL;
	size_t count = json_object_array_length(data);
	*place = SIZE_MAX;
	if (!id)
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct json_object *is = field_get(json_object_array_get_idx(data, i), "id");
		if (strcmp(json_object_get_string(is), id) == 0) {
			*place = i;
			return 0;
		}
	}
	return problem_set(p, PROBLEM_INVALID, query, "%s: nothing there is called '%.100s'", query,
			   id);
}

static int page_read(const struct request *r, const struct listing_way *way,
		     struct json_object *data, struct page *page, struct problem *p)
{
	size_t limit, after, before, count = json_object_array_length(data);
	if (page_limit(r, way, &limit, p) || page_place(r, way->after, data, &after, p) ||
	    page_place(r, way->before, data, &before, p))
		return -1;
	page->from = after == SIZE_MAX ? 0 : after + 1;
	page->to = before == SIZE_MAX ? count : before;
	if (page->to < page->from)
		page->to = page->from;
	page->more = page->to - page->from > limit;
	if (page->more && before != SIZE_MAX)
		page->from = page->to - limit;
	else if (page->more)
		page->to = page->from + limit;
	return 0;
}

enum MHD_Result listing_reply(struct request *r, struct json_object *data,
			      const struct listing_way *way)
{
	struct problem p = {0};
	struct page page;
	if (page_read(r, way, data, &page, &p)) {
		json_object_put(data);
		return reply_problem(r, &p);
	}
	json_object_array_del_idx(data, page.to, json_object_array_length(data) - page.to);
	json_object_array_del_idx(data, 0, page.from);
	struct json_object *all = json_object_new_object();
	json_object_object_add(all, "object", json_object_new_string("list"));
	json_object_object_add(all, "first_id", id_at(data, 0));
	json_object_object_add(all, "last_id", id_at(data, page.to - page.from - 1));
	json_object_object_add(all, "has_more", json_object_new_boolean(page.more));
	json_object_object_add(all, "data", data);
	return reply_json(r, MHD_HTTP_OK, all);
}
