/* Words that look like options. See option_word.h. */
#include "fs/commands/option_word.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

bool option_word_is_one(const char *word)
{
	size_t hyphens = strspn(word, "-");
	return (hyphens == 1 || hyphens == 2) && isalpha((unsigned char)word[hyphens]) &&
	       !strpbrk(word, " \t\n");
}

int option_word_refuse(char **words, size_t count, const char *where, struct err *e)
{
	for (size_t i = 0; i < count; i++)
		if (option_word_is_one(words[i]))
			return err_set(e, EINVAL,
				       "%.200s: options come before %s; if it is no option, put -- "
				       "before %s",
				       words[i], where, where);
	return 0;
}
