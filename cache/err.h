/* An error: an errno and a word for programs, and one sentence for people.
 *
 * Every function that can fail for a reason worth telling takes a `struct err *` as its last
 * argument and returns 0, or a negative errno with the sentence filled in. The sentence names the
 * file, tensor or value concerned and says what to do. Errors are built where they are found and
 * passed up unchanged; only main() prints and only main() exits.
 *
 * This lives in the lowest layer that can fail so that every layer above may use it.
 */
#ifndef MOEFS_CACHE_ERR_H
#define MOEFS_CACHE_ERR_H

#include <stdint.h>

enum { ERR_NUMBERS = 2 };

struct err {
	int code;	  /* an errno, 0 while nothing has failed */
	const char *word; /* static; NULL: the errno's own (err_word) */
	/* What a program needs of the sentence, such as how long a prompt was. NULL: no more. */
	struct {
		const char *name; /* static */
		uint64_t value;
	} numbers[ERR_NUMBERS];
	/* Bytes at the end of `text` that say what is wrong, without the name of the file: for a
	 * caller that knows the value under another name. 0: the text has no such part.
	 */
	unsigned reason;
	char text[1024]; /* one sentence, UTF-8, no newline at the end */
};

/* Fills *e (which may be NULL) and returns -code, so that a failure is one line:
 *     return err_set(e, EINVAL, "%s: ...", path);
 * Bytes that would break a line (control characters in a hostile file's names) become '?', and so
 * do bytes that are not UTF-8. The word, the numbers and the reason are cleared. */
__attribute__((format(printf, 3, 4))) int err_set(struct err *e, int code, const char *format, ...);

/* The same for a failed system call: appends ": " and the words for `code` to the sentence. EIO has
 * the word "read_failed". A code of 0 becomes EIO: a failure is never 0. */
__attribute__((format(printf, 3, 4))) int err_sys(struct err *e, int code, const char *format, ...);
/* A file's bytes have changed since they were written: EIO, word "damaged". */
__attribute__((format(printf, 2, 3))) int err_damaged(struct err *e, const char *format, ...);

/* The same for a failure that has another as its cause: the words are new, and the cause's word and
 * numbers stay, and its reason if they end with that. e may be the cause, and its text among the
 * arguments. */
__attribute__((format(printf, 4, 5))) int err_because(struct err *e, const struct err *cause,
						      int code, const char *format, ...);

/* The word by which programs know a failure, snake_case, where the errno alone does not tell.
 * Returns -e->code; 0 for NULL, whose caller has the code. All words are listed in moefs(5). */
int err_name(struct err *e, const char *word);
/* Adds a number to the error; numbers beyond ERR_NUMBERS are dropped. */
void err_number(struct err *e, const char *name, uint64_t value);
/* Marks `why`, with which the text ends, as its reason. */
void err_reason(struct err *e, const char *why);
/* The reason, or NULL. */
const char *err_why(const struct err *e);
/* The failure's word, or its errno's; never NULL. */
const char *err_word(const struct err *e);

#endif
