/* The names of revisions in a hub's cache: refs/NAME says which hash a branch or tag has, and so
 * which folder of snapshots. */
#include "engine/library/library_list.h"

#include "engine/json/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HASH_MOST = 128, SHORT_HASH = 8 }; /* characters */

struct library_ref {
	const char *hash;
	const char *above;	     /* of a name such as refs/pr/1: "pr-"; else "" */
	char name[LIBRARY_REVISION]; /* the result; empty: no name has this hash */
};

static bool library_ref_is(const char *path, const char *hash)
{
	char *text;
	size_t n;
	struct err none;
	if (json_read_file(&text, &n, path, HASH_MOST, &none))
		return false;
	bool is = strcspn(text, "\r\n") == strlen(hash) && !strncmp(text, hash, strlen(hash));
	free(text);
	return is;
}

static void library_ref_entry(void *ctx, const char *path, const char *name)
{
	struct library_ref *r = ctx, inside = *r;
	struct stat st;
	char above[LIBRARY_REVISION];
	if (*r->name || stat(path, &st))
		return;
	if (S_ISDIR(st.st_mode) && !*r->above) {
		(void)snprintf(above, sizeof above, "%.*s-", LIBRARY_REVISION - 3, name);
		inside.above = above;
		(void)library_each(path, library_ref_entry, &inside);
		memcpy(r->name, inside.name, LIBRARY_REVISION);
	} else if (library_ref_is(path, r->hash)) {
		(void)snprintf(r->name, LIBRARY_REVISION, "%s%s", r->above, name);
	}
}

void library_revision(const char *folder, const char *hash, char suffix[LIBRARY_REVISION])
{
	struct library_ref r = {.hash = hash, .above = ""};
	char refs[PATH_MAX];
	if (snprintf(refs, sizeof refs, "%s/refs", folder) < (int)sizeof refs)
		(void)library_each(refs, library_ref_entry, &r);
	(void)snprintf(suffix, LIBRARY_REVISION, "@%.*s",
		       *r.name ? LIBRARY_REVISION - 2 : SHORT_HASH, *r.name ? r.name : hash);
}
