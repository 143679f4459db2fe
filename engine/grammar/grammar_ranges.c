/* Sets of characters, as the classes of regular expressions are. */
#include "engine/grammar/grammar_inside.h"

void ranges_add(struct char_ranges *set, uint32_t from, uint32_t to)
{
	if (set->count == CHAR_RANGES_MAX)
		set->full = true;
	else
		set->at[set->count++] = (struct char_range){from, to};
}

/* Ascending and apart. */
void ranges_sort(struct char_ranges *set)
{
	uint32_t kept = 0;
	for (uint32_t i = 1; i < set->count; i++) {
		struct char_range moving = set->at[i];
		uint32_t k = i;
		for (; k && set->at[k - 1].from > moving.from; k--)
			set->at[k] = set->at[k - 1];
		set->at[k] = moving;
	}
	for (uint32_t i = 0; i < set->count; i++) {
		if (kept && set->at[i].from <= set->at[kept - 1].to + 1) {
			if (set->at[i].to > set->at[kept - 1].to)
				set->at[kept - 1].to = set->at[i].to;
		} else {
			set->at[kept++] = set->at[i];
		}
	}
	set->count = kept;
}

/* All others. */
void ranges_invert(struct char_ranges *set)
{
	struct char_ranges others = {.full = set->full};
	uint32_t from = 0;
	ranges_sort(set);
	for (uint32_t i = 0; i < set->count; i++) {
		if (set->at[i].from > from)
			ranges_add(&others, from, set->at[i].from - 1);
		from = set->at[i].to + 1;
	}
	if (from <= CHARACTER_MAX)
		ranges_add(&others, from, CHARACTER_MAX);
	*set = others;
}

/* The classes that a letter stands for; in upper case, all others. */
static const struct class
{
	char letter;
	uint32_t count;
	struct char_range at[10];
} classes[] = {
	{'d', 1, {{'0', '9'}}},
	{'w', 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
	{'s',
	 10,
	 {{'\t', '\r'},
	  {' ', ' '},
	  {0xa0, 0xa0},
	  {0x1680, 0x1680},
	  {0x2000, 0x200a},
	  {0x2028, 0x2029},
	  {0x202f, 0x202f},
	  {0x205f, 0x205f},
	  {0x3000, 0x3000},
	  {0xfeff, 0xfeff}}},
};
enum { CLASSES = sizeof classes / sizeof *classes };

bool ranges_add_class(struct char_ranges *set, char letter)
{
	for (int i = 0; i < CLASSES; i++) {
		struct char_ranges one = {0};
		if ((letter | 0x20) != classes[i].letter)
			continue;
		for (uint32_t k = 0; k < classes[i].count; k++)
			ranges_add(&one, classes[i].at[k].from, classes[i].at[k].to);
		if (letter != classes[i].letter)
			ranges_invert(&one);
		for (uint32_t k = 0; k < one.count; k++)
			ranges_add(set, one.at[k].from, one.at[k].to);
		return true;
	}
	return false;
}
