/* Hexadecimal digits, as escapes have them. */
#ifndef MOEFS_ENGINE_JSON_HEX_H
#define MOEFS_ENGINE_JSON_HEX_H

/* -1: it is none. */
static inline int hex_digit(int c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

#endif
