/* The known word that a mistyped one is nearest to, for "did you mean". */
#ifndef MOEFS_FS_SPELLING_H
#define MOEFS_FS_SPELLING_H

struct spelling {
	const char *word;    /* as it was typed */
	const char *nearest; /* of those that were tried; NULL: none is like it */
	unsigned changes;    /* between the two */
};

/* Compares one known word. It has to live as long as `nearest` is used. */
void spelling_try(struct spelling *s, const char *known);

#endif
