#include "engine/template/template_call.h"

const struct language TEMPLATE_LANGUAGE = {
	.filters = TEMPLATE_FILTERS,
	.list_filters = TEMPLATE_LIST_FILTERS,
	.tests = TEMPLATE_TESTS,
	.globals = TEMPLATE_GLOBALS,
	.text_methods = TEXT_METHODS,
	.dict_methods = DICT_METHODS,
	.list_methods = LIST_METHODS,
};
