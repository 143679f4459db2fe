/* Words on a command line that were perhaps meant as options. Shared by the commands that take
 * options first and words of any kind after them. */
#ifndef MOEFS_FS_COMMANDS_OPTION_WORD_H
#define MOEFS_FS_COMMANDS_OPTION_WORD_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>

/* One or two hyphens, a letter, and no blank anywhere: "-n", "--json", "-p=1"; not "-", "-5" or
 * "- is that a list?". */
bool option_word_is_one(const char *word);
/* Refuses the first of the words that looks like an option (-EINVAL), with a hint at --. where: what
 * options must stand before, as "the question". */
int option_word_refuse(char **words, size_t count, const char *where, struct err *e);

#endif
