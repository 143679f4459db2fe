/* libFuzzer on messages.json: any bytes are refused with a sentence, or are a conversation that
 * reads back the same and can be given to a template. */
#include "engine/template/chat_messages.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct messages *m)
{
	struct messages again = {0};
	struct text_out one = {0}, two = {0}, given = {0};
	struct json *list;
	struct err e = {0};
	messages_write(m, &one);
	if (messages_read(&again, one.bytes, one.n, &e))
		abort();
	messages_write(&again, &two);
	if (one.n != two.n || memcmp(one.bytes, two.bytes, one.n) != 0)
		abort();
	messages_for_template(m, &given);
	if (given.failed)
		abort();
	/* arguments that were a text may be nested deeper afterwards */
	if (json_parse_text(&list, given.bytes, given.n, "messages", &e) == 0)
		json_free(list);
	messages_free(&again);
	text_out_free(&one);
	text_out_free(&two);
	text_out_free(&given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct messages m = {0};
	struct err e = {0};
	struct json *tools;
	int rc = messages_read(&m, (const char *)data, size, &e);
	if (rc && (e.code != -rc || !e.text[0] || m.count))
		abort();
	if (rc == 0)
		use(&m);
	messages_free(&m);
	if (json_parse_text(&tools, (const char *)data, size, "tools.json", &e) == 0) {
		(void)message_check_tools(tools, &e);
		json_free(tools);
	}
	return 0;
}
