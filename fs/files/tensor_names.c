/* See tensor_names.h. */
#include "fs/files/tensor_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ENDING ".npy"
enum {
	NAME_MOST = TENSOR_FILE_NAME - sizeof ENDING, /* bytes: 251 */
	SUM_DIGITS = 16,
	CUT_AT = NAME_MOST - 1 - SUM_DIGITS,
};

/* FNV-1a, 64 bits: good enough to tell the names of one checkpoint apart. */
static uint64_t tensor_name_sum(const char *name)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	for (; *name; name++)
		sum = (sum ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return sum;
}

static bool tensor_name_escapes(const char *name, size_t i)
{
	uint8_t byte = (uint8_t)name[i];
	return byte < 0x20 || byte == 0x7f || byte == '/' || byte == '%' || (byte == '.' && !i);
}

/* Where to tensor_name_cut a name that is too long: at most at `length`, and not within a UTF-8
 * character. */
static size_t tensor_name_cut(const char *name, size_t length)
{
	while (length > 0 && ((uint8_t)name[length] & 0xc0) == 0x80)
		length--;
	return length;
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
	size_t end = whole ? strlen(name) : tensor_name_cut(name, fits);
	char *to = file;
	for (size_t i = 0; i < end; i++)
		if (tensor_name_escapes(name, i))
			to += sprintf(to, "%%%02X", (uint8_t)name[i]);
		else
			*to++ = name[i];
	if (!whole)
		to += sprintf(to, "~%016" PRIx64, tensor_name_sum(name));
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
