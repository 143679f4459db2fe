/* Rows to words, for avx2_arrange.c and avx512_arrange.c: the same steps in registers of two lanes
 * of 128 bits and of four. Whoever includes it has defined the register (wide_rows), what is done
 * to it (the names in capitals), and load_rows and load_short_rows, which fill lane i with row 4 i
 * behind the first. Included once in each, where `lanes` is known. */
/* Words of rows in registers, row r of each lane in row[r]. */
ALWAYS_INLINE void first_two_words(lanes to[2], const wide_rows row[4])
{
	const wide_rows a = UNPACK_LOW_WORDS(row[0], row[1]), b = UNPACK_LOW_WORDS(row[2], row[3]);
	to[0] = (lanes)UNPACK_LOW_PAIRS(a, b);
	to[1] = (lanes)UNPACK_HIGH_PAIRS(a, b);
}
ALWAYS_INLINE void last_two_words(lanes to[2], const wide_rows row[4])
{
	const wide_rows a = UNPACK_HIGH_WORDS(row[0], row[1]),
			b = UNPACK_HIGH_WORDS(row[2], row[3]);
	to[0] = (lanes)UNPACK_LOW_PAIRS(a, b);
	to[1] = (lanes)UNPACK_HIGH_PAIRS(a, b);
}

ALWAYS_INLINE void load_four(lanes to[4], const uint8_t *at, size_t stride)
{
	wide_rows row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = load_rows(at + r * stride, stride);
	first_two_words(to, row);
	last_two_words(to + 2, row);
}

ALWAYS_INLINE void load_two(lanes to[2], const uint8_t *at, size_t stride)
{
	wide_rows row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = load_short_rows(at + r * stride, stride);
	first_two_words(to, row);
}

ALWAYS_INLINE void load_mixed(lanes to[4], const uint8_t *at, size_t stride)
{
	const wide_rows order =
		IN_EACH_LANE(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
	wide_rows row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = SHUFFLE_BYTES(load_rows(at + r * stride, stride), order);
	first_two_words(to, row);
	last_two_words(to + 2, row);
}
