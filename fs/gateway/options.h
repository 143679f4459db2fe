/* The command line: `moefs-http [options] TREE`. */
#ifndef MOEFS_FS_GATEWAY_OPTIONS_H
#define MOEFS_FS_GATEWAY_OPTIONS_H

#include "cache/err.h"

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

struct options { /* strings are its own, but for defaults; options_free */
	const char *tree;
	const char *listen; /* ADDR:PORT or unix:PATH */
	const char *cert, *key, *key_file;
	const char *cors; /* an origin, or *; NULL: none */
	const char *host; /* one more name that a Host header may have */
	regex_t *ignored; /* lines of system texts that are left out; NULL: none are */
	const char *poll; /* on or off; NULL: by the tree */
	bool log_prompts, verbose, help, version;
	unsigned timeout; /* seconds that a client may take for a step of the talk */
	unsigned connections, active, queue, keep, body;
};

int options_parse(struct options *o, int argc, char **argv, struct err *e);
void options_free(struct options *o);

#endif
