/* An error: an errno code for programs and one sentence for people.
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

struct err {
	int code;	 /* an errno, 0 while nothing has failed */
	char text[1024]; /* one sentence, UTF-8, no newline at the end */
};

/* Fills *e (which may be NULL) and returns -code, so that a failure is one line:
 *     return err_set(e, EINVAL, "%s: ...", path);
 * Bytes that would break a line (control characters in a hostile file's names) become '?'. */
__attribute__((format(printf, 3, 4))) int err_set(struct err *e, int code, const char *format, ...);

/* The same for a failed system call: appends ": " and the words for `code` to the sentence. */
__attribute__((format(printf, 3, 4))) int err_sys(struct err *e, int code, const char *format, ...);

#endif
