/* An error: an errno and a word for programs, and one sentence for people.
 *
 * Every function that can fail for a reason worth telling takes a `struct err *` as its last
 * argument. It returns 0, or a negative errno with the sentence filled in. The sentence names the
 * file, tensor or value and says what to do. An error is built where it is found and passed up
 * unchanged. Only main() prints and exits.
 *
 * The error type is in the lowest layer that can fail, so that every layer above can use it.
 */
#ifndef MOEFS_CACHE_ERR_H
#define MOEFS_CACHE_ERR_H

#include <stdint.h>

enum { ERR_NUMBERS = 2 };

struct err {
	int code;	  /* an errno, 0 while nothing has failed */
	const char *word; /* static; NULL: the errno's own word (err_word) */
	/* Numbers from the sentence that a program needs, such as the length of a prompt. The first
	 * NULL name ends the list. */
	struct {
		const char *name; /* static */
		uint64_t value;
	} numbers[ERR_NUMBERS];
	/* Length of the reason: the end of `text` that says what is wrong without naming the file,
	 * for a caller that knows the value under another name. 0: the text has no such part. */
	unsigned reason;
	char text[1024]; /* one sentence, UTF-8, no newline at the end */
};

/* Fills *e (which may be NULL) and returns -code, so that a failure is one line:
 *     return err_set(e, EINVAL, "%s: ...", path);
 * Control characters (from a hostile file's names), which would break the line, and bytes that are
 * not UTF-8 become '?'. The word, the numbers and the reason are cleared. */
__attribute__((format(printf, 3, 4))) int err_set(struct err *e, int code, const char *format, ...);

/* err_set for a failed system call: appends ": " and the words for `code` to the sentence. EIO gets
 * the word "read_failed". A code of 0 becomes EIO: a failure is never 0. */
__attribute__((format(printf, 3, 4))) int err_sys(struct err *e, int code, const char *format, ...);
/* err_set for a file whose bytes have changed since they were written: EIO, word "damaged". */
__attribute__((format(printf, 2, 3))) int err_damaged(struct err *e, const char *format, ...);

/* err_set for a failure that another failure caused. The sentence is new; the cause's word and
 * numbers are kept, and its reason if the new sentence ends with that reason. e may be the cause,
 * and its text may be among the arguments. */
__attribute__((format(printf, 4, 5))) int err_because(struct err *e, const struct err *cause,
						      int code, const char *format, ...);

/* Sets the word by which programs recognise a failure if the errno is not enough, in snake_case.
 * Returns -e->code, or 0 if e is NULL (the caller knows the code). moefs(5) lists all words. */
int err_name(struct err *e, const char *word);
/* Adds a number to the error; numbers beyond ERR_NUMBERS are dropped. */
void err_number(struct err *e, const char *name, uint64_t value);
/* Marks `why`, with which the text must end, as the reason. */
void err_reason(struct err *e, const char *why);
/* The reason, or NULL. */
const char *err_why(const struct err *e);
/* The failure's word, or the word of its errno; never NULL. */
const char *err_word(const struct err *e);

#endif
