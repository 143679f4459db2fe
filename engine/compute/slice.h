#pragma once

/* Tells the scheduler that the calling thread computes for long and that nobody waits for it by the
 * microsecond: it asks for the longest slice of time. From Linux 6.12 on, whoever wakes up with a
 * shorter one, and that is everybody else, is then run at once in its place: the loop thread and
 * the readers of the tree have no processor of their own while a model answers. Its share of the
 * processor stays what it was. Older kernels take no notice; no failure matters. */
void slice_ask_long(void);
