/* See tensor_names.h. */
#include "fs/files/tensor_names.h"
#include "cache/utf8.h"
#include "fs/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ENDING ".npy"
enum {
	NAME_MOST = TENSOR_FILE_NAME - sizeof ENDING, /* bytes: 251 */
	SUM_DIGITS = 16,
	CUT_AT = NAME_MOST - 1 - SUM_DIGITS,
};

static bool tensor_name_escapes(const char *name, size_t i)
{
	uint8_t byte = (uint8_t)name[i];
	return byte < 0x20 || byte == 0x7f || byte == '/' || byte == '%' || (byte == '.' && !i);
}

void tensor_file_name(const char *name, char file[TENSOR_FILE_NAME])
{
	size_t at = 0, fits = 0;
	for (size_t i = 0; name[i] && at <= NAME_MOST; i++) {
		bool written = tensor_name_escapes(name, i);
		at += written ? 3 : 1;
		if (at <= CUT_AT)
			fits = i + 1;
	}
	bool whole = at <= NAME_MOST;
	size_t end = whole ? strlen(name) : utf8_begin(name, fits);
	char *to = file;
	for (size_t i = 0; i < end; i++)
		if (tensor_name_escapes(name, i))
			to += sprintf(to, "%%%02X", (uint8_t)name[i]);
		else
			*to++ = name[i];
	if (!whole) /* 64 bits are enough to distinguish the names of one checkpoint */
		to += sprintf(to, "~%016" PRIx64, text_hash(TEXT_HASH, name, strlen(name)));
	memcpy(to, ENDING, sizeof ENDING);
}

static int tensor_name_digit(char c)
{
	const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

bool tensor_name_read(const char *file, char name[TENSOR_FILE_NAME])
{
	size_t length = strlen(file), at = 0;
	if (length <= sizeof ENDING - 1 || length >= TENSOR_FILE_NAME ||
	    strcmp(file + length - (sizeof ENDING - 1), ENDING) != 0)
		return false;
	for (size_t i = 0; i < length - (sizeof ENDING - 1); i++) {
		name[at] = file[i];
		if (file[i] == '%') {
			int high = tensor_name_digit(file[i + 1]),
			    low = high < 0 ? -1 : tensor_name_digit(file[i + 2]);
			if (low < 0)
				return false;
			name[at] = (char)(high * 16 + low);
			i += 2;
		}
		if (!name[at++])
			return false;
	}
	name[at] = 0;
	return true;
}

bool tensor_name_is_cut(const char *file)
{
	size_t sum = SUM_DIGITS + sizeof ENDING; /* and the ~, for the terminator */
	size_t length = strlen(file);
	return length > sum && file[length - sum] == '~';
}
