/* A model's words on a terminal. See screen.h. */
#include "fs/commands/screen.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static int put(const struct screen *s, const char *data, size_t size, struct err *e)
{
	while (size) {
		ssize_t n = write(s->fd, data, size);
		if (n < 0 && errno != EINTR)
			return err_sys(e, errno, "cannot write the answer");
		data += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Bytes of the character that begins with this byte, as it says itself. */
static size_t length_of(unsigned char lead)
{
	return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
}

static void add_ascii(struct text *out, char c)
{
	if (c == '\n' || c == '\t' || (c >= ' ' && c != 0x7f))
		text_add(out, &c, 1);
	else
		text_format(out, "^%c", c ^ 0x40);
}

/* Characters that are whole; of the rest there are fewer bytes than its first one promises. */
static size_t add_whole(struct text *out, const struct text *from, bool last)
{
	size_t at = 0;
	while (at < from->length) {
		const unsigned char *c = (const unsigned char *)from->data + at;
		size_t left = from->length - at;
		utf8proc_int32_t code;
		if (left < length_of(*c) && !last)
			break;
		utf8proc_ssize_t n = utf8proc_iterate(c, (utf8proc_ssize_t)left, &code);
		if (n == 1)
			add_ascii(out, (char)*c);
		else if (n < 0 || code < 0xa0)
			text_string(out, replacement);
		else
			text_add(out, c, (size_t)n);
		at += n > 0 ? (size_t)n : 1;
	}
	return at;
}

static int show_whole(struct screen *s, bool last, struct err *e)
{
	struct text out = {0};
	if (s->dim && !s->begun)
		text_string(&out, "\033[2m");
	size_t before = out.length, done = add_whole(&out, &s->held, last);
	int code = out.failed || s->held.failed ? err_set(e, ENOMEM, "no memory for an answer") : 0;
	if (!code && out.length > before) {
		s->begun = true;
		s->last = out.data[out.length - 1];
		code = put(s, out.data, out.length, e);
	}
	if (done) {
		memmove(s->held.data, s->held.data + done, s->held.length - done);
		text_cut(&s->held, s->held.length - done);
	}
	text_free(&out);
	return code;
}

void screen_begin(struct screen *s, int fd, bool dim)
{
	*s = (struct screen){.fd = fd, .terminal = isatty(fd)};
	s->dim = dim && s->terminal;
}

int screen_show(struct screen *s, const char *data, size_t size, struct err *e)
{
	if (!s->terminal)
		return put(s, data, size, e);
	text_add(&s->held, data, size);
	return show_whole(s, false, e);
}

int screen_end(struct screen *s, struct err *e)
{
	int code = s->terminal ? show_whole(s, true, e) : 0;
	text_free(&s->held);
	if (!code && s->begun && s->dim)
		code = put(s, "\033[0m", 4, e);
	if (!code && s->begun && s->last != '\n')
		code = put(s, "\n", 1, e);
	return code;
}
